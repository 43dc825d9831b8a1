"""What an agent has switched on and off, against the rule said in other words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.calls.selection import ToolSelection

names = st.sampled_from(["a", "b", "*"])
switches = st.dictionaries(names, st.booleans())


@pytest.mark.parametrize(
    ("tags", "tools", "is_on"),
    [
        ({}, {}, True),
        ({"web": False}, {}, False),
        ({"other": False}, {}, True),
        ({"web": False}, {"get": True}, True),
        ({"web": True}, {"get": False}, False),
        ({"web": True, "net": False}, {}, False),
        ({}, {"*": False}, False),
        ({"web": True}, {"*": False}, True),
        ({"web": False}, {"*": True}, False),
        ({}, {"*": False, "get": True}, True),
    ],
)
def test_a_name_comes_before_tags_and_these_before_the_star(
    tags: dict[str, bool], tools: dict[str, bool], is_on: bool
) -> None:
    assert ToolSelection(tags, tools).is_on("get", ("web", "net")) is is_on


@given(st.lists(st.tuples(switches, switches), max_size=5))
def test_what_was_said_last_of_a_tag_or_a_tool_holds(said: list[tuple[dict[str, bool], dict[str, bool]]]) -> None:
    selection = ToolSelection()
    for tags, tools in said:
        selection = selection.switched(tags, tools)
    last = {kind: {k: v for each in said for k, v in each[kind].items()} for kind in (0, 1)}
    assert (selection.tags, selection.tools) == (last[0], last[1])
    assert selection.size == len(last[0]) + len(last[1])
