"""What is true of every tool of the toolbox, as a configuration offers it."""

from pathlib import Path

import msgspec
import pytest

from tooldispatchd.agent.calls.plans import offered_of
from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.forms.form import FORMS, render
from tooldispatchd.config.configuration import load_catalog
from tooldispatchd.toolbox.sets import SETS

TOOLS = [name for tool_set in SETS.values() for name in tool_set.tools]
# What a model reads of each tool before it has done anything: all of them together are some ten pages.
MAX_SCHEMA_BYTES = 2_000


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    file = tmp_path_factory.mktemp("sets") / "t.toml"
    boxes = "".join(f"[toolbox.{name}]\n" for name in SETS if name != "web")
    engine = '[toolbox.web]\nsearch = { engine = "searxng", url = "http://localhost/search" }\n'
    file.write_text(f'{boxes}{engine}[agents.default]\ntoolboxes = {list(SETS)}\nworkspace = "w"\n')
    return load_catalog(file, {})


@pytest.mark.parametrize("form", sorted(FORMS))
@pytest.mark.parametrize("tool", TOOLS)
def test_each_tool_is_in_every_form_without_loss(catalog: Catalog, tool: str, form: str) -> None:
    assert render(form, offered_of(catalog.tools[tool]), tool).notes == ()


@pytest.mark.parametrize("tool", TOOLS)
def test_each_tool_says_what_it_is_in_few_words(catalog: Catalog, tool: str) -> None:
    offered = offered_of(catalog.tools[tool])
    assert offered.title
    assert offered.hint
    assert 20 < len(offered.description) < 500
    assert offered.doc is not None
    assert len(msgspec.json.encode(offered.input_schema)) < MAX_SCHEMA_BYTES


@pytest.mark.parametrize("tool", TOOLS)
def test_each_field_of_each_tool_is_described(catalog: Catalog, tool: str) -> None:
    properties = catalog.tools[tool].input_schema.get("properties", {})
    assert isinstance(properties, dict)
    assert [name for name, field in properties.items() if not field.get("description")] == []


def test_the_profile_offers_them_all(catalog: Catalog) -> None:
    assert sorted(catalog.profiles["default"].tools) == sorted(TOOLS)


def test_a_configuration_for_coding_agents_is_right_as_it_stands() -> None:
    file = Path(__file__).parents[2] / "tooldispatchd" / "cli" / "coding-agent.toml"
    catalog = load_catalog(file, {})
    assert catalog.warnings == ()
    assert {"read", "edit", "bash", "current_date", "introspect"} <= set(catalog.profiles["default"].tools)
