"""`[openapi.NAME]` of a configuration: its tools, its problems at their keys, what it warns of, and profiles."""

import json
from pathlib import Path
from typing import Any

import pytest

from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.explanation import explain
from tooldispatchd.config.configuration import ConfigError, load_catalog

PATHS: dict[str, Any] = {
    "/pets": {
        "get": {
            "operationId": "listPets",
            "tags": ["pets"],
            "summary": "List all pets",
            "description": "Of the store.",
        },
        "post": {"operationId": "addPet", "tags": ["pets", "admin"], "security": [{"bearer": []}]},
    },
    "/orders": {"get": {"operationId": "listOrders", "tags": ["orders"]}},
    "/old": {"get": {"operationId": "old", "deprecated": True}},
}
SCHEMES = {"bearer": {"type": "http", "scheme": "bearer"}}


def write(directory: Path, toml: str, paths: dict[str, Any] = PATHS) -> Path:
    document = {
        "openapi": "3.1.0",
        "servers": [{"url": "https://pets.example/v1"}],
        "paths": paths,
        "components": {"securitySchemes": SCHEMES},
    }
    (directory / "pets.json").write_text(json.dumps(document))
    path = directory / "t.toml"
    path.write_text(toml)
    path.chmod(0o600)
    return path


def load(directory: Path, toml: str, paths: dict[str, Any] = PATHS, **environ: str) -> Catalog:
    return load_catalog(write(directory, toml, paths), environ)


def told(directory: Path, toml: str, paths: dict[str, Any] = PATHS, **environ: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(directory, toml, paths, **environ)
    return str(caught.value).replace(f"{directory}/", "").splitlines()[1:]


ALL = '[openapi.pets]\nspec = "pets.json"\ntoken = "s3cret"\n'


def test_each_operation_is_a_tool_with_the_credentials_of_the_table(tmp_path: Path) -> None:
    catalog = load(tmp_path, ALL)
    assert list(catalog.tools) == ["pets_listPets", "pets_addPet", "pets_listOrders"]
    tool = catalog.tools["pets_listPets"]
    assert (tool.description, tool.spec.doc) == ("List all pets", "Of the store.")
    assert catalog.apis["pets"].credentials.headers == (("authorization", "Bearer s3cret"),)
    assert catalog.profiles["default"].tools == tuple(catalog.tools)
    assert catalog.warnings == ()


def test_a_document_lies_where_the_configuration_says_with_its_variables(tmp_path: Path) -> None:
    toml = '[openapi.pets]\nspec = "${WHERE}/pets.json"\nbase_url = "https://${HOST}/v2"\ntags = ["orders"]\n'
    catalog = load(tmp_path, toml, WHERE=".", HOST="own.example")
    assert (catalog.apis["pets"].origin, catalog.apis["pets"].base) == ("https://own.example", "/v2")


def test_the_keys_of_the_api_are_those_of_rest(tmp_path: Path) -> None:
    toml = ALL + 'headers = { X-Version = "2" }\nquery = { a = "b" }\ncall_s = 5\nmax_bytes = 2048\n'
    spec = load(tmp_path, toml).apis["pets"].spec
    assert (spec.headers, spec.query, spec.call_s, spec.max_bytes) == ({"X-Version": "2"}, {"a": "b"}, 5.0, 2048)


def test_what_is_wrong_is_told_at_the_key_of_the_table(tmp_path: Path) -> None:
    toml = (
        '[openapi.pets]\nspec = "pets.json"\noperations = ["lstPets"]\n'
        '[openapi.more]\nspec = "no.json"\n'
        '[agents.default]\nopenapi = ["pets#pts", "pest"]\n'
    )
    assert told(tmp_path, toml) == [
        "t.toml:3: openapi.pets.operations[0]: the document has no such operation",
        '    seen "lstPets"; did you mean "listPets"?',
        "t.toml:5: openapi.more.spec: cannot read this file: No such file or directory",
        "t.toml:7: agents.default.openapi[0]: no tool of this API has such a tag",
        '    seen "pets#pts"',
        "t.toml:7: agents.default.openapi[1]: there is no such API in [openapi]",
        '    seen "pest"; did you mean "pets"?',
    ]


def test_missing_credentials_name_their_key(tmp_path: Path) -> None:
    toml = '[openapi.pets]\nspec = "pets.json"\n'
    assert told(tmp_path, toml) == [
        "t.toml:1: openapi.pets: an operation needs a bearer token",
        '    allowed: token_env = "…"',
    ]


def test_what_the_table_of_the_api_says_wrong_is_told_at_its_own_keys(tmp_path: Path) -> None:
    toml = ALL + 'token_env = "HOME"\nkey = "k.pem"\nhosts = ["a:0"]\n'
    assert told(tmp_path, toml, HOME="x") == [
        't.toml:4: openapi.pets.token_env: "token" says already how the daemon is known there',
        "t.toml:5: openapi.pets.key: a key belongs to a cert, and this API has none",
        "t.toml:6: openapi.pets.hosts[0]: no such port",
        "    allowed: HOST, or HOST:PORT with a port of 1 to 65535",
    ]


def test_a_secret_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    toml = '[openapi.pets]\nspec = "pets.json"\ntoken_env = "PETS"\n'
    assert told(tmp_path, toml)[0] == "t.toml:3: openapi.pets.token_env: the environment has no such variable"


def test_a_url_is_not_asked_at_a_start(tmp_path: Path) -> None:
    toml = '[openapi.pets]\nspec = "https://pets.example/openapi.json?key=s3cret"\n'
    assert told(tmp_path, toml) == [
        "t.toml:2: openapi.pets.spec: this document has not been fetched yet, and is not at a start",
        "    allowed: tooldispatchd openapi pets --update, which fetches it",
    ]


def test_names_that_are_taken_are_told(tmp_path: Path) -> None:
    toml = (
        '[rest.pets]\nbase_url = "https://x.example"\n'
        + ALL
        + '[tools.pets_addPet]\ninline = "id"\ntype = "int -> int"\n'
        + '[openapi.two]\nspec = "pets.json"\ntoken = "x"\nprefix = "pets"\ntags = ["pets"]\n'
    )
    assert told(tmp_path, toml) == [
        "t.toml:3: openapi.pets: [rest.pets] is declared already, and this is one more",
        "    allowed: another name",
        "t.toml:3: openapi.pets: its tool pets_addPet is declared already",
        '    allowed: another prefix: prefix = "…"',
        "t.toml:9: openapi.two: its tool pets_listPets is declared already, and 1 more of its tools",
        '    allowed: another prefix: prefix = "…"',
    ]


@pytest.mark.parametrize(
    ("profile", "tools"),
    [
        ('openapi = ["pets"]', ["pets_listPets", "pets_addPet", "pets_listOrders"]),
        ('openapi = ["pets#orders"]', ["pets_listOrders"]),
        ('openapi = ["pets#ad*", "pets#pets"]', ["pets_addPet", "pets_listPets"]),
        ('tools = ["pets_list*"]', ["pets_listPets", "pets_listOrders"]),
        ('tools = ["pets_addPet"]\nopenapi = ["pets#orders"]', ["pets_addPet", "pets_listOrders"]),
    ],
)
def test_a_profile_chooses_by_tag_and_by_name(tmp_path: Path, profile: str, tools: list[str]) -> None:
    assert load(tmp_path, f"{ALL}[agents.default]\n{profile}\n").profiles["default"].tools == tuple(tools)


def test_what_is_left_out_is_one_warning_and_a_list_in_the_explanation(tmp_path: Path) -> None:
    paths = {
        **PATHS,
        "/x": {"trace": {}},
        "/y": {"get": {"parameters": [{"name": "p", "in": "query", "style": "odd"}]}},
    }
    catalog = load(tmp_path, ALL, paths)
    warning = "openapi.pets: an operation of its document is left out; check --explain says which, and why"
    assert catalog.warnings == (warning,)
    lines = explain(catalog, lambda path: f"t.toml:{'.'.join(map(str, path))}")
    start = lines.index("openapi pets : 4 tools (t.toml:openapi.pets)")
    assert lines[start + 1 : start + 4] == [
        "    left out: GET /old: it is deprecated, and no entry of operations names it",
        "    left out: TRACE /x: the method TRACE is not sent",
        "    left out: GET /y, in part: parameter p: no request is written with the style odd",
    ]


def test_an_api_of_which_nothing_is_left_is_a_warning(tmp_path: Path) -> None:
    assert load(tmp_path, ALL, {}).warnings == ("openapi.pets: it offers no tool",)


def test_an_unknown_key_is_told_with_the_nearest(tmp_path: Path) -> None:
    assert told(tmp_path, ALL + 'tag = ["a"]\n') == [
        "t.toml:4: openapi.pets.tag: unknown key",
        '    did you mean "tags"?',
    ]
