import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.config.plumb_files import MaskedText, masked


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('let a = "abc"', 'let a = "···"'),
        (r'let a = "a\"b" x', r'let a = "····" x'),
        ('"one" two "three"', '"···" two "·····"'),
        ("map(a == 'abc')", "map(a == '···')"),
        ('let a (* the "old" abc *) = b', f"let a {' ' * 19} = b"),
        ("(* a (* b *) c *) d", f"{' ' * 17} d"),
        ('"no end\nof abc', '"······\n······'),
        ("(* no end\nof abc", "(*       \n      "),
        ('# 5" disk\nlet a = "abc" // x "\nlet b = "abc"', 'let a = "···"\nlet b = "···"'),
        ('let a = """b "abc" c""" b', 'let a = """·········""" b'),
        ('let f = map(r"\\" + "abc") # it\'s', 'let f = map(r"·" + "···")'),
        ('let a = \'abc\' "abc" (* " *)', "let a = '···' \"···\""),
        ('let f = map(x == """a"b""") let a = "abc"', 'let f = map(x == """···""") let a = "···"'),
        ('let f = map("abc', 'let f = map("···'),
        ('"(* none"', '"·······"'),
        ("it's\nabc", "it'·\nabc"),
        ('"abc\\', '"····'),
    ],
)
def test_strings_and_comments_are_masked(text: str, shown: str) -> None:
    lines = [line.rstrip() for line in masked(text).split("\n") if line.strip()]
    assert lines == [line.rstrip() for line in shown.split("\n") if line.strip()]


@given(st.text("ab\"'\\(*) \n"))
def test_every_line_stays_as_long_as_it_was(text: str) -> None:
    assert [len(line) for line in masked(text).split("\n")] == [len(line) for line in text.split("\n")]


@given(st.text("ab:,{} \n"), st.text("ab'*()\n"), st.text("ab\"'(*)\n"))
def test_what_is_quoted_is_never_there(before: str, inside: str, after: str) -> None:
    assert "§" not in masked(f'{before}"{inside}§"{after}')


TEXT = MaskedText('let a = { command: "abc", cwd: "def" }\n')


def test_an_excerpt_has_a_caret_beneath_its_column() -> None:
    assert TEXT.excerpt(1, 11, shows_value=False) == ('let a = { command: "···", cwd: "···" }\n          ^')


def test_a_value_that_may_be_shown_is_shown_alone() -> None:
    assert TEXT.excerpt(1, 32, shows_value=True).startswith('let a = { command: "···", cwd: "def" }\n')


def test_a_place_past_the_end_has_its_caret_there() -> None:
    assert MaskedText("ab").excerpt(1, 9, shows_value=True) == "ab\n  ^"


NUMBERS = MaskedText('let a = { env: { PIN: 1234, "B": -5.5 }, call_s: 10, args: [678, 9] }\n')


@pytest.mark.parametrize(
    ("column", "shown"), [(18, "PIN: ····"), (29, '": ····'), (61, "[···, 9]"), (42, "call_s: ··")]
)
def test_a_number_that_may_be_a_secret_is_masked_as_well(column: int, shown: str) -> None:
    assert shown in NUMBERS.excerpt_without_value(1, column)


def test_other_numbers_stay() -> None:
    assert "PIN: 1234" in NUMBERS.excerpt(1, 18, shows_value=False)
    assert "[678, 9]" in NUMBERS.excerpt_without_value(1, 18)
