"""Any parameters give a target, headers and a body that parsers of others read back as these parameters."""

import json
from http.cookies import SimpleCookie
from urllib.parse import parse_qs, parse_qsl, unquote, urlsplit

import h11
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.catalog.rest.templates import template
from tooldispatchd.catalog.rest.declared import BuiltRequest, UnsendableError

URL = "https://api.example.com"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
LEAVES = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=8)

PATH = template({"url": f"{URL}/a/${{parameters.first}}/b/x-${{parameters.second}}.json"}, "first", "second")
QUERY = template(
    {"url": f"{URL}/?q=${{parameters.q}}&r=x${{parameters.q}}", "query": {"a b&": "${parameters.r}"}}, "q", "r"
)
NAMED = template({"url": f"{URL}/?${{parameters.n}}=${{parameters.v}}"}, "n", "v")
LISTED = template({"url": f"{URL}/?l=${{parameters.l}}"}, "l")
NESTED = template({"url": f"{URL}/?f=${{parameters.f}}", "styles": {"f": "brackets"}}, "f")
RESERVED = template({"url": f"{URL}/?v=${{parameters.v}}", "styles": {"v": "form+"}}, "v")
HEADER = template({"url": URL, "headers": {"X-A": "a ${parameters.v} b"}}, "v")
COOKIE = template({"url": URL, "cookies": {"c": "${parameters.v}"}}, "v")
FORM = template({"url": URL, "form": {"f é": "${parameters.v}"}}, "v")
BODY = template({"url": URL, "body": {"k": ["${parameters.v}"]}}, "v")
ANYTHING = template(
    {
        "url": f"{URL}/${{parameters.v}}?a=${{parameters.v}}",
        "headers": {"X-A": "${parameters.v}"},
        "cookies": {"c": "${parameters.v}"},
        "form": {"f": "${parameters.v}"},
    },
    "v",
)


def target(request: BuiltRequest) -> str:
    return request.path + (f"?{request.query}" if request.query else "")


def query_of(request: BuiltRequest) -> list[tuple[str, str]]:
    return parse_qsl(urlsplit(URL + target(request)).query, keep_blank_values=True, strict_parsing=True)


@given(TEXTS, TEXTS)
def test_the_segments_of_a_path(first: str, second: str) -> None:
    try:
        request = PATH.build({"first": first, "second": second})
    except UnsendableError:
        parts = first.replace("\\", "/").split("/") + f"x-{second}.json".replace("\\", "/").split("/")
        assert not first or {".", ".."} & set(parts)
        return
    read = [unquote(segment) for segment in urlsplit(URL + target(request)).path.split("/")]
    assert read == ["", "a", first, "b", f"x-{second}.json"]


@given(TEXTS, TEXTS)
def test_the_values_of_a_query(q: str, r: str) -> None:
    assert query_of(QUERY.build({"q": q, "r": r})) == [("q", q), ("r", f"x{q}"), ("a b&", r)]


@given(TEXTS.filter(bool), TEXTS)
def test_the_names_of_a_query(name: str, value: str) -> None:
    assert query_of(NAMED.build({"n": name, "v": value})) == [(name, value)]


@given(st.lists(TEXTS, min_size=1))
def test_the_items_of_a_list(items: list[str]) -> None:
    assert query_of(LISTED.build({"l": items})) == [("l", item) for item in items]


@given(TEXTS)
def test_a_value_with_reserved_signs(value: str) -> None:
    assert query_of(RESERVED.build({"v": value})) == [("v", value)]


@given(st.dictionaries(TEXTS.filter(lambda key: key and not set(key) & set("[]")), TEXTS, min_size=1))
def test_the_names_of_what_is_nested(record: dict[str, str]) -> None:
    assert query_of(NESTED.build({"f": record})) == [(f"f[{key}]", value) for key, value in record.items()]


@given(TEXTS)
def test_a_form(value: str) -> None:
    assert parse_qs(FORM.build({"v": value}).body.decode(), keep_blank_values=True) == {"f é": [value]}


@given(VALUES)
def test_a_body(value: object) -> None:
    assert json.loads(BODY.build({"v": value}).body) == {"k": [value]}


@given(TEXTS)
def test_a_cookie(value: str) -> None:
    [pair] = COOKIE.build({"v": value}).cookies
    assert set(pair).isdisjoint(' ";,\\\r\n')
    assume(value)
    read: SimpleCookie = SimpleCookie(pair)
    assert unquote(read["c"].value) == value


@given(TEXTS)
def test_a_header(value: str) -> None:
    try:
        [(name, text)] = HEADER.build({"v": value}).headers
    except UnsendableError:
        return
    assert h11.Request(method="GET", target="/", headers=[("Host", "x"), (name, text)]).headers[1][1].decode() == (
        f"a {value} b"
    )


@given(VALUES)
def test_whatever_is_sent_can_be_sent(value: object) -> None:
    try:
        request = ANYTHING.build({"v": value})
    except UnsendableError:
        return
    headers = [("Host", "x"), *request.headers, ("Cookie", "; ".join(request.cookies) or "none=1")]
    sent = h11.Request(method="POST", target=target(request), headers=headers)
    assert sent.target.decode().isprintable()
    assert b" " not in sent.target
    assert b"#" not in sent.target
