import pytest

from tooldispatchd.config.key_patterns import Table, places


def test_every_place_of_a_pattern_is_found_and_can_be_put_anew() -> None:
    table: Table = {"mcp": {"a": {"args": ["x", "y"]}, "b": {"args": "z"}, "c": {}}}
    found = list(places(table, ("mcp", "*", "args", "#")))
    assert [(place.path, place.value) for place in found] == [
        (("mcp", "a", "args", 0), "x"),
        (("mcp", "a", "args", 1), "y"),
    ]
    found[1].put("w")
    assert table == {"mcp": {"a": {"args": ["x", "w"]}, "b": {"args": "z"}, "c": {}}}


@pytest.mark.parametrize("table", [{}, {"mcp": []}, {"mcp": [{"args": ["x"]}]}, {"mcp": {"a": {"args": {"0": "x"}}}}])
def test_what_is_of_another_shape_has_no_place(table: Table) -> None:
    assert list(places(table, ("mcp", "*", "args", "#"))) == []
