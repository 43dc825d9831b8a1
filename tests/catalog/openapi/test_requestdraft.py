"""Parameters as fields of an input, and where the request has them: every place and style, to the bytes."""

from typing import Any

import pytest

from tests.catalog.openapi.described import adapted, document, sent, the_tool
from tooldispatchd.catalog.openapi.adapter import LeftOut

STRING = {"type": "string"}
LIST = {"type": "array", "items": STRING}
RECORD = {"type": "object", "properties": {"R": {"type": "integer"}, "G": {"type": "integer"}}}
DEEP = {"type": "object", "properties": {"a": LIST}}
COLORS = ["blue", "black"]
RGB = {"R": 100, "G": 200}


def tool_with(parameter: dict[str, Any], path: str = "/x") -> dict[str, Any]:
    return the_tool({"parameters": [parameter]}, path)


# The tables of OpenAPI 3.1, "Style Examples".
@pytest.mark.parametrize(
    ("style", "explode", "schema", "value", "query"),
    [
        (None, None, STRING, "a b", "color=a%20b"),
        ("form", False, LIST, COLORS, "color=blue,black"),
        ("form", True, LIST, COLORS, "color=blue&color=black"),
        (None, None, LIST, COLORS, "color=blue&color=black"),
        ("form", False, RECORD, RGB, "color=R,100,G,200"),
        ("form", True, RECORD, RGB, "R=100&G=200"),
        ("spaceDelimited", False, LIST, COLORS, "color=blue%20black"),
        ("spaceDelimited", True, LIST, COLORS, "color=blue&color=black"),
        ("pipeDelimited", None, LIST, COLORS, "color=blue%7Cblack"),
        ("deepObject", True, RECORD, RGB, "color%5BR%5D=100&color%5BG%5D=200"),
        ("deepObject", True, DEEP, {"a": ["x"]}, "color%5Ba%5D%5B0%5D=x"),
        ("deepObject", True, LIST, COLORS, "color%5B0%5D=blue&color%5B1%5D=black"),
        ("deepObject", True, STRING, "x", "color=x"),
    ],
)
def test_a_query_is_written_in_the_style_of_its_parameter(
    style: str | None, explode: bool | None, schema: Any, value: Any, query: str
) -> None:
    stated = {"style": style, "explode": explode}
    parameter = {"name": "color", "in": "query", "schema": schema}
    parameter |= {key: each for key, each in stated.items() if each is not None}
    assert sent(tool_with(parameter), {"color": value})[1] == query


@pytest.mark.parametrize(
    ("style", "explode", "schema", "value", "path"),
    [
        ("simple", False, STRING, "a/b", "/x/a%2Fb"),
        ("simple", False, LIST, COLORS, "/x/blue,black"),
        ("simple", True, RECORD, RGB, "/x/R=100,G=200"),
        ("label", False, STRING, "blue", "/x/.blue"),
        ("label", True, LIST, COLORS, "/x/.blue.black"),
        ("matrix", False, STRING, "blue", "/x/;color=blue"),
        ("matrix", True, LIST, COLORS, "/x/;color=blue;color=black"),
        ("matrix", True, RECORD, RGB, "/x/;R=100;G=200"),
    ],
)
def test_a_path_is_written_in_the_style_of_its_parameter(
    style: str, explode: bool, schema: Any, value: Any, path: str
) -> None:
    parameter = {"name": "color", "in": "path", "required": True, "style": style, "explode": explode, "schema": schema}
    assert sent(tool_with(parameter, "/x/{color}"), {"color": value})[0] == path


def test_headers_and_cookies_have_their_places() -> None:
    tool = the_tool(
        {
            "parameters": [
                {"name": "X-Ids", "in": "header", "schema": LIST},
                {"name": "session", "in": "cookie", "schema": STRING},
                {"name": "list", "in": "cookie", "explode": False, "schema": LIST},
                {"name": "Accept", "in": "header", "required": True, "schema": STRING},
                {"name": "Content-Length", "in": "header", "required": True, "schema": STRING},
            ]
        }
    )
    _, _, headers, cookies, _, _ = sent(tool, {"X-Ids": COLORS, "session": "s", "list": COLORS})
    assert headers == {"X-Ids": "blue,black"}
    assert cookies == ["session=s", "list=blue%2Cblack"]


def test_a_parameter_with_content_is_json() -> None:
    parameter = {"name": "filter", "in": "query", "content": {"application/json": {"schema": DEEP}}}
    assert sent(tool_with(parameter), {"filter": {"a": ["x"]}})[1] == "filter=%7B%22a%22%3A%5B%22x%22%5D%7D"


def test_reserved_signs_may_stay() -> None:
    parameter = {"name": "q", "in": "query", "allowReserved": True, "schema": STRING}
    assert sent(tool_with(parameter), {"q": "a/b?c"})[1] == "q=a/b?c"


def test_a_whole_query_is_written_as_a_form() -> None:
    content = {"application/x-www-form-urlencoded": {"schema": RECORD}}
    parameter = {"name": "any", "in": "querystring", "content": content}
    assert sent(tool_with(parameter), {"any": RGB})[1] == "R=100&G=200"


def test_names_that_no_provider_takes_are_mended_and_sent_as_they_are() -> None:
    tool = the_tool(
        {
            "parameters": [
                {"name": "filter[status]", "in": "query", "schema": STRING},
                {"name": "$expand", "in": "query", "schema": STRING},
                {"name": "filter_status", "in": "query", "schema": STRING},
                {"name": "日本", "in": "query", "schema": STRING},
                {"name": "n" * 100, "in": "query", "schema": STRING},
            ]
        }
    )
    names = list(tool["input_schema"]["properties"])
    assert names == ["filter_status", "expand", "filter_status_query", "query", "n" * 64]
    values = {"filter_status": "1", "expand": "2", "filter_status_query": "3"}
    assert sent(tool, values)[1] == "filter%5Bstatus%5D=1&%24expand=2&filter_status=3"


def test_of_two_of_one_name_the_second_says_where_it_stands() -> None:
    parameters = [
        {"name": "id", "in": "path", "required": True, "schema": STRING},
        {"name": "id", "in": "query", "schema": STRING},
    ]
    tool = the_tool({"parameters": parameters}, "/x/{id}")
    assert sent(tool, {"id": "1", "id_query": "2"})[:2] == ("/x/1", "id=2")


@pytest.mark.parametrize(
    ("path", "values", "target"),
    [
        ("/a/{b}.json", {"b": "1"}, "/a/1.json"),
        ("/a/{b*}/{c:.+}", {"b": "1", "c": "2"}, "/a/1/2"),
        ("/a/$count#Action=List", {}, "/a/$count"),
        ("/cost/${b}", {"b": "1"}, "/cost/$1"),
        ("/with space/{b c}", {"b_c": "1"}, "/with%20space/1"),
    ],
)
def test_a_path_is_taken_as_authors_write_it(path: str, values: dict[str, str], target: str) -> None:
    assert sent(the_tool({}, path), values)[0] == target


def test_a_path_that_leads_upwards_is_left_out() -> None:
    assert adapted(document({"/a/../b": {"get": {}}})).left_out == (LeftOut("GET /a/../b", "its path leads upwards"),)


def test_a_query_in_a_path_is_one() -> None:
    assert sent(the_tool({}, "/a?action=list&lat={lat}"), {"lat": "5"})[:2] == ("/a", "action=list&lat=5")


@pytest.mark.parametrize(
    ("parameter", "why"),
    [
        (
            {"in": "query", "schema": {"type": "array", "items": LIST}},
            "its lists or records hold others, which cannot be written there",
        ),
        ({"in": "query", "style": "odd", "schema": STRING}, "no request is written with the style odd"),
        ({"in": "body", "schema": STRING}, 'in = "body" is no place in a request'),
        ({"in": "cookie", "schema": LIST}, "no cookie can hold several values of one name"),
        ({"in": "query", "content": {"application/xml": {}}}, "as application/xml it is not written"),
        ({"in": "query", "schema": {"$ref": "#/no"}}, "its reference #/no leads nowhere"),
        ({"in": "querystring", "content": {"application/json": {}}}, "as a whole query it is not written"),
    ],
)
def test_what_no_request_says_is_left_out_alone_or_with_its_operation(parameter: dict[str, Any], why: str) -> None:
    optional = adapted(document({"/x": {"get": {"parameters": [{**parameter, "name": "p"}]}}}))
    assert optional.notes == {"t_get_x": [f"parameter p: {why}"]}
    assert optional.tools["t_get_x"]["rest"] == {"method": "GET", "api": "t", "path": "/x"}
    required = adapted(document({"/x": {"get": {"parameters": [{**parameter, "name": "p", "required": True}]}}}))
    assert required.left_out == (LeftOut("GET /x", f"parameter p: {why}"),)


def test_a_recursive_schema_is_too_much_for_a_query() -> None:
    tree = {"type": "object", "properties": {"down": {"$ref": "#/components/schemas/Tree"}}}
    parameter = {"name": "p", "in": "query", "schema": {"$ref": "#/components/schemas/Tree"}}
    made = adapted(document({"/x": {"get": {"parameters": [parameter]}}}, components={"schemas": {"Tree": tree}}))
    assert list(made.notes) == ["t_get_x"]
