from collections.abc import Mapping

import pytest

from tests.catalog.rest.templates import built, compiled, template
from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.rest.declared import UnsendableError
from tooldispatchd.catalog.rest.requests import hints_of
from tooldispatchd.catalog.restspecs import AnnotationsSpec, RestSpec
from tooldispatchd.catalog.specs import ToolSpec

URL = "https://api.example.com"


@pytest.mark.parametrize(
    ("url", "values", "target"),
    [
        (f"{URL}/v1/${{parameters.a}}", {"a": "Paris"}, "/v1/Paris"),
        (f"{URL}/v1/${{parameters.a}}", {"a": "a/b?c#d e%"}, "/v1/a%2Fb%3Fc%23d%20e%25"),
        (f"{URL}/v1/${{parameters.a}}", {"a": 5}, "/v1/5"),
        (f"{URL}/v1/${{parameters.a}}", {"a": [1, 2]}, "/v1/1,2"),
        (f"{URL}/${{parameters.a}}.json", {"a": "x"}, "/x.json"),
        (f"{URL}/${{parameters.a}}-${{parameters.b}}/z", {"a": "x", "b": "y"}, "/x-y/z"),
        (f"{URL}/a//b/?q=${{parameters.a}}", {"a": "x"}, "/a//b/?q=x"),
        (f"{URL}?q=${{parameters.a}}", {"a": "x"}, "/?q=x"),
        (f"{URL}/?q=${{parameters.a}}&r=${{parameters.b}}", {"a": "x&r=1", "b": "="}, "/?q=x%26r%3D1&r=%3D"),
        (f"{URL}/?q=${{parameters.a}}&r=${{parameters.b}}&s", {"a": None}, "/?s"),
        (f"{URL}/?q=${{parameters.a}}", {"a": ""}, "/?q="),
        (f"{URL}/?q=x${{parameters.a}}-${{parameters.b}}", {"a": "1"}, "/"),
        (f"{URL}/?q=x${{parameters.a}}-${{parameters.b}}", {"a": "1", "b": "2"}, "/?q=x1-2"),
        (f"{URL}/?${{parameters.a}}=1", {"a": "n m"}, "/?n%20m=1"),
        (f"{URL}/?${{parameters.a}}", {"a": "flag"}, "/?flag"),
        (f"{URL}/?ids=${{parameters.a}}", {"a": [1, 2]}, "/?ids=1&ids=2"),
        (f"{URL}/?ids=x:${{parameters.a}}", {"a": [1, 2]}, "/?ids=x:1%2C2"),
        (f"{URL}/?ids=${{parameters.a}}", {"a": []}, "/"),
        (f"{URL}/?f=${{parameters.a}}", {"a": {"k": "v", "l": None}}, "/?k=v"),
        (f"{URL}/caf\u00e9 x?a=b c", {}, "/caf%C3%A9%20x?a=b%20c"),
        (f"{URL}/a%20b?x=%26", {}, "/a%20b?x=%26"),
        (f"{URL}/$$5?x=$$", {}, "/$5?x=$"),
    ],
)
def test_a_url_is_encoded_by_place(url: str, values: dict[str, object], target: str) -> None:
    names = ["a" if "/${parameters.a}" in url or "}." in url else "a?", "b" if "-${parameters.b}/" in url else "b?"]
    used = [name for name in names if f"${{parameters.{name[0]}}}" in url]
    request = built(template({"url": url}, *used), values)
    assert request.path + (f"?{request.query}" if request.query else "") == target


def test_an_entry_of_a_query_has_a_name() -> None:
    with pytest.raises(UnsendableError) as refused:
        built(template({"url": f"{URL}/?${{parameters.a}}=1"}, "a"), {"a": ""})
    assert (refused.value.pointer, refused.value.why) == (
        "/a",
        "it is the name of an entry of the query, and cannot be empty",
    )


@pytest.mark.parametrize(
    ("spec", "style"),
    [
        ({"url": f"{URL}/?p=${{parameters.p}}"}, "form*"),
        ({"url": f"{URL}/?p=${{parameters.p}}"}, "deepObject"),
        ({"url": f"{URL}/?p=${{parameters.p}}"}, "brackets"),
        ({"url": f"{URL}/${{parameters.p}}"}, "matrix*"),
        ({"url": URL, "headers": {"P": "${parameters.p}"}}, "simple*"),
        ({"url": URL, "cookies": {"p": "${parameters.p}"}}, "form*"),
        ({"url": URL, "method": "POST", "form": {"p": "${parameters.p}"}}, "form*"),
    ],
)
def test_a_field_that_is_sent_by_its_own_name_has_one(spec: dict[str, object], style: str) -> None:
    made = template({**spec, "styles": {"p": style}}, "p")
    with pytest.raises(UnsendableError) as refused:
        made.build({"p": {"a": 1, "": 2}})
    assert refused.value.pointer == "/p"
    assert made.build({"p": {"a": 1, "": None}})


@pytest.mark.parametrize(
    "value",
    ["", ".", "..", "../admin", "a/../b", "a\\..\\b", "./a", "a/.", "..\\", "/..", []],
)
def test_a_segment_that_would_lead_elsewhere_is_refused(value: object) -> None:
    made = template({"url": f"{URL}/users/${{parameters.id}}"}, "id")
    with pytest.raises(UnsendableError) as caught:
        made.build({"id": value})
    assert caught.value.pointer == "/id"


@pytest.mark.parametrize("value", ["...", ".a", "a.", "a/b", "a//b", "/a", "..a", "%2e%2e", " ", "a/"])
def test_a_segment_that_only_has_dots_or_slashes_is_sent_encoded(value: str) -> None:
    request = template({"url": f"{URL}/users/${{parameters.id}}"}, "id").build({"id": value})
    assert request.path.count("/") == 2


@pytest.mark.parametrize(
    ("url", "values"),
    [
        (f"{URL}/${{parameters.a}}${{parameters.b}}", {"a": ".", "b": "."}),
        (f"{URL}/.${{parameters.a}}", {"a": "."}),
        (f"{URL}/%2e${{parameters.a}}", {"a": "."}),
        (f"{URL}/${{parameters.a}}${{parameters.b}}", {"a": "", "b": ""}),
    ],
)
def test_a_segment_is_looked_at_whole(url: str, values: dict[str, object]) -> None:
    with pytest.raises(UnsendableError):
        template({"url": url}, *values).build(values)


def test_what_is_empty_beside_other_text_is_sent() -> None:
    assert template({"url": f"{URL}/x${{parameters.a}}"}, "a").build({"a": ""}).path == "/x"


def test_a_null_in_a_path_is_refused() -> None:
    with pytest.raises(UnsendableError) as caught:
        template({"url": f"{URL}/${{parameters.a}}"}, "a").build({"a": None})
    assert caught.value.why == "it is a part of the path, and cannot be empty"


def test_a_pointer_to_a_parameter_is_escaped() -> None:
    with pytest.raises(UnsendableError) as caught:
        template({"url": f"{URL}/${{parameters.a/b~c}}"}, "a/b~c").build({"a/b~c": ".."})
    assert caught.value.pointer == "/a~1b~0c"


def test_a_path_follows_the_base_of_its_api() -> None:
    assert template({"api": "api", "path": "/repos/${parameters.a}?x=1"}, "a").build({"a": "r"}).path == "/v3/repos/r"
    assert template({"api": "api", "path": "/"}).build({}).path == "/v3/"
    assert template({"api": "api", "path": "?x=1"}).build({}).path == "/v3"


def test_a_url_with_an_api_has_a_path_of_its_own() -> None:
    assert template({"api": "api", "url": "https://x.example/other"}).build({}).path == "/other"


def test_a_table_of_the_query_follows_that_of_the_url() -> None:
    spec = {"url": f"{URL}/?z=1", "query": {"a b": "${parameters.a}", "fixed": "é&", "m": "x-${parameters.a}"}}
    assert template(spec, "a?").build({"a": "1 2"}).query == "z=1&a%20b=1%202&fixed=%C3%A9%26&m=x-1%202"
    assert template(spec, "a?").build({}).query == "z=1&fixed=%C3%A9%26"


@pytest.mark.parametrize(
    ("styles", "entries"),
    [
        ({}, "f=1&f=2"),
        ({"f": "form"}, "f=1,2"),
        ({"f": "pipeDelimited"}, "f=1%7C2"),
        ({"f": "brackets"}, "f%5B0%5D=1&f%5B1%5D=2"),
        ({"f": "json"}, "f=%5B1%2C2%5D"),
    ],
)
def test_a_style_belongs_to_a_parameter(styles: dict[str, str], entries: str) -> None:
    spec = {"url": f"{URL}/", "query": {"f": "${parameters.f}"}, "styles": styles}
    assert template(spec, "f").build({"f": [1, 2]}).query == entries


def test_a_style_of_the_path_is_used_there() -> None:
    spec = {"url": f"{URL}/map${{parameters.point}}", "styles": {"point": "matrix*"}}
    assert template(spec, "point").build({"point": {"x": 1, "y": 2}}).path == "/map;x=1;y=2"


# --- parameters that no placeholder names ---


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "OPTIONS", None])
def test_a_parameter_without_a_place_goes_into_the_query(method: str | None) -> None:
    spec = {"url": f"{URL}/${{parameters.id}}"} | ({} if method is None else {"method": method})
    request = built(template(spec, "id", "units?", "tags?"), {"id": "x", "units": "C", "tags": ["a", "b"]})
    assert (request.query, request.body) == ("units=C&tags=a&tags=b", b"")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "QUERY"])
def test_with_a_body_it_is_a_field_of_that(method: str) -> None:
    spec = {"method": method, "url": f"{URL}/${{parameters.id}}"}
    request = built(template(spec, "id", "n?", "left_out?", "empty?"), {"id": "x", "n": 1.5, "empty": None})
    assert (request.query, request.body) == ("", b'{"n":1.5,"empty":null}')
    assert request.media_type == "application/json"


def test_with_a_body_that_the_table_says_it_goes_into_the_query() -> None:
    spec = {"url": f"{URL}/", "body": {"a": "${parameters.a}"}}
    request = built(template(spec, "a", "b"), {"a": 1, "b": 2})
    assert (request.query, request.body) == ("b=2", b'{"a":1}')


def test_what_the_schema_does_not_know_is_not_sent() -> None:
    request = template({"url": f"{URL}/"}, "a?").build({"admin": True})
    assert request.query == ""


# --- methods ---


def test_the_method_is_get_and_with_a_body_post() -> None:
    assert template({"url": f"{URL}/"}, "a?").method == "GET"
    assert template({"url": f"{URL}/", "text": "${parameters.a}"}, "a").method == "POST"
    assert template({"url": f"{URL}/", "method": "PUT", "text": "${parameters.a}"}, "a").method == "PUT"


@pytest.mark.parametrize(
    ("method", "hints"),
    [
        ("GET", AnnotationsSpec(read_only_hint=True)),
        ("HEAD", AnnotationsSpec(read_only_hint=True)),
        ("POST", AnnotationsSpec()),
        ("PUT", AnnotationsSpec(idempotent_hint=True)),
        ("DELETE", AnnotationsSpec(destructive_hint=True, idempotent_hint=True)),
    ],
)
def test_the_method_says_what_a_tool_may_do(method: str, hints: AnnotationsSpec) -> None:
    assert hints_of(ToolSpec(rest=RestSpec()), method) == hints


def test_what_the_table_says_of_a_tool_stands() -> None:
    said = AnnotationsSpec(read_only_hint=False, title="x")
    assert hints_of(ToolSpec(rest=RestSpec(), annotations=said), "GET") == said


# --- headers and cookies ---


def test_headers_have_the_parameters_in_them() -> None:
    spec = {"url": f"{URL}/", "headers": {"X-A": "a ${parameters.a}", "X-B": "${parameters.b}", "X-C": "$$ c"}}
    request = built(template(spec, "a?", "b?"), {"a": " x ", "b": ["1", 2]})
    assert request.headers == (("X-A", "a  x"), ("X-B", "1,2"), ("X-C", "$ c"))
    assert template(spec, "a?", "b?").build({}).headers == (("X-C", "$ c"),)


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\0b", "\x7f", "\x1b[0m", "é", "a\u2028b"])
def test_a_header_cannot_be_broken_out_of(value: str) -> None:
    made = template({"url": f"{URL}/", "headers": {"X-A": "${parameters.a}"}}, "a")
    with pytest.raises(UnsendableError) as caught:
        made.build({"a": value})
    assert caught.value.pointer == "/a"
    assert value not in caught.value.why


def test_a_record_in_a_header_may_be_json() -> None:
    spec = {"url": f"{URL}/", "headers": {"X-A": "${parameters.a}"}, "styles": {"a": "json"}}
    assert template(spec, "a").build({"a": {"k": "é\n"}}).headers == (("X-A", '{"k":"\\u00e9\\n"}'),)


def test_cookies_are_encoded_and_left_out() -> None:
    cookies = {"s": "${parameters.a}", "t": "x;${parameters.a}", "u": "${parameters.b}", "v": "fix"}
    made = template({"url": f"{URL}/", "cookies": cookies}, "a", "b?")
    assert built(made, {"a": "1; 2"}).cookies == ("s=1%3B%202", "t=x%3B1%3B%202", "v=fix")


# --- what is wrong with a table ---


def wrong(spec: Mapping[str, object], *names: str) -> list[Problem]:
    return compiled(spec, *names)[1]


def test_a_parameter_that_the_schema_lacks_is_told_with_a_caret_and_the_nearest_one() -> None:
    assert wrong({"url": f"{URL}/${{parameters.ctiy}}?key=secret"}, "city", "units") == [
        Problem(
            ("tools", "t", "rest", "url"),
            "the tool takes no parameter ctiy",
            nearest="city",
            excerpt="…${parameters.ctiy}…\n              ^",
        )
    ]


def test_without_a_near_one_all_are_told() -> None:
    [problem] = wrong({"url": f"{URL}/", "headers": {"X": "${parameters.zzz}"}}, "city")
    assert (problem.path[-2:], problem.nearest, problem.allowed) == (("headers", "X"), None, "city")
    [problem] = wrong({"url": f"{URL}/", "body": {"a": [{"b": "${parameters.zzz}"}]}})
    assert problem.path[-4:] == ("body", "a", 0, "b")
    assert problem.allowed == 'none: a "type" or an "input_schema" says them'


@pytest.mark.parametrize(
    ("spec", "key", "why"),
    [
        ({"url": f"{URL}/a#b"}, "url", 'what stands behind a "#" is never sent'),
        ({"url": f"{URL}/a/../b"}, "url", 'a segment of the path cannot be "." or ".."'),
        ({"api": "api", "path": "a"}, "path", "a path begins with a slash"),
        (
            {"url": f"{URL}/${{parameters.maybe}}"},
            "url",
            "maybe is a part of the path, and so it must be required",
        ),
        ({"url": f"{URL}/", "text": "a", "form": {"b": "c"}}, "text", '"form" says already what the body is'),
        (
            {"url": f"{URL}/", "octets": "x${parameters.a}"},
            "octets",
            "it is one placeholder, whose parameter holds the bytes in base64",
        ),
        ({"url": f"{URL}/", "pick": "/a", "map": "input"}, "map", '"pick" says already what the model sees'),
        (
            {"url": f"{URL}/", "paginate": {"by": "cursor"}},
            "paginate",
            "a cursor stands somewhere in each page",
        ),
        (
            {"url": f"{URL}/", "paginate": {"by": "page"}, "stream": {}},
            "stream",
            "what comes in pages does not come bit by bit",
        ),
    ],
)
def test_what_contradicts_itself_is_told(spec: dict[str, object], key: str, why: str) -> None:
    [problem] = wrong(spec, "a", "maybe?")
    assert (problem.path, problem.why) == (("tools", "t", "rest", key), why)


@pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding", "Connection", "Expect"])
def test_a_header_that_frames_the_message_is_nobodys(name: str) -> None:
    [problem] = wrong({"url": f"{URL}/", "headers": {name: "x"}})
    assert problem.why == "the connection sets this header itself"


def test_a_header_stands_there_once() -> None:
    [problem] = wrong({"url": f"{URL}/", "headers": {"X-A": "1", "x-a": "2"}})
    assert problem.path[-1] == "x-a"


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"url": f"{URL}/${{parameters.a}}", "styles": {"a": "form"}}, "this is no style of what stands in a path"),
        (
            {"url": f"{URL}/", "query": {"a": "${parameters.a}"}, "styles": {"a": "matrix"}},
            "this is no style of what stands in a query",
        ),
        (
            {"url": f"{URL}/", "headers": {"a": "${parameters.a}"}, "styles": {"a": "deepObject"}},
            "this is no style of what stands in a header",
        ),
        (
            {"url": f"{URL}/", "cookies": {"a": "${parameters.a}"}, "styles": {"a": "simple"}},
            "this is no style of what stands in a cookie",
        ),
        ({"url": f"{URL}/${{parameters.a}}", "styles": {"a": "simple+"}}, '"+" means something in a query alone'),
        ({"url": f"{URL}/${{parameters.a}}", "styles": {"b": "simple"}}, "the tool takes no parameter b"),
    ],
)
def test_a_style_is_one_of_its_place(spec: dict[str, object], why: str) -> None:
    [problem] = wrong(spec, "a")
    assert problem.why == why


def test_all_problems_are_told_at_once() -> None:
    spec = {"url": f"{URL}/${{parameters.x}}#", "headers": {"Host": "y"}, "pick": "/a", "map": "input"}
    assert len(wrong(spec, "a")) == 4
