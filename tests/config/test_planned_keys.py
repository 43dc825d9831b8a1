import pytest

from tooldispatchd.catalog import specs
from tooldispatchd.config.key_patterns import Pattern, Table, is_of
from tooldispatchd.config.planned_keys import PLANNED, take_planned

SPECS = {
    (): specs.Config,
    ("daemon",): specs.DaemonSpec,
    ("limits",): specs.LimitsSpec,
    ("mcp", "*"): specs.McpSpec,
    ("tools", "*"): specs.ToolSpec,
    ("tools", "*", "mcp"): specs.McpSpec,
    ("processes", "*"): specs.ProcessSpec,
    ("processes", "*", "mcp", "#"): specs.McpSpec,
    ("agents", "*"): specs.ProfileSpec,
}


def table_with(pattern: Pattern, value: object) -> Table:
    for key in reversed(pattern):
        value = [value] if key == "#" else {"name" if key == "*" else key: value}
    assert isinstance(value, dict)
    return value


@pytest.mark.parametrize("pattern", PLANNED)
def test_no_planned_key_is_one_that_works_already(pattern: Pattern) -> None:
    assert pattern[-1] not in SPECS[pattern[:-1]].__struct_fields__


@pytest.mark.parametrize("pattern", PLANNED)
def test_every_planned_key_is_refused_and_taken_out(pattern: Pattern) -> None:
    table = table_with(pattern, "x")
    problems = take_planned(table)
    assert [is_of(problem.path, pattern) for problem in problems] == [True]
    assert "x" not in repr(table)


def test_a_table_of_another_shape_is_left_alone() -> None:
    table: Table = {"mcp": [{"user": 1}], "tools": "python", "agents": {"a": ["nice"]}, "processes": {"p": {"mcp": 1}}}
    before = repr(table)
    assert take_planned(table) == []
    assert repr(table) == before
