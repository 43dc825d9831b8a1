import copy
import os
from pathlib import Path

import pytest

from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.secrecy import is_shown_as
from tooldispatchd.catalog.specs import Config
from tooldispatchd.config.expansion import expand, expand_file
from tooldispatchd.config.key_patterns import Table
from tooldispatchd.config.secret_sources import SecretSources

HERE = Path("/etc/x")


def expanded(text: str, environ: dict[str, str]) -> object:
    table: Table = {"mcp": {"a": {"args": [text]}}}
    assert expand(table, environ, HERE) == []
    return table


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("plain", "plain"),
        ("${A}", "1"),
        ("x${A}y${A}z", "x1y1z"),
        ("$$", "$"),
        ("$${A}", "${A}"),
        ("$$${A}", "$1"),
        ("$A $ 5$", "$A $ 5$"),
        ("${B:-d e:-f}", "d e:-f"),
        ("${A:-d}", "1"),
        ("${EMPTY}", ""),
        ("${EMPTY:-d}", "d"),
        ("${B:-}", ""),
        ("}${A}{", "}1{"),
    ],
)
def test_a_text_means_what_its_variables_say(text: str, meaning: str) -> None:
    assert expanded(text, {"A": "1", "EMPTY": ""}) == {"mcp": {"a": {"args": [meaning]}}}


@pytest.mark.parametrize("text", ["${", "${}", "${1A}", "${A", "${A-b}", "${A:-${B}}", "${A b}"])
def test_what_cannot_be_read_as_a_variable_is_a_problem(text: str) -> None:
    table: Table = {"tools": {"a": {"env": {"X": text}}}}
    problems = expand(table, {"A": "1", "B": "2"}, HERE)
    assert [(problem.path, problem.why) for problem in problems] == [
        (("tools", "a", "env", "X"), '"${" begins no variable that can be read')
    ]


def test_every_variable_that_is_not_set_is_named_and_the_text_stays() -> None:
    table: Table = {"mcp": {"a": {"args": ["${A} ${B}"]}}}
    assert [problem.why for problem in expand(table, {}, HERE)] == [
        "the environment has no A",
        "the environment has no B",
    ]
    assert table == {"mcp": {"a": {"args": ["${A} ${B}"]}}}


def test_a_program_may_not_become_empty() -> None:
    table: Table = {"tools": {"a": {"command": ["${A:-}", "${A:-}"]}}}
    assert expand(table, {}, HERE) == [
        Problem(("tools", "a", "command", 0), "is empty once its variables are in place", value="${A:-}")
    ]


def test_what_is_of_another_shape_is_left_alone() -> None:
    table: Table = {"mcp": ["${A}"], "tools": {"a": "${A}", "b": {"args": {"x": 1}, "env": ["${A}"], "cwd": 3}}}
    before = repr(table)
    assert expand(table, {}, HERE) == []
    assert repr(table) == before


def test_paths_start_at_the_directory_of_the_file() -> None:
    table: Table = {
        "daemon": {"listen": ["unix:a.sock", "unix:/b.sock", "stdio"]},
        "mcp": {"a": {"command": "../bin/server", "cwd": "work", "args": ["./x"]}},
        "tools": {"a": {"command": ["python3", "./script.py"], "cwd": "/srv"}},
    }
    assert expand(table, {}, HERE) == []
    assert table == {
        "daemon": {"listen": ["unix:/etc/x/a.sock", "unix:/b.sock", "stdio"]},
        "mcp": {"a": {"command": "/etc/x/../bin/server", "cwd": "/etc/x/work", "args": ["./x"]}},
        "tools": {"a": {"command": ["python3", "./script.py"], "cwd": "/srv"}},
    }


def test_a_guess_at_a_place_to_listen_shows_nothing_of_the_environment() -> None:
    table: Table = {"daemon": {"listen": ["${A}", "/run/x"]}}
    problems = expand(table, {"A": "/hunter2"}, HERE)
    assert [(problem.value, problem.nearest) for problem in problems] == [("${A}", None), ("/run/x", "unix:/run/x")]


SERVER = {
    "command": "${A}",
    "url": "https://${A}",
    "args": ["${A}"],
    "env": {"X": "${A}"},
    "headers": {"X-${A}": "${A}"},
    "token": "${A}",
    "token_env": "${A}",
    "token_file": "${A}",
    "oauth": {"client_id": "${A}", "client_secret_file": "x/${A}", "private_key_file": "/${A}"},
    "ca": "${A}.pem",
    "cert": "/${A}.pem",
    "key": "../${A}.key",
    "hosts": ["${A}"],
}
EXPANDED_SERVER = {
    "command": "1",
    "url": "https://1",
    "args": ["1"],
    "env": {"X": "1"},
    "headers": {"X-${A}": "1"},
    "token": "1",
    "token_env": "${A}",
    "token_file": "/etc/x/1",
    "oauth": {"client_id": "1", "client_secret_file": "/etc/x/x/1", "private_key_file": "/1"},
    "ca": "/etc/x/1.pem",
    "cert": "/1.pem",
    "key": "/etc/x/../1.key",
    "hosts": ["${A}"],
}


def test_servers_processes_and_the_command_of_all_agents_are_expanded() -> None:
    table: Table = {
        "agent_command": ["${A}", "./${A}"],
        "mcp": {"m": copy.deepcopy(SERVER)},
        "tools": {"t": {"mcp": copy.deepcopy(SERVER)}, "u": {"mcp": "https://${A}"}},
        "processes": {
            "p": {
                "command": ["./${A}", "./x"],
                "args": ["${A}"],
                "env": {"X": "${A}"},
                "cwd": "work",
                "prompt": "${A}",
                "mcp": [copy.deepcopy(SERVER), "http://${A}"],
            }
        },
    }
    assert expand(table, {"A": "1"}, HERE) == []
    assert table == {
        "agent_command": ["1", "./1"],
        "mcp": {"m": EXPANDED_SERVER},
        "tools": {"t": {"mcp": EXPANDED_SERVER}, "u": {"mcp": "https://1"}},
        "processes": {
            "p": {
                "command": ["/etc/x/1", "./x"],
                "args": ["1"],
                "env": {"X": "1"},
                "cwd": "/etc/x/work",
                "prompt": "${A}",
                "mcp": [EXPANDED_SERVER, "http://1"],
            }
        },
    }


@pytest.mark.parametrize("url", ["ws://${A}", "WSS://${A}", "Https://${A}"])
def test_a_url_of_any_scheme_is_expanded_where_a_server_is_used(url: str) -> None:
    table: Table = {"tools": {"t": {"mcp": url}}}
    assert expand(table, {"A": "1"}, HERE) == []
    assert table == {"tools": {"t": {"mcp": url.replace("${A}", "1")}}}


@pytest.mark.parametrize("value", ["a\nb", "a\n", "\r", "ä", "\udcff", "x" * 16_385])
def test_a_variable_cannot_make_a_header_what_none_is(value: str) -> None:
    table: Table = {"mcp": {"a": {"headers": {"X": "${A}"}}}}
    problem = expand(table, {"A": value}, HERE)[0]
    assert problem.why == "no header can have this value once its variables are in place"
    assert problem.value == "${A}"
    assert table == {"mcp": {"a": {"headers": {"X": "${A}"}}}}


@pytest.mark.parametrize("value", ["", "a b\tc~", "x" * 16_384])
def test_a_header_may_become_any_line(value: str) -> None:
    table: Table = {"mcp": {"a": {"headers": {"X": "${A}"}}}}
    assert expand(table, {"A": value}, HERE) == []
    assert table == {"mcp": {"a": {"headers": {"X": value}}}}


@pytest.mark.parametrize(
    ("root", "uri"),
    [
        (".", "file:///etc/x"),
        ("work/", "file:///etc/x/work"),
        ("../y/./z", "file:///etc/y/z"),
        ("/srv/a b/ä#?%", "file:///srv/a%20b/%C3%A4%23%3F%25"),
        ("${A}", "file:///srv"),
        ("file:///srv/a%20b", "file:///srv/a%20b"),
        ("file:///srv/a b/ä", "file:///srv/a%20b/%C3%A4"),
        ("FILE://localhost/srv/", "file:///srv/"),
        ("file:x", "file:///etc/x/file%3Ax"),
    ],
)
def test_a_root_becomes_an_absolute_uri(root: str, uri: str) -> None:
    table: Table = {"agents": {"a": {"roots": [root]}}}
    assert expand(table, {"A": "/srv"}, HERE) == []
    assert table == {"agents": {"a": {"roots": [uri]}}}


@pytest.mark.parametrize("root", ["https://host/", "file://host/srv", "file://", "file:///%", "file:///a?b", "x://y"])
def test_a_root_is_on_this_machine(root: str) -> None:
    problems = expand({"agents": {"a": {"roots": [root]}}}, {}, HERE)
    assert [(problem.path, problem.why) for problem in problems] == [
        (("agents", "a", "roots", 0), "no directory of this machine")
    ]


def test_the_name_of_a_server_is_left_as_it_is_written() -> None:
    table: Table = {"tools": {"t": {"mcp": "${A}"}}, "processes": {"p": {"mcp": ["${A}"]}}}
    before = repr(table)
    assert expand(table, {"A": "hunter2"}, HERE) == []
    assert repr(table) == before


def test_variables_of_a_child_may_have_the_names_of_keys() -> None:
    table: Table = {"mcp": {"a": {"env": {"cwd": "work", "command": "${A:-}"}}}}
    assert expand(table, {}, HERE) == []
    assert table == {"mcp": {"a": {"env": {"cwd": "work", "command": ""}}}}


def test_a_url_may_not_become_empty() -> None:
    assert expand({"mcp": {"a": {"url": "${A:-}"}}}, {}, HERE) == [
        Problem(("mcp", "a", "url"), "is empty once its variables are in place", value="${A:-}")
    ]


def test_a_plumb_file_starts_at_the_directory_of_the_configuration() -> None:
    table: Table = {"plumb": ["a.plumb", "${A}/b.plumb"], "mcp_json": [".mcp.json"]}
    assert expand(table, {"A": "/srv"}, HERE) == []
    assert table == {"plumb": ["/etc/x/a.plumb", "/srv/b.plumb"], "mcp_json": ["/etc/x/.mcp.json"]}
    assert expand_file("${A}/b.plumb", {"A": "sub"}, HERE) == HERE / "sub/b.plumb"


@pytest.mark.parametrize("text", ["${MISSING}", "${", "${MISSING:-}"])
def test_a_file_that_cannot_be_named_is_none(text: str) -> None:
    assert expand_file(text, {}, HERE) is None


# --- texts of requests ---


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("${parameters.city}", "${parameters.city}"),
        ("${A}/${parameters.city}?key=${A}", "1/${parameters.city}?key=1"),
        ("${parameters.filter[name]}", "${parameters.filter[name]}"),
        ("$${parameters.city} $$", "$${parameters.city} $$"),
        ("${DOLLARS}", "a$$b$$$$c$${parameters.x}"),
        ("${B:-d}", "d"),
        ("cost $5", "cost $5"),
    ],
)
@pytest.mark.parametrize("key", ["url", "path", "text"])
def test_a_text_of_a_request_is_a_template_still(key: str, text: str, meaning: str) -> None:
    table: Table = {"tools": {"a": {"rest": {key: text}}}}
    assert expand(table, {"A": "1", "DOLLARS": "a$b$$c${parameters.x}"}, HERE) == []
    assert table == {"tools": {"a": {"rest": {key: meaning}}}}


def test_the_texts_within_a_body_are_expanded_however_deep() -> None:
    table: Table = {"tools": {"a": {"rest": {"body": {"k": [{"${A}": "${A}"}, 5, "${parameters.x}"]}}}}}
    assert expand(table, {"A": "1"}, HERE) == []
    assert table == {"tools": {"a": {"rest": {"body": {"k": [{"${A}": "1"}, 5, "${parameters.x}"]}}}}}


def test_a_parameter_means_nothing_elsewhere() -> None:
    table: Table = {"rest": {"a": {"base_url": "https://x/${parameters.a}", "headers": {"X": "${parameters.a}"}}}}
    assert [problem.why for problem in expand(table, {}, HERE)] == ['"${" begins no variable that can be read'] * 2


@pytest.mark.parametrize("value", ["a\nb", "a\r", "é", "\0", "x" * 20_000])
def test_no_variable_breaks_out_of_a_header_of_a_request(value: str) -> None:
    table: Table = {"tools": {"a": {"rest": {"headers": {"X": "${parameters.x} ${A}"}}}}}
    [problem] = expand(table, {"A": value}, HERE)
    assert problem.path == ("tools", "a", "rest", "headers", "X")


# --- files ---


def test_a_text_may_hold_what_a_file_does(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("s$cret\n")
    table: Table = {
        "rest": {"a": {"headers": {"X": "Key ${file:key}"}}},
        "tools": {"a": {"rest": {"url": f"https://x/?k=${{file:{tmp_path}/key}}"}}},
    }
    assert expand(table, {}, tmp_path) == []
    assert table == {
        "rest": {"a": {"headers": {"X": "Key s$cret"}}},
        "tools": {"a": {"rest": {"url": "https://x/?k=s$$cret"}}},
    }


def test_a_file_that_is_not_there_is_a_problem_without_its_name(tmp_path: Path) -> None:
    table: Table = {"rest": {"a": {"headers": {"X": "${file:hunter2}"}}}}
    [problem] = expand(table, {}, tmp_path)
    assert problem.why == "cannot read the value's file: No such file or directory"


@pytest.mark.parametrize(
    ("text", "meaning"),
    [("a$b$$c", "a$b$$c"), ("${A}", "1"), ("x$$${A}", "x$1"), ("", "")],
)
def test_a_token_is_taken_as_it_is_written_unless_it_has_a_variable(text: str, meaning: str) -> None:
    table: Table = {"agents": {"a": {"token": text}}, "tools": {"t": {"options": {"keys": [text, 1]}}}}
    assert expand(table, {"A": "1"}, HERE) == []
    assert table == {"agents": {"a": {"token": meaning}}, "tools": {"t": {"options": {"keys": [meaning, 1]}}}}


def test_a_text_may_hold_a_credential_of_systemd(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    sources = SecretSources({"CREDENTIALS_DIRECTORY": str(tmp_path)}, HERE)
    table: Table = {"mcp": {"a": {"headers": {"Authorization": "Bearer ${credential:token}"}}}}
    assert expand(table, {}, HERE, sources) == []
    assert table == {"mcp": {"a": {"headers": {"Authorization": "Bearer s3cret"}}}}
    assert sources.known == {"s3cret"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("${credential:../token}", "no credential can have this name"),
        ("${credential:other}", "cannot read the credential's file: No such file or directory"),
        ("${command:'}", "no command"),
        ("${command:not-there-at-all}", "cannot run the command: No such file or directory"),
        ("${command:sh -c 'echo s3cret; exit 3'}", "the command ended with code 3: run it by itself to see why"),
        ("${command:head -c 70000 /dev/zero}", "the command printed more than 65536 bytes"),
        ("${command:printf '\\377'}", "the command printed what is not UTF-8"),
    ],
)
def test_what_cannot_be_read_as_a_secret_is_a_problem_that_does_not_hold_it(
    text: str, why: str, tmp_path: Path
) -> None:
    table: Table = {"mcp": {"a": {"args": [text]}}}
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path), "PATH": os.environ["PATH"]}
    (problem,) = expand(table, environ, HERE)
    assert problem.why == why


def test_there_are_no_credentials_without_systemd() -> None:
    (problem,) = expand({"mcp": {"a": {"args": ["${credential:token}"]}}}, {}, HERE)
    assert problem.why == "there is no $CREDENTIALS_DIRECTORY"


def test_a_text_may_hold_what_a_command_prints_which_is_run_once(tmp_path: Path) -> None:
    text = f'${{command:sh -c \'echo x >> "{tmp_path}/runs"; echo "a b"\'}}'
    table: Table = {"mcp": {"a": {"args": [text, text]}}}
    assert expand(table, {"PATH": os.environ["PATH"]}, HERE) == []
    assert table == {"mcp": {"a": {"args": ["a b", "a b"]}}}
    assert (tmp_path / "runs").read_text() == "x\n"


def test_where_commands_are_not_run_something_stands_in_their_place(tmp_path: Path) -> None:
    sources = SecretSources({}, HERE, runs_commands=False)
    table: Table = {"mcp": {"a": {"url": "${command:false}"}}}
    assert expand(table, {}, HERE, sources) == []
    assert table == {"mcp": {"a": {"url": "http://command.invalid/"}}}


def test_variables_with_the_name_of_a_secret_are_known_as_such() -> None:
    sources = SecretSources({}, HERE)
    table: Table = {"mcp": {"a": {"args": ["${API_TOKEN}", "${PLACE}"]}}}
    assert expand(table, {"API_TOKEN": "s3cret", "PLACE": "here"}, HERE, sources) == []
    assert sources.known == {"s3cret"}


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("sqlite:audit.db", "sqlite:/etc/x/audit.db"),
        ("postgresql://ada:p%40ss@host:5432/calls?sslmode=verify-full", ...),
        ("${STORE_URL}", "postgresql://ada:p%40ss@host/calls"),
        # Whoever keeps a password knows nothing of URLs.
        ("postgresql://ada:${PASSWORD}@${HOST}/calls", "postgresql://ada:a%2Fb%40c@one:5432,two/calls"),
    ],
)
def test_a_store_is_a_file_or_the_url_of_a_database(text: str, meaning: object) -> None:
    table: Table = {"audit": {"store": text}}
    environ = {"STORE_URL": "postgresql://ada:p%40ss@host/calls", "PASSWORD": "a/b@c", "HOST": "one:5432,two"}
    assert expand(table, environ, HERE) == []
    assert table == {"audit": {"store": text if meaning is ... else meaning}}


@pytest.mark.parametrize(
    "text",
    [
        "mysql://host/calls",
        "audit.db",
        "postgresql://ada:a/b@host/calls",
        "postgresql://ada:a@b@host/calls",
        "${STORE}",
    ],
)
def test_what_is_no_store_is_a_problem_that_shows_no_password(text: str) -> None:
    (problem,) = expand({"audit": {"store": text}}, {"STORE": "s3cret"}, HERE)
    assert (problem.why, problem.value) == ("no store", text)
    assert not is_shown_as(Config, ("audit", "store"), text)


def test_a_store_that_a_command_would_name_is_not_judged_where_none_is_run() -> None:
    sources = SecretSources({}, HERE, runs_commands=False)
    table: Table = {"audit": {"store": "postgresql://ada:${command:false}@host/calls"}}
    assert expand(copy.deepcopy(table), {}, HERE, sources) == []
