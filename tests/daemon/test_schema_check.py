from tooldispatchd.catalog.problems import Problem
from tooldispatchd.daemon.schema_check import check_schema


def test_a_right_table_has_no_problem() -> None:
    assert check_schema({"tools": {"a": {"inline": "id", "call_s": 1, "input_schema": {"type": "string"}}}}) == []


def test_every_mistake_is_found_with_its_whole_path() -> None:
    problems = check_schema(
        {
            "limits": {"call_s": "x", "waiting": 0, "other": 1},
            "mcp": {"a": {"env": {"K": 1}}, "b c": {"command": "x"}},
            "tools": {"t": {"command": [], "args": ["a", 1]}},
        }
    )
    assert {problem.path for problem in problems} == {
        ("limits", "call_s"),
        ("limits", "waiting"),
        ("limits", "other"),
        ("mcp", "a"),
        ("mcp", "a", "env", "K"),
        ("mcp", "b c"),
        ("tools", "t", "command"),
        ("tools", "t", "args", 1),
    }


def test_a_key_of_an_optional_kind_is_told_its_own_mistake() -> None:
    assert check_schema({"mcp": {"a": {"command": "x", "call_s": 0}}}) == [
        Problem(("mcp", "a", "call_s"), "too small", value=0, allowed="a number, over 0 and at most 86400")
    ]


def test_bounds_of_length_are_told() -> None:
    name = "a" * 129
    assert check_schema({"agents": {name: {}}}) == [
        Problem(
            ("agents", name),
            "not a valid name",
            allowed='letters, digits, "-" and "_" (never two), a letter first, with dots between parts',
        )
    ]
