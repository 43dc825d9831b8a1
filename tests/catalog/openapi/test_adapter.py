"""A whole document: which operations are tools, what they are called, and what is told of all others."""

from typing import Any

import msgspec
import pytest

from tests.catalog.openapi.described import BASE, adapted, document
from tooldispatchd.catalog.openapi.adapter import DEPRECATED, ApiSource, LeftOut, adapt
from tooldispatchd.catalog.openapispec import OpenApiSpec
from tooldispatchd.catalog.problems import Problem

ISSUES = {
    "/issues": {
        "get": {"operationId": "issues/list", "tags": ["issues"]},
        "post": {"operationId": "issues/create", "tags": ["issues"]},
    },
    "/pulls/{n}": {
        "get": {"operationId": "pulls/get", "tags": ["pulls"]},
        "delete": {"operationId": "pulls/delete", "tags": ["pulls", "admin"]},
    },
}


def test_each_operation_is_a_tool_of_the_api_that_the_document_names() -> None:
    made = adapted(document(ISSUES))
    assert made.api == {"base_url": BASE}
    assert made.operations == {
        "t_issues_list": "GET /issues",
        "t_issues_create": "POST /issues",
        "t_pulls_get": "GET /pulls/{n}",
        "t_pulls_delete": "DELETE /pulls/{n}",
    }
    assert made.tags["t_pulls_delete"] == ("pulls", "admin")
    assert made.tools["t_issues_list"] == {
        "rest": {"method": "GET", "api": "t", "path": "/issues"},
        "input_schema": {"type": "object", "properties": {}, "additionalProperties": False},
        "description": "GET /issues",
    }


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        ({"operations": ["issues/*"]}, ["t_issues_list", "t_issues_create"]),
        ({"operations": ["pulls_get"]}, ["t_pulls_get"]),
        ({"tags": ["adm*"]}, ["t_pulls_delete"]),
        ({"paths": ["/pulls/*"], "methods": ["GET"]}, ["t_pulls_get"]),
        ({"deny": ["*/create", "/pulls*"]}, ["t_issues_list"]),
        ({"tags": ["pulls"], "prefix": "gh"}, ["gh_pulls_get", "gh_pulls_delete"]),
        ({"tags": ["issues"], "prefix": ""}, ["issues_list", "issues_create"]),
    ],
)
def test_a_table_chooses_among_the_operations(keys: dict[str, Any], names: list[str]) -> None:
    assert list(adapted(document(ISSUES), **keys).tools) == names


def test_an_entry_that_fits_nothing_is_a_problem_with_the_nearest() -> None:
    made = adapted(document(ISSUES), operations=["issues/lst", "x*"], tags=["pull"])
    assert made.problems == (
        Problem(("operations", 0), "the document has no such operation", value="issues/lst", nearest="issues/list"),
        Problem(("operations", 1), "the document has no such operation", value="x*"),
        Problem(("tags", 0), "no operation is there", value="pull", nearest="pulls"),
    )


def test_a_deprecated_operation_is_a_tool_only_where_it_is_named() -> None:
    paths = {"/x": {"get": {"operationId": "old", "deprecated": True}}}
    assert adapted(document(paths)).left_out == (LeftOut("GET /x", DEPRECATED),)
    assert adapted(document(paths), operations=["ol*"]).tools == {}
    assert list(adapted(document(paths), operations=["old"]).tools) == ["t_old"]


def test_an_operation_that_is_named_and_cannot_be_a_tool_is_a_problem() -> None:
    paths = {"/x": {"trace": {"operationId": "trace"}}}
    why = "the method TRACE is not sent"
    assert adapted(document(paths)).left_out == (LeftOut("TRACE /x", why),)
    named = adapted(document(paths), operations=["trace"])
    assert named.problems == (Problem(("operations", 0), f"TRACE /x cannot be a tool: {why}", value="trace"),)


def test_of_an_operation_that_is_no_tool_in_the_end_nothing_is_told_but_that() -> None:
    union = {"anyOf": [{"type": "object", "properties": {str(n): {}}} for n in range(600)]}
    parameters = [
        {"name": "large", "in": "query", "content": {"application/json": {"schema": union}}},
        {"name": "odd", "in": "query", "style": "odd", "schema": {"type": "string"}},
    ]
    made = adapted(document({"/x": {"get": {"parameters": parameters}}}))
    assert [each.operation for each in made.left_out] == ["GET /x"]
    assert (made.operations, made.notes) == ({}, {})


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        ({"/a/{b}": {"get": {}}}, ["t_get_a_b"]),
        ({"/": {"get": {}}}, ["t_get"]),
        (
            {"/a": {"get": {"operationId": "x.y/z z"}}, "/b": {"get": {"operationId": "x-y z"}}},
            ["t_x_y_z_z", "t_x-y_z"],
        ),
        ({"/a": {"get": {"operationId": "same"}}, "/b": {"get": {"operationId": "same"}}}, ["t_same", "t_same_2"]),
        ({"/a": {"post": {"operationId": "2fa"}}}, ["t_post_2fa"]),
        ({"/a": {"get": {"operationId": "список"}}}, ["t_get"]),
        ({"/a": {"get": {"operationId": "a" * 200}}}, ["t_" + "a" * 79 + "_c2a908d9"]),
    ],
)
def test_a_name_says_the_operation_as_far_as_a_name_can(paths: dict[str, Any], names: list[str]) -> None:
    assert list(adapted(document(paths)).tools) == names


def test_parameters_of_a_path_are_those_of_its_operations_which_may_state_their_own() -> None:
    path = {
        "parameters": [
            {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}},
            {"name": "q", "in": "query", "schema": {"type": "string"}},
        ],
        "get": {"parameters": [{"name": "q", "in": "query", "schema": {"type": "integer"}}]},
    }
    made = adapted(document({"/a/{id}": path}))
    assert made.tools["t_get_a_id"]["input_schema"] == {
        "type": "object",
        "properties": {"id": {"type": "string"}, "q": {"type": "integer"}},
        "required": ["id"],
        "additionalProperties": False,
    }


def test_a_path_may_stand_elsewhere_and_further_methods_in_the_path() -> None:
    paths = {
        "/a": {"$ref": "#/components/pathItems/a"},
        "/b": {"query": {}, "additionalOperations": {"COPY": {}}},
        "x-more": {"get": {}},
    }
    made = adapted(document(paths, "3.2.0", components={"pathItems": {"a": {"get": {"operationId": "one"}}}}))
    assert made.operations == {"t_one": "GET /a", "t_query_b": "QUERY /b"}
    assert made.left_out == (LeftOut("COPY /b", "the method COPY is not sent"),)


# --- documents ---


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"[]", "it is no JSON object: Expected `object`, got `array`"),
        (b"{", "it is no JSON object: Input data was truncated"),
        (b"{}", 'it has neither "openapi" nor "swagger"; known are OpenAPI 3.0, 3.1 and 3.2, and Swagger 2.0'),
        (b'{"openapi":"4.0.0"}', "its version is 4.0.0; known are OpenAPI 3.0, 3.1 and 3.2, and Swagger 2.0"),
        (
            b'{"swagger":1.2}',
            'it has neither "openapi" nor "swagger"; known are OpenAPI 3.0, 3.1 and 3.2, and Swagger 2.0',
        ),
    ],
)
def test_what_is_no_document_is_a_problem(text: bytes, why: str) -> None:
    made = adapt(ApiSource(text), "t", OpenApiSpec(spec="x"))
    assert made.problems == (Problem(("spec",), f"cannot use this document: {why}"),)


def test_a_document_that_is_nested_too_deep_is_a_problem() -> None:
    text = b'{"openapi":"3.1.0","paths":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001
    (problem,) = adapt(ApiSource(text), "t", OpenApiSpec(spec="x")).problems
    assert problem.why.startswith("cannot use this document: it is no JSON object: ")


def test_parts_of_any_other_kind_are_left_out_and_never_in_the_way() -> None:
    paths: dict[str, Any] = {
        "/a": 1,
        "/b": {"get": [], "parameters": {}, "post": {"parameters": 0, "responses": [], "tags": "x", "security": 1}},
        "nowhere": {"get": {}},
        "/c": {"get": {"parameters": [1]}},
    }
    made = adapted(document(paths))
    assert made.operations == {"t_post_b": "POST /b"}
    assert made.left_out == (
        LeftOut("/a", "it is no object with operations"),
        LeftOut("GET /b", "it is no operation at a path"),
        LeftOut("GET nowhere", "it is no operation at a path"),
        LeftOut("GET /c", "one of its parameters has no name"),
    )


def test_a_base_url_is_asked_for_where_the_document_says_none() -> None:
    content = {**document(ISSUES), "servers": [{"url": "/v2"}]}
    (problem,) = adapted(content).problems
    assert problem == Problem(
        ("spec",), "the document does not say where the API is: base_url is missing", allowed='base_url = "https://…"'
    )
    assert adapted(content, base_url="https://own.example/").api == {"base_url": "https://own.example"}
    assert adapted(content, url="https://docs.example/a/openapi.json").api == {"base_url": "https://docs.example/v2"}


def test_an_operation_at_another_server_of_the_origin_has_its_own_url_and_is_left_out_elsewhere() -> None:
    paths = {
        "/a": {"get": {"servers": [{"url": "https://api.example/v2"}]}},
        "/b": {"servers": [{"url": "https://uploads.example"}], "get": {}},
    }
    made = adapted(document(paths))
    assert made.tools["t_get_a"]["rest"] == {"method": "GET", "api": "t", "url": "https://api.example/v2/a"}
    why = "it has the server https://uploads.example, and credentials go to that of base_url alone"
    assert made.left_out == (LeftOut("GET /b", why),)


def test_where_the_table_says_another_base_what_is_at_the_document_s_own_is_there() -> None:
    servers = [{"url": "https://{x}.example", "variables": {"x": {"default": "api"}}}]
    content = {"openapi": "3.0.0", "paths": {"/a": {"servers": servers, "get": {}}}}
    assert adapted(content).api == {"base_url": "https://api.example"}
    made = adapted(content, base_url="http://127.0.0.1:8080")
    assert made.tools["t_get_a"]["rest"] == {"method": "GET", "api": "t", "path": "/a"}


# --- credentials ---

SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "second": {"type": "apiKey", "in": "query", "name": "app"},
}


def secured(*requirements: dict[str, list[str]], **keys: Any) -> Any:
    content = document(
        {"/a": {"get": {"security": list(requirements)}}, "/b": {"get": {"security": []}}, "/c": {"get": {}}},
        components={"securitySchemes": SCHEMES},
        security=[{"bearer": []}],
    )
    return adapted(content, **keys)


def test_missing_credentials_are_a_problem_that_names_the_key_where_nothing_that_needs_any_can_be_called() -> None:
    made = secured({"key": [], "second": []})
    assert list(made.tools) == ["t_get_b"]
    assert made.problems == (
        Problem(
            (),
            "an operation needs the key X-Key, the key app",
            allowed='api_key = { header = "X-Key", value_env = "…" }; query = { app = "${…}" }',
        ),
        Problem((), "an operation needs a bearer token", allowed='token_env = "…"'),
    )


def test_an_operation_whose_credentials_are_missing_is_left_out_beside_others_that_can_be_called() -> None:
    made = secured({"key": []}, token="x")
    assert list(made.tools) == ["t_get_b", "t_get_c"]
    why = 'it needs the key X-Key: api_key = { header = "X-Key", value_env = "…" }'
    assert made.left_out == (LeftOut("GET /a", why),)
    assert made.problems == ()


@pytest.mark.parametrize(
    ("requirements", "keys"),
    [
        ([{"key": []}, {"bearer": []}], {"token_env": "T"}),
        ([{"key": []}, {}], {"token_file": "f"}),
        (
            [{"key": [], "second": []}],
            {"token": "x", "api_key": {"header": "x-key", "value": "1"}, "query": {"app": "2"}},
        ),
        ([{"key": []}], {"token": "x", "headers": {"X-KEY": "1"}}),
        ([{"nobody knows": []}], {"token": "x"}),
    ],
)
def test_any_one_of_the_alternatives_is_enough(requirements: list[dict[str, Any]], keys: dict[str, Any]) -> None:
    made = secured(*requirements, **keys)
    assert list(made.tools) == ["t_get_a", "t_get_b", "t_get_c"]
    assert made.problems == ()


def test_a_parameter_that_the_table_sets_itself_is_none_of_the_tool() -> None:
    parameters = [
        {"name": "Api-Version", "in": "header", "required": True, "schema": {"type": "string"}},
        {"name": "app", "in": "query", "schema": {"type": "string"}},
        {"name": "q", "in": "query", "schema": {"type": "string"}},
    ]
    made = adapted(
        document({"/a": {"get": {"parameters": parameters}}}), headers={"api-version": "2"}, query={"app": "x"}
    )
    assert made.tools["t_get_a"]["input_schema"] == {
        "type": "object",
        "properties": {"q": {"type": "string"}},
        "additionalProperties": False,
    }


def test_more_tools_than_anybody_offers_are_a_problem() -> None:
    paths: dict[str, Any] = {f"/{number}": {"get": {}} for number in range(5_001)}
    (problem,) = adapted(document(paths)).problems
    assert problem.why == "5001 operations are more than 5000"


def test_what_is_made_is_a_tool_as_its_author_could_have_written_it() -> None:
    made = adapted(document(ISSUES))
    assert msgspec.json.decode(msgspec.json.encode(made.tools)) == made.tools
