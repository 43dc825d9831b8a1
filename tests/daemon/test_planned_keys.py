import pytest

from tooldispatchd.catalog import specs
from tooldispatchd.daemon.key_patterns import Pattern, Table, is_of
from tooldispatchd.daemon.planned_keys import PLANNED, take_planned

SPECS = {
    (): specs.Config,
    ("daemon",): specs.DaemonSpec,
    ("limits",): specs.LimitsSpec,
    ("mcp", "*"): specs.McpSpec,
    ("tools", "*"): specs.ToolSpec,
    ("agents", "*"): specs.ProfileSpec,
}


@pytest.mark.parametrize("pattern", PLANNED)
def test_no_planned_key_is_one_that_works_already(pattern: Pattern) -> None:
    assert pattern[-1] not in SPECS[pattern[:-1]].__struct_fields__


@pytest.mark.parametrize("pattern", PLANNED)
def test_every_planned_key_is_refused_and_taken_out(pattern: Pattern) -> None:
    value: object = "x"
    for key in reversed(pattern):
        value = {"name" if key == "*" else key: value}
    assert isinstance(value, dict)
    problems = take_planned(value)
    assert [is_of(problem.path, pattern) for problem in problems] == [True]
    assert "x" not in repr(value)


def test_a_table_of_another_shape_is_left_alone() -> None:
    table: Table = {"mcp": [{"url": 1}], "tools": "python", "agents": {"a": ["roots"]}}
    assert take_planned(table) == []
    assert table == {"mcp": [{"url": 1}], "tools": "python", "agents": {"a": ["roots"]}}
