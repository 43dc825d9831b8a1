"""Any table, and any bytes, as a configuration: a catalog or a report, and nothing else."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tooldispatchd.catalog import specs
from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.config.configuration import ConfigError, load_catalog


def toml(value: object) -> str:
    """A value as TOML writes it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(str(key))} = {toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[\n" + ",\n".join(map(toml, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value) if isinstance(value, (bool, int)) else str(value)


SCALARS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        [
            "id",
            "a:b",
            "int -> int",
            "${X}",
            "unix:x",
            "1 + 1",
            "json",
            "${A:-${B}}",
            "2020-01-01",
            "lift(a)",
            "!int -> !int",
        ]
    ),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.booleans(),
    st.dates(),
    st.datetimes(),
)
SPECS = (
    specs.Config,
    specs.DaemonSpec,
    specs.LimitsSpec,
    specs.McpSpec,
    specs.ToolSpec,
    specs.ProcessSpec,
    specs.ProfileSpec,
)
KNOWN = sorted({key for spec in SPECS for key in spec.__struct_fields__})
WORDS = st.sampled_from([*KNOWN, "a", "b", "default", "url", "python", "shared", "a__b", "a b", "é", "", "\n"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4), max_leaves=8
)
SECTIONS = st.sampled_from(["daemon", "limits", "types", "mcp", "tools", "processes", "plumb", "agents"])
TABLES = st.dictionaries(SECTIONS, st.dictionaries(WORDS, st.dictionaries(WORDS, VALUES, max_size=4) | VALUES) | VALUES)


def outcome_of(file: Path) -> Catalog | ConfigError:
    try:
        return load_catalog(file, {})
    except ConfigError as error:
        return error


@settings(deadline=None, max_examples=examples(100))
@given(TABLES)
def test_any_table_gives_a_catalog_or_a_report_with_lines(
    tmp_path_factory: pytest.TempPathFactory, table: dict[str, object]
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.toml"
    file.write_text("".join(f"{key} = {toml(value)}\n" for key, value in table.items()))
    outcome = outcome_of(file)
    assert isinstance(outcome, Catalog) or [finding.line for finding in outcome.findings if finding.line]


@settings(deadline=None, max_examples=examples(100))
@given(st.binary(max_size=60) | st.text("[]{}\"'#=.\n\\ ab1", max_size=40).map(str.encode))
def test_any_bytes_give_a_catalog_or_a_report(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "any.toml"
    file.write_bytes(content)
    assert str(outcome_of(file))
