"""The tools of 28 real servers in every form: none is refused, and what models go by is in it."""

import pytest

from tests.catalog.forms.real_servers import defaults_in, servers
from tests.catalog.forms.test_form import check_rendered, shown_by
from tooldispatchd.catalog.forms.form import FORMS, render
from tooldispatchd.catalog.offered import Offered
from tooldispatchd.catalog.schemakeywords import subschemas

SERVERS: dict[str, list[Offered]] = servers()


def test_there_are_enough_servers() -> None:
    assert len(SERVERS) >= 25
    assert sum(map(len, SERVERS.values())) >= 75


@pytest.mark.parametrize("form", sorted(FORMS))
@pytest.mark.parametrize("server", SERVERS)
def test_a_real_tool_is_taken_without_references_with_types_and_all_defaults(server: str, form: str) -> None:
    for tool in SERVERS[server]:
        rendered = render(form, tool, "t")
        check_rendered(form, rendered)
        shown = _schema_in(form, rendered.entry)
        assert defaults_in(tool.input_schema) <= defaults_in(shown), tool.name
        parts = list(subschemas(shown))
        assert not any("$ref" in part or "$defs" in part or "definitions" in part for part in parts), tool.name
        assert all("type" in part for part in parts if "enum" in part or "const" in part), tool.name


@pytest.mark.parametrize("server", ["github", "FastMCP 4"])
def test_what_is_closed_and_requires_all_is_strict(server: str) -> None:
    functions = [render("openai_responses", tool, "t").entry for tool in SERVERS[server]]
    assert any(function["strict"] for function in functions)


def _schema_in(form: str, entry: dict[str, object]) -> dict[str, object]:
    """The schema in an entry as it is spelled there."""
    if form != "google":
        return shown_by(form, entry)
    schema = entry.get("parameters", {})
    assert isinstance(schema, dict)
    return schema
