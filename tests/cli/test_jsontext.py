"""JSON as commands print it."""

import json

import pytest

from tooldispatchd.cli.jsontext import escaped


@pytest.mark.parametrize("letter", ["\x7f", "\x9b", "\u202e", "\u2066", "\u2028", "\ufeff", "\U000e0041", "\ud800"])
def test_what_would_steer_a_terminal_is_written_as_an_escape(letter: str) -> None:
    text = escaped(json.dumps({letter: [f"a{letter}b"]}, ensure_ascii=False, indent=2))
    assert text.replace("\n", "").isascii()
    assert text.replace("\n", "").isprintable()
    assert json.loads(text) == {letter: [f"a{letter}b"]}


def test_what_can_be_read_stays() -> None:
    text = '{"a": "žluťoučký 工具 🛠", "b": "\\n\\u001b"}'
    assert escaped(text) == text
