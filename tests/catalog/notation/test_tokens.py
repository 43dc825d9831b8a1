import pytest

from tooldispatchd.catalog.notation.places import NotationError
from tooldispatchd.catalog.notation.tokens import tokens_of


def shown(text: str) -> list[tuple[str, str]]:
    """Each token's type and text, without the end."""
    return [(token.type, token.text) for token in tokens_of("f", text)][:-1]


def value(text: str) -> object:
    """What the first token means."""
    return next(iter(tokens_of("f", text))).value


def test_names_hold_hyphens_and_dots_and_end_before_an_arrow() -> None:
    assert shown("a-b.c_d->e") == [("NAME", "a-b.c_d"), ("_ARROW", "->"), ("NAME", "e")]


def test_a_word_of_the_notation_in_a_longer_name_is_none() -> None:
    assert shown("filter-x Fs.filter filters") == [("NAME", "filter-x"), ("NAME", "Fs.filter"), ("NAME", "filters")]


@pytest.mark.parametrize("text", ["", " \t\r\n", "# a", "// a", "(* a *)", "(* (* *) (* *) *)", "(**)", "(*(*)*)*)"])
def test_blanks_and_comments_are_no_tokens(text: str) -> None:
    assert shown(text) == []


def test_a_comment_in_a_text_is_text() -> None:
    assert value('"a # b // c (* d"') == "a # b // c (* d"


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        (r'"\" \\ \/ \b\f\n\r\t \u00e9"', '" \\ / \b\f\n\r\t é'),
        (r'"\ud83d\ude00"', "😀"),
        ('"a\nb"', "a\nb"),
        ('"""a "b" c"""', 'a "b" c'),
        ('"""\na\n"""', "a\n"),
        ('"""\r\na"""', "a"),
        (r'"""\u0041\""""""', 'A"'),
        ('""""""', ""),
        ('"é"', "é"),
    ],
)
def test_a_text_means_what_its_escapes_say(text: str, meaning: str) -> None:
    assert value(text) == meaning


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("-0", 0), ("9223372036854775807", 2**63 - 1), ("-9223372036854775808", -(2**63)), ("1e-2", 0.01)],
)
def test_a_number_is_an_int_or_a_double(text: str, number: float) -> None:
    assert value(text) == number


@pytest.mark.parametrize("text", ["9223372036854775808", "1e309", "1" * 5000, "0." + "1" * 50])
def test_a_number_that_nothing_holds_is_refused(text: str) -> None:
    with pytest.raises(NotationError, match="neither a 64-bit integer nor a double"):
        value(text)


def test_sixty_four_brackets_may_be_open_and_no_more() -> None:
    assert len(shown("[" * 64 + "]" * 64)) == 128
    with pytest.raises(NotationError, match="f:1:65: nested more than 64 deep"):
        shown("[" * 65)


def test_what_is_in_the_parentheses_of_a_map_is_one_token() -> None:
    assert shown("map (* c *) (a ) b") == [("MAP", "map"), ("EXPRESSION", "("), ("NAME", "b")]
    assert shown("map: (a)")[:2] == [("MAP", "map"), ("_COLON", ":")]


def test_an_expression_has_its_own_bound() -> None:
    assert len(shown("map" + "(" * 64 + ")" * 64)) == 2
    with pytest.raises(NotationError, match="f:1:68: nested more than 64 deep"):
        shown("map" + "(" * 65)


def test_places_count_lines_and_code_points() -> None:
    places = [(token.place.line, token.place.column) for token in tokens_of("f", 'a\n  "日\n本" b\r\n\n')]
    assert places == [(1, 1), (2, 3), (3, 4), (3, 5)]
