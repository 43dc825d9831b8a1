"""Every style at every kind of value: the tables of RFC 6570 (3.2) and of OpenAPI 3.1 ("Style Examples")."""

import pytest

from tooldispatchd.catalog.rest.styles import (
    cookie_pairs,
    encode,
    encode_cookie,
    encode_literal,
    header_text,
    is_empty,
    path_text,
    query_entries,
    style_of,
)

LIST = ["blue", "black", "brown"]
RECORD = {"R": 100, "G": 200, "B": 150}


@pytest.mark.parametrize(
    ("style", "value", "text"),
    [
        ("simple", "blue", "blue"),
        ("simple", LIST, "blue,black,brown"),
        ("simple", RECORD, "R,100,G,200,B,150"),
        ("simple*", LIST, "blue,black,brown"),
        ("simple*", RECORD, "R=100,G=200,B=150"),
        ("label", "", "."),
        ("label", "blue", ".blue"),
        ("label", LIST, ".blue,black,brown"),
        ("label", RECORD, ".R,100,G,200,B,150"),
        ("label*", LIST, ".blue.black.brown"),
        ("label*", RECORD, ".R=100.G=200.B=150"),
        ("matrix", "", ";color"),
        ("matrix", "blue", ";color=blue"),
        ("matrix", LIST, ";color=blue,black,brown"),
        ("matrix", RECORD, ";color=R,100,G,200,B,150"),
        ("matrix*", LIST, ";color=blue;color=black;color=brown"),
        ("matrix*", RECORD, ";R=100;G=200;B=150"),
        ("simple", "a/b?c#d", "a%2Fb%3Fc%23d"),
        ("simple", ["a,b", "c;d"], "a%2Cb,c%3Bd"),
        ("matrix*", {"a;b": "c=d"}, ";a%3Bb=c%3Dd"),
        ("simple", True, "true"),
        ("simple", 1.5, "1.5"),
        ("simple", ["a", None, "b"], "a,b"),
        ("simple", "50 %", "50%20%25"),
        ("simple", "naïve ☃", "na%C3%AFve%20%E2%98%83"),
    ],
)
def test_a_value_in_a_path(style: str, value: object, text: str) -> None:
    assert path_text("color", value, style_of(style, "path")) == text


@pytest.mark.parametrize(
    ("style", "value", "entries"),
    [
        ("form", "blue", ["color=blue"]),
        ("form", "", ["color="]),
        ("form", LIST, ["color=blue,black,brown"]),
        ("form", RECORD, ["color=R,100,G,200,B,150"]),
        ("form*", LIST, ["color=blue", "color=black", "color=brown"]),
        ("form*", RECORD, ["R=100", "G=200", "B=150"]),
        ("spaceDelimited", LIST, ["color=blue%20black%20brown"]),
        ("spaceDelimited", RECORD, ["color=R%20100%20G%20200%20B%20150"]),
        ("pipeDelimited", LIST, ["color=blue%7Cblack%7Cbrown"]),
        ("pipeDelimited", RECORD, ["color=R%7C100%7CG%7C200%7CB%7C150"]),
        ("pipeDelimited*", LIST, ["color=blue", "color=black", "color=brown"]),
        ("deepObject", RECORD, ["color%5BR%5D=100", "color%5BG%5D=200", "color%5BB%5D=150"]),
        ("deepObject*", {"a": {"b": [1, None, 2]}}, ["color%5Ba%5D%5Bb%5D%5B0%5D=1", "color%5Ba%5D%5Bb%5D%5B2%5D=2"]),
        ("brackets", [{"field": "a&b"}], ["color%5B0%5D%5Bfield%5D=a%26b"]),
        ("brackets", "blue", ["color=blue"]),
        ("json", {"a": [1, "é"]}, ["color=%7B%22a%22%3A%5B1%2C%22%C3%A9%22%5D%7D"]),
        ("form", "a&b=c+d #e", ["color=a%26b%3Dc%2Bd%20%23e"]),
        ("form*", ["a,b", "c"], ["color=a%2Cb", "color=c"]),
        ("form", ["a,b", "c"], ["color=a%2Cb,c"]),
        ("form*", {"a&b": 1}, ["a%26b=1"]),
        ("form+", "/a?b:c@d!$'()*,;=", ["color=/a?b:c@d!$'()*,;="]),
        ("form+", "a&b#c+d[e]%", ["color=a%26b%23c%2Bd%5Be%5D%25"]),
        ("form*", [[1, 2], {"a": 1}], ["color=%5B1%2C2%5D", "color=%7B%22a%22%3A1%7D"]),
    ],
)
def test_a_value_in_a_query(style: str, value: object, entries: list[str]) -> None:
    assert query_entries("color", value, style_of(style, "query")) == entries


@pytest.mark.parametrize(
    ("style", "value", "text"),
    [
        ("simple", "blue", "blue"),
        ("simple", "a b", "a b"),
        ("simple", LIST, "blue,black,brown"),
        ("simple", RECORD, "R,100,G,200,B,150"),
        ("simple*", RECORD, "R=100,G=200,B=150"),
        ("json", {"a": ["é", "\r\n"]}, '{"a":["\\u00e9","\\r\\n"]}'),
        ("json", "😀", '"\\ud83d\\ude00"'),
    ],
)
def test_a_value_in_a_header(style: str, value: object, text: str) -> None:
    assert header_text(value, style_of(style, "header")) == text


@pytest.mark.parametrize(
    ("style", "value", "pairs"),
    [
        ("form", "blue", ["color=blue"]),
        ("form", LIST, ["color=blue%2Cblack%2Cbrown"]),
        ("form*", LIST, ["color=blue", "color=black", "color=brown"]),
        ("form*", RECORD, ["R=100", "G=200", "B=150"]),
        ("form", 'a; b="c"\r\n', ["color=a%3B%20b=%22c%22%0D%0A"]),
        ("json", [1], ["color=[1]"]),
    ],
)
def test_a_value_in_a_cookie(style: str, value: object, pairs: list[str]) -> None:
    assert cookie_pairs("color", value, style_of(style, "cookie")) == pairs


def test_only_what_is_unreserved_is_not_encoded() -> None:
    text = "".join(map(chr, range(128)))
    assert encode(text).replace("%", "").isascii()
    kept = "".join(sign for sign in text if encode(sign) == sign)
    assert kept == "-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~"


def test_literal_text_of_a_url_stays_as_it_is_written() -> None:
    assert encode_literal("/a%20b/c d/é?x=[1]&y=#") == "/a%20b/c%20d/%C3%A9?x=%5B1%5D&y=%23"


def test_what_no_cookie_may_hold_is_encoded() -> None:
    text = "".join(map(chr, range(128)))
    assert {sign for sign in text if encode_cookie(sign) != sign} == {*map(chr, range(33)), *'%",;\\\x7f'}


@pytest.mark.parametrize("value", [None, [], {}])
def test_nothing_is_as_good_as_not_given(value: object) -> None:
    assert is_empty(value)


@pytest.mark.parametrize("value", ["", 0, False, [None], {"a": None}])
def test_what_only_looks_like_nothing_is_given(value: object) -> None:
    assert not is_empty(value)
