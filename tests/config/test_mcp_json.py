"""Other clients' files of servers: what they become, and exact reports on what is wrong with them."""

import contextlib
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.specs import McpSpec
from tooldispatchd.config.configuration import ConfigError, load_catalog
from tooldispatchd.config.mcp_json import MAX_FILE_BYTES, MAX_FILES

NO_ENVIRONMENT: dict[str, str] = {}
NAMED = 'mcp_json = [".mcp.json"]\n'


def load(directory: Path, document: object, text: str = NAMED, environ: dict[str, str] = NO_ENVIRONMENT) -> Catalog:
    content = document if isinstance(document, str) else json.dumps(document, indent=1)
    (directory / ".mcp.json").write_text(content)
    (directory / "t.toml").write_text(text)
    return load_catalog(directory / "t.toml", environ)


def servers(directory: Path, document: object, environ: dict[str, str] = NO_ENVIRONMENT) -> dict[str, McpSpec]:
    return load(directory, document, environ=environ).config.mcp


def report_of(directory: Path, document: object, text: str = NAMED) -> str:
    with pytest.raises(ConfigError) as caught:
        load(directory, document, text)
    return str(caught.value).replace(f"{directory}/", "")


def warnings(directory: Path, document: object) -> list[str]:
    return [warning.replace(f"{directory}/", "") for warning in load(directory, document).warnings]


# --- what they become ---


@pytest.mark.parametrize("section", ["mcpServers", "servers"])
def test_each_server_is_one_of_mcp(tmp_path: Path, section: str) -> None:
    document = {
        section: {
            "git": {"command": "uvx", "args": ["mcp-server-git"], "env": {"A": "1"}, "cwd": "/srv"},
            "docs": {"url": "https://docs.example/mcp", "headers": {"X-Team": "docs"}},
        }
    }
    catalog = load(tmp_path, document)
    assert catalog.config.mcp == {
        "git": McpSpec(command="uvx", args=("mcp-server-git",), env={"A": "1"}, cwd="/srv"),
        "docs": McpSpec(url="https://docs.example/mcp", headers={"X-Team": "docs"}),
    }
    assert catalog.warnings == ()
    assert catalog.servers["docs"].credentials.headers == (("X-Team", "docs"),)


@pytest.mark.parametrize(
    ("kind", "transport"),
    [("http", "auto"), ("streamable-http", "http"), ("streamableHttp", "http"), ("sse", "sse"), (None, "auto")],
)
def test_a_type_is_a_transport(tmp_path: Path, kind: str | None, transport: str) -> None:
    document = {"mcpServers": {"docs": {"type": kind, "url": "https://docs.example/mcp"}}}
    assert servers(tmp_path, document)["docs"].transport == transport


def test_what_is_disabled_is_not_enabled_and_null_says_nothing(tmp_path: Path) -> None:
    document = {
        "mcpServers": {
            "a": {"type": "stdio", "command": "x", "disabled": True},
            "b": {"command": "x", "disabled": False, "args": None, "url": None, "env": {"A": None}},
        }
    }
    assert servers(tmp_path, document) == {"a": McpSpec(command="x", enabled=False), "b": McpSpec(command="x")}


def test_variables_are_expanded_as_these_files_write_them(tmp_path: Path) -> None:
    document = {
        "mcpServers": {
            "a": {
                "command": "${BIN}",
                "args": ["${A}", "${env:A}", "${NONE:-some text}", "$$5", "$x $", "${env:NONE:-}"],
                "env": {"KEY": "<${A}>"},
            },
            "b": {"url": "https://${A}.example/", "headers": {"X-Key": "${A}"}},
        }
    }
    found = servers(tmp_path, document, {"BIN": "server", "A": "one"})
    assert found["a"].command == "server"
    assert found["a"].args == ("one", "one", "some text", "$$5", "$x $", "")
    assert found["a"].env == {"KEY": "<one>"}
    assert found["b"].url == "https://one.example/"
    assert found["b"].headers == {"X-Key": "one"}


def test_relative_paths_start_at_the_directory_of_the_file(tmp_path: Path) -> None:
    directory = tmp_path / "a $HOME"
    directory.mkdir()
    document = {"mcpServers": {"a": {"command": "./server", "cwd": "work"}, "b": {"command": "npx", "cwd": "${DIR}"}}}
    (directory / "mcp.json").write_text(json.dumps(document))
    (tmp_path / "t.toml").write_text('mcp_json = ["a $HOME/mcp.json"]')
    found = load_catalog(tmp_path / "t.toml", {"DIR": "/srv"}).config.mcp
    assert found["a"].command == f"{directory}/server"
    assert found["a"].cwd == f"{directory}/work"
    assert (found["b"].command, found["b"].cwd) == ("npx", "/srv")


def test_a_file_may_be_named_by_the_environment(tmp_path: Path) -> None:
    catalog = load(tmp_path, {"servers": {"a": {"command": "x"}}}, 'mcp_json = ["${FILE}"]', {"FILE": ".mcp.json"})
    assert list(catalog.servers) == ["a"]


def test_profiles_and_tools_use_them_as_any_other(tmp_path: Path) -> None:
    text = f'{NAMED}[tools.t]\nmcp = "git"\n[agents.default]\nmcp = ["git"]\n[mcp.own]\ncommand = "y"\n'
    catalog = load(tmp_path, {"mcpServers": {"git": {"command": "x"}}}, text)
    assert list(catalog.servers) == ["own", "git"]
    assert catalog.servers["git"].prefix == "git"


def test_a_file_may_begin_with_a_mark_of_its_encoding(tmp_path: Path) -> None:
    assert list(servers(tmp_path, '\ufeff{"mcpServers": {"a": {"command": "x"}}}')) == ["a"]


# --- warnings ---


def test_a_name_that_no_server_can_have_is_changed_with_a_warning(tmp_path: Path) -> None:
    document = {"mcpServers": {"My Server (new)": {"command": "x"}, "ü": {"command": "y"}, "x" * 40: {"command": "z"}}}
    assert list(servers(tmp_path, document)) == ["My-Server-new", "server-mb2hjssh", "x" * 32]
    assert warnings(tmp_path, document) == [
        '.mcp.json:3: server "My Server (new)" is called My-Server-new',
        '.mcp.json:6: server "\\u00fc" is called server-mb2hjssh',
        f'.mcp.json:9: server "{"x" * 40}" is called {"x" * 32}',
    ]


def test_keys_that_mean_nothing_here_are_warnings(tmp_path: Path) -> None:
    document = {
        "inputs": [],
        "mcpServers": {"a": {"command": "x", "icon": "x.png", "queue": "", "gallery": 1}, "b": {"command": "x"}},
        **{f"a{number}": 1 for number in range(9)},
    }
    assert warnings(tmp_path, document) == [
        '.mcp.json:2: the file has keys that mean nothing here: "inputs", "a0", "a1", "a2", "a3", …',
        '.mcp.json:6: server "a" has keys that mean nothing here: "icon", "gallery"',
    ]


# --- problems ---

WRONG = {
    "no JSON": (
        '{\n "mcpServers": {\n  // of a\n  "a": {"command": "x" "y"}\n }\n}',
        """\
cannot use t.toml: 1 problem
.mcp.json:4: not JSON: Expecting ',' delimiter (column 24)""",
    ),
    "an empty file": (
        "",
        """\
cannot use t.toml: 1 problem
.mcp.json:1: not JSON: Expecting value (column 1)""",
    ),
    "a number that JSON has not": (
        '{"mcpServers": {"a": {"command": "x", "args": [NaN]}}}',
        """\
cannot use t.toml: 1 problem
.mcp.json:1: not JSON: NaN""",
    ),
    "a number of too many digits": (
        f'{{"mcpServers": {"9" * 5000}}}',
        """\
cannot use t.toml: 1 problem
.mcp.json:1: a number has too many digits""",
    ),
    "nesting without end": (
        "[" * 100_000,
        """\
cannot use t.toml: 1 problem
.mcp.json:1: arrays and objects are nested more than 32 deep""",
    ),
    "some nesting": (
        '{"mcpServers": ' + "[" * 40 + "]" * 40 + "}",
        """\
cannot use t.toml: 1 problem
.mcp.json:1: arrays and objects are nested more than 32 deep""",
    ),
    "no servers": (
        '{"command": "x"}',
        """\
cannot use t.toml: 1 problem
.mcp.json:1: no object "mcpServers" or "servers\"""",
    ),
    "a list": (
        "[]",
        """\
cannot use t.toml: 1 problem
.mcp.json:1: no object "mcpServers" or "servers\"""",
    ),
    "servers in a list": (
        '{\n "mcpServers": []\n}',
        """\
cannot use t.toml: 1 problem
.mcp.json:2: no object "mcpServers" or "servers\"""",
    ),
    "values of the wrong kind": (
        """\
{"mcpServers": {
  "a": {"command": ["x"],
    "args": ["y",
      []], "disabled": "no"},
  "b": "npx s3cret",
  "c": {"url": 3, "headers": {"A B": "s3cret"}},
  "d": null,
  "e": {"command": "x", "args": [null]}
}}""",
        """\
cannot use t.toml: 8 problems
.mcp.json:2: mcp.a.command: wrong kind of value
    seen an array; allowed: a string that is not empty, without NUL
.mcp.json:4: mcp.a.disabled: wrong kind of value
    allowed: true or false
.mcp.json:4: mcp.a.args[1]: wrong kind of value
    seen an array; allowed: a string without NUL
.mcp.json:5: mcp.b: wrong kind of value
    seen a string; allowed: a table
.mcp.json:6: mcp.c.url: wrong kind of value
    seen a whole number; allowed: a string that is not empty, without NUL
.mcp.json:6: mcp.c.headers."A B": not a valid name
    allowed: a header's name: letters, digits and signs, no space and no colon
.mcp.json:7: mcp.d: null has no meaning here
    seen null
.mcp.json:8: mcp.e.args[0]: null has no meaning here
    seen null""",
    ),
}
NO_TYPE = 'no such type (allowed: "stdio", "local", "http", "remote", "streamablehttp", "sse", "websocket", "ws"'
GO_WITHOUT = "allowed: to set it for the daemon, or enabled = false in [mcp.a], to go without this server"
LEFT_OUT = {
    "types that do not fit": (
        """\
{"servers": {
  "a": {"type": "stdio", "url": "https://docs.example/"},
  "b": {"type": "sse", "command": "x"},
  "c": {"type": "htpp", "url": "https://docs.example/"},
  "d": {"type": {"s3cret": 1}, "command": "x"}
}}""",
        [
            '2: server "a" is left out: mcp.a.type: a server of type "stdio" has a command',
            '3: server "b" is left out: mcp.b.type: a server of type "sse" has a url',
            f'4: server "c" is left out: mcp.c.type: {NO_TYPE}; did you mean "http"?)',
            f'5: server "d" is left out: mcp.d.type: {NO_TYPE})',
        ],
    ),
    "keys that do not go together": (
        """\
{"mcpServers": {
  "a": {},
  "b": {"command": "x", "url": "https://docs.example/"},
  "c": {"command": "x",
    "headers": {"A": "s3cret"}},
  "d": {"url": "https://docs.example/", "headers": {
    "Host": "s3cret"
  }}
}}""",
        [
            '2: server "a" is left out: mcp.a: a server has command or url, this one has neither',
            '3: server "b" is left out: mcp.b: a server has command or url, this one has both',
            '4: server "c" is left out: mcp.c.headers: only a server with url has headers',
            '6: server "d" is left out: mcp.d.headers.Host: the transport sets this header itself',
        ],
    ),
    "the environment": (
        """\
{"mcpServers": {"a": {
  "command": "${MISSING}",
  "args": ["${env:MISSING}", "${input:key}"]
}, "b": {"command": "x", "args": ["${command:pick}"]}}}""",
        [
            (
                f'1: server "a" is left out: mcp.a.command: the environment has no MISSING ({GO_WITHOUT}); '
                f"mcp.a.args[0]: the environment has no MISSING ({GO_WITHOUT}); "
                f"mcp.a.args[1]: the environment has no INPUT_KEY ({GO_WITHOUT})"
            ),
            (
                '4: server "b" is left out: mcp.b.args[0]: "${" begins no variable that can be read '
                "(allowed: enabled = false in [mcp.b], to go without this server)"
            ),
        ],
    ),
    "a server that is off": (
        """\
{"mcpServers": {
  "a": {"comand": "x", "disabled": true},
  "b": {"command": ["x", 1], "enabled": false, "toolsDenied": "delete"},
  "c": {"command": {"s3cret": 1}, "disabled": true, "includeTools": 5}
}}""",
        [
            '2: server "a" is left out: mcp.a.comand: unknown key (did you mean "command"?)',
            (
                '4: server "c" is left out: mcp.c.command: wrong kind of value '
                "(allowed: a string that is not empty, without NUL)"
            ),
        ],
    ),
}


@pytest.mark.parametrize("case", LEFT_OUT)
def test_a_server_that_cannot_be_used_is_left_out_with_its_reason(tmp_path: Path, case: str) -> None:
    document, told = LEFT_OUT[case]
    catalog = load(tmp_path, document)
    assert not any(spec.enabled for spec in catalog.config.mcp.values() if spec.command == "left-out")
    assert [each for each in warnings(tmp_path, document) if "left out" in each] == [
        f".mcp.json:{each}" for each in told
    ]


def test_a_server_that_is_left_out_costs_no_other(tmp_path: Path) -> None:
    document = {"mcpServers": {"a": {"command": {}}, "b": {"command": "x"}}}
    text = f"{NAMED}[mcp.a]\nprefix = 'p'\nshared = true\n[agents.default]\nmcp = ['a', 'b']\ntools = ['p:t']\n"
    catalog = load(tmp_path, document, text)
    assert [use.server for use in catalog.profiles["default"].servers] == ["b"]
    assert catalog.servers["a"].left_out is not None
    assert catalog.servers["b"].left_out is None


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_gets_its_exact_report(tmp_path: Path, case: str) -> None:
    document, report = WRONG[case]
    assert report_of(tmp_path, document) == report


def test_a_name_that_is_there_already_is_a_problem_that_says_where(tmp_path: Path) -> None:
    (tmp_path / "x.plumb").write_text('let other = { command: "z" }\nlet t : {} -> json = tool { mcp: other }')
    (tmp_path / "b.json").write_text('{\n"servers": {\n"a b": {"command": "x"}, "a-b": {"command": "x"}}}')
    text = 'plumb = ["x.plumb"]\nmcp_json = [".mcp.json", "b.json"]\n[mcp.own]\ncommand = "y"\n'
    document = '{"mcpServers": {\n"own": {"command": "x"},\n"a b": {"command": "x"},\n"other": {"command": "z"}}}'
    assert (
        report_of(tmp_path, document, text)
        == """\
cannot use t.toml: 3 problems
.mcp.json:2: mcp.own is declared already, at t.toml:3
.mcp.json:4: mcp.other is declared already, at x.plumb:1
b.json:3: mcp.a-b-zbuhucfk is declared already, at .mcp.json:3"""
    )


def test_files_that_cannot_be_read_are_problems_of_the_key(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"{\n\xff}")
    (tmp_path / "huge").write_bytes(b" " * (MAX_FILE_BYTES + 1))
    text = 'mcp_json = ["none", ".mcp.json", ".mcp.json", "latin", "huge", ".", 3, "", "${MISSING}"]\n'
    assert (
        report_of(tmp_path, {"servers": {}}, f"{text}[agents.a]\nmcp = ['unknown']\n")
        == """\
cannot use t.toml: 8 problems
t.toml:1: mcp_json[0]: cannot read this file: No such file or directory
    seen "none"
t.toml:1: mcp_json[2]: this file is named twice
    seen ".mcp.json"
t.toml:1: mcp_json[3]: cannot read this file: not UTF-8 in line 2
    seen "latin"
t.toml:1: mcp_json[4]: cannot use this file: it is over 1 MiB
    seen "huge"
t.toml:1: mcp_json[5]: cannot read this file: Is a directory
    seen "."
t.toml:1: mcp_json[6]: wrong kind of value
    seen 3; allowed: a string that is not empty, without NUL
t.toml:1: mcp_json[7]: not well-formed
    seen ""; allowed: a string that is not empty, without NUL
t.toml:1: mcp_json[8]: the environment has no MISSING
    seen "${MISSING}"; allowed: "${MISSING:-default}\""""
    )


def test_there_may_be_only_so_many_files(tmp_path: Path) -> None:
    named = json.dumps([f"{number}.json" for number in range(MAX_FILES + 1)])
    assert f"mcp_json: too many files\n    allowed: at most {MAX_FILES}" in report_of(
        tmp_path, {}, f"mcp_json = {named}\n"
    )


def test_one_name_that_is_no_list_is_the_schemas_to_refuse(tmp_path: Path) -> None:
    assert (
        report_of(tmp_path, {}, 'mcp_json = ".mcp.json"\n')
        == """\
cannot use t.toml: 1 problem
t.toml:1: mcp_json: wrong kind of value
    seen a string; allowed: an array of a string that is not empty, without NUL"""
    )


FORM = {
    "a": {"command": "x --key hunter2", "args": ["hunter2", 3], "env": {"A": ["hunter2"]}, "token": "hunter2"},
    "b": {"url": "https://x:hunter2@host/", "headers": {"A": "hunter2\n"}, "type": "hunter2"},
    "c": "hunter2",
}
MEANING = {
    "a": {"url": "https://x:hunter2@host/", "command": "hunter2", "env": {"A": "hunter2"}},
    "b": {"url": "https://host/", "headers": {"Host": "hunter2"}},
}


@pytest.mark.parametrize(("servers", "count"), [(FORM, 3), (MEANING, 2)])
def test_no_report_shows_what_may_be_a_secret(tmp_path: Path, servers: dict[str, object], count: int) -> None:
    told = warnings(tmp_path, {"mcpServers": servers})
    assert len([each for each in told if "left out" in each]) == count
    assert "hunter2" not in "".join(told)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, {"mcpServers": servers | {"d": {"command": "x", "deny": "hunter2"}}})
    assert "hunter2" not in f"{caught.value}{caught.value.findings!r}"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("mcpServers", "servers", "mcp", "projects", "/", "a", "command", "url", "args", "env", "headers"),
                    *("type", "transport", "name", "tools", "disabled", "httpUrl", "env_http_headers", "env_vars"),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(VALUES)
def test_any_document_gives_a_catalog_or_a_report(document: object) -> None:
    with TemporaryDirectory() as directory, contextlib.suppress(ConfigError):
        load(Path(directory), {"mcpServers": document})
    with TemporaryDirectory() as directory, contextlib.suppress(ConfigError):
        load(Path(directory), document)
