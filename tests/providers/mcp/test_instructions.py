"""What servers advise, as one text."""

from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.providers.mcp.instructions import MAX_INSTRUCTIONS_BYTES, instructions_text


def test_each_servers_advice_stands_under_its_prefix() -> None:
    text = instructions_text([("docs", "Search first.\n\tThen read.\n"), ("empty", " "), ("", "Be quick.")])
    assert text == "# docs\nSearch first.\n\tThen read.\n\n# Tools without a prefix\nBe quick."


def test_without_advice_there_is_no_text() -> None:
    assert instructions_text([]) == ""


def test_control_characters_are_left_out() -> None:
    assert instructions_text([("a", "x\x1b[31m\r\u202ey")]) == "# a\nx[31my"


def test_no_server_drowns_another() -> None:
    text = instructions_text([("a", "x" * MAX_INSTRUCTIONS_BYTES), ("b", "short")])
    assert text.endswith("\n\n# b\nshort")
    assert text.count("x") > MAX_INSTRUCTIONS_BYTES // 2 - 10


@given(st.lists(st.tuples(st.sampled_from(["docs", "git", ""]), st.text() | st.just("é" * 40_000)), max_size=5))
def test_all_together_are_bounded_in_bytes(pairs: list[tuple[str, str]]) -> None:
    assert len(instructions_text(pairs).encode()) <= MAX_INSTRUCTIONS_BYTES
