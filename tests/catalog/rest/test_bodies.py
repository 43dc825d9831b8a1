import base64
from email.parser import BytesParser
from urllib.parse import parse_qsl

import pytest

from tests.catalog.rest.templates import built, template
from tooldispatchd.catalog.rest.declared import UnsendableError

URL = "https://api.example.com/"


@pytest.mark.parametrize(
    ("body", "values", "sent"),
    [
        ("${parameters.a}", {"a": {"x": [1, None, "é"]}}, '{"x":[1,null,"é"]}'),
        ("${parameters.a}", {"a": "text"}, '"text"'),
        ("${parameters.a}", {"a": None}, "null"),
        ("${parameters.a}", {"a": 1.0}, "1.0"),
        ({"n": "${parameters.a}"}, {"a": 5}, '{"n":5}'),
        ({"n": "n=${parameters.a}"}, {"a": 5}, '{"n":"n=5"}'),
        ({"n": "${parameters.a}${parameters.a}"}, {"a": True}, '{"n":"truetrue"}'),
        ({"deep": [{"x": "${parameters.a}"}, "fixed", 1, False]}, {"a": []}, '{"deep":[{"x":[]},"fixed",1,false]}'),
        ({"cost": "$$5", "raw": "$${parameters.a}"}, {"a": 1}, '{"cost":"$5","raw":"${parameters.a}"}'),
        ({}, {"a": 1}, "{}"),
        ("fixed", {"a": 1}, '"fixed"'),
        (7, {"a": 1}, "7"),
    ],
)
def test_a_json_body_is_its_template_with_the_parameters_in_it(
    body: object, values: dict[str, object], sent: str
) -> None:
    request = built(template({"url": URL, "body": body}, "a"), values)
    assert (request.body.decode(), request.media_type) == (sent, "application/json")


def test_a_field_and_an_item_without_their_parameter_are_left_out() -> None:
    spec = {"url": URL, "body": {"a": "${parameters.a}", "b": "x${parameters.a}", "c": ["${parameters.a}", 1], "d": {}}}
    assert built(template(spec, "a?"), {}).body == b'{"c":[1],"d":{}}'


def test_a_null_is_a_value_of_a_field_and_no_part_of_a_text() -> None:
    spec = {"url": URL, "body": {"a": "${parameters.a}", "b": "x${parameters.a}"}}
    assert built(template(spec, "a?"), {"a": None}).body == b'{"a":null}'


def test_a_body_that_is_a_parameter_which_is_not_given_is_none_at_all() -> None:
    request = built(template({"url": URL, "body": "${parameters.a}"}, "a?"), {})
    assert (request.body, request.media_type) == (b"", None)


def test_another_media_type_may_be_said() -> None:
    spec = {"url": URL, "body": "${parameters.a}", "content_type": "application/vnd.api+json"}
    assert built(template(spec, "a"), {"a": 1}).media_type == "application/vnd.api+json"


def test_a_header_of_the_table_says_the_media_type() -> None:
    spec = {"url": URL, "body": "${parameters.a}", "headers": {"content-type": "application/json; v=2"}}
    request = built(template(spec, "a"), {"a": 1})
    assert (request.media_type, request.headers) == (None, (("content-type", "application/json; v=2"),))


def test_a_form_is_read_back_as_it_was() -> None:
    form = {
        "a b": "${parameters.a}",
        "list": "${parameters.l}",
        "fixed": "x=${parameters.a}",
        "left": "${parameters.o}",
    }
    request = built(template({"url": URL, "form": form}, "a", "l", "o?"), {"a": "1 + é&=", "l": ["x", "y z"]})
    assert request.media_type == "application/x-www-form-urlencoded"
    assert request.body == b"a+b=1+%2B+%C3%A9%26%3D&list=x&list=y+z&fixed=x%3D1+%2B+%C3%A9%26%3D"
    assert parse_qsl(request.body.decode()) == [
        ("a b", "1 + é&="),
        ("list", "x"),
        ("list", "y z"),
        ("fixed", "x=1 + é&="),
    ]


def test_a_form_has_styles() -> None:
    spec = {"url": URL, "form": {"card": "${parameters.card}"}, "styles": {"card": "deepObject"}}
    assert built(template(spec, "card"), {"card": {"n": 1}}).body == b"card%5Bn%5D=1"


def test_an_empty_form_is_an_empty_body() -> None:
    assert built(template({"url": URL, "form": {"a": "${parameters.a}"}}, "a?"), {}).body == b""


def parts_of(media_type: str, body: bytes) -> list[tuple[str | None, str | None, str, bytes]]:
    """Name, filename, media type and content of each part, as a parser of others reads them."""
    whole = BytesParser().parsebytes(b"Content-Type: " + media_type.encode() + b"\r\n\r\n" + body)
    found: list[tuple[str | None, str | None, str, bytes]] = []
    for part in whole.get_payload():
        assert not isinstance(part, str)
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        assert isinstance(content, bytes)
        found.append((str(name), part.get_filename(), part.get_content_type(), content))
    return found


def test_a_multipart_form_is_read_back_as_it_was() -> None:
    multipart = {"note": "n: ${parameters.note}", "meta": "${parameters.meta}", "file": "${parameters.file}"}
    made = template(
        {"url": URL, "multipart": multipart},
        "note",
        "meta",
        "file",
        schemas={"file": {"type": "string", "contentEncoding": "base64"}},
    )
    data = bytes(range(256))
    values = {"note": "é\r\n--x", "meta": {"k": [1]}, "file": base64.b64encode(data).decode()}
    request = built(made, values)
    assert request.media_type is not None
    assert parts_of(request.media_type, request.body) == [
        ("note", None, "text/plain", "n: é\r\n--x".encode()),
        ("meta", None, "application/json", b'{"k":[1]}'),
        ("file", "file", "application/octet-stream", data),
    ]


def test_a_file_may_say_its_name_and_its_media_type() -> None:
    made = template({"url": URL, "multipart": {"f": "${parameters.f}"}}, "f")
    value = {"base64": "aGk=", "filename": 'a"\r\nb\x00\x7f.txt', "media_type": "text/x-a"}
    request = built(made, {"f": value})
    assert request.media_type is not None
    assert parts_of(request.media_type, request.body) == [("f", "a%22%0D%0Ab%00%7F.txt", "text/x-a", b"hi")]


def test_a_list_is_several_parts() -> None:
    made = template(
        {"url": URL, "multipart": {"f": "${parameters.f}"}},
        "f",
        schemas={"f": {"type": "array", "items": {"contentEncoding": "base64"}}},
    )
    request = built(made, {"f": ["YQ==", "Yg=="]})
    assert request.media_type is not None
    assert [part[3] for part in parts_of(request.media_type, request.body)] == [b"a", b"b"]


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        ("no base64!", "/f"),
        (5, "/f"),
        ({"base64": "*"}, "/f/base64"),
        ({"base64": "YQ==", "media_type": "a/b\r\nX: y"}, "/f/media_type"),
    ],
)
def test_what_is_no_file_is_refused(value: object, pointer: str) -> None:
    made = template({"url": URL, "multipart": {"f": "${parameters.f}"}}, schemas={"f": {"contentEncoding": "base64"}})
    with pytest.raises(UnsendableError) as caught:
        made.build({"f": value})
    assert caught.value.pointer == pointer


def test_the_boundary_stands_in_no_part() -> None:
    made = template({"url": URL, "multipart": {"a": "${parameters.a}"}}, "a")
    first = made.build({"a": "x"})
    assert first.media_type is not None
    boundary = first.media_type.partition("boundary=")[2]
    again = made.build({"a": f"--{boundary}--"})
    assert again.media_type is not None
    assert again.media_type.partition("boundary=")[2] != boundary
    assert len(parts_of(again.media_type, again.body)) == 1


def test_a_text_is_sent_as_it_is() -> None:
    request = built(template({"url": URL, "text": "é: ${parameters.a}"}, "a"), {"a": {"x": 1}})
    assert (request.body.decode(), request.media_type) == ("é: x,1", "text/plain; charset=utf-8")


def test_octets_are_a_parameter_in_base64() -> None:
    made = template({"url": URL, "octets": "${parameters.a}"}, "a?")
    request = built(made, {"a": "AAH/"})
    assert (request.body, request.media_type) == (b"\0\1\xff", "application/octet-stream")
    assert made.build({}).body == b""
    with pytest.raises(UnsendableError):
        made.build({"a": "AAH_"})
