"""Loading a configuration: exact reports, no secrets in them, and nothing but ConfigError for any input."""

import contextlib
import os
from hashlib import sha256
from pathlib import Path

import pytest

from tests.config.wrong_chains import CHAINS
from tests.config.wrong_configurations import CORPUS
from tests.config.wrong_expressions import EXPRESSIONS
from tests.config.wrong_oauth import OAUTH
from tests.config.wrong_processes import PROCESSES
from tests.config.wrong_requests import REQUESTS
from tests.config.wrong_server_keys import SERVER_KEYS
from tests.config.wrong_server_tokens import SERVER_TOKENS
from tests.config.wrong_servers import SERVERS
from tests.config.wrong_tools import TOOLS
from tests.config.wrong_types import TYPES
from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.config.config_report import MAX_SHOWN
from tooldispatchd.config.configuration import MAX_FILE_BYTES, ConfigError, find_configuration, load_catalog

NO_ENVIRONMENT: dict[str, str] = {}


def load(directory: Path, text: str, environ: dict[str, str] = NO_ENVIRONMENT) -> Catalog:
    file = directory / "t.toml"
    file.write_text(text)
    # It may hold a token, and whether others may read that depends on the umask.
    file.chmod(0o600)
    return load_catalog(file, environ)


def report_of(directory: Path, text: str, environ: dict[str, str] = NO_ENVIRONMENT) -> str:
    """The report, without the directory that the test happens to run in."""
    with pytest.raises(ConfigError) as caught:
        load(directory, text, environ)
    return str(caught.value).replace(f"{directory}/", "")


ALL: dict[str, tuple[str, str]] = CORPUS | TYPES | EXPRESSIONS | PROCESSES | CHAINS | TOOLS | REQUESTS
ALL |= SERVERS | SERVER_KEYS | SERVER_TOKENS | OAUTH
ENVIRONMENT = {"EMPTY": "", "SET": "x", "LINES": "a\nb"}


@pytest.mark.parametrize("case", ALL)
def test_a_wrong_configuration_gets_its_exact_report(tmp_path: Path, case: str) -> None:
    text, report = ALL[case]
    assert report_of(tmp_path, text, ENVIRONMENT) == report


def test_mistakes_of_meaning_are_told_once_the_form_is_right(tmp_path: Path) -> None:
    text = '[limits]\ncall_s = 0\n[tools.c]\ncommand = ["c"]\nqueue = "none"\n'
    assert "queue" not in report_of(tmp_path, text)
    assert "t.toml:5: tools.c.queue" in report_of(tmp_path, text.replace("0", "1"))


def test_findings_carry_their_lines_and_keys(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, "\n[limits]\ncalls = 1\n")
    assert caught.value.file == tmp_path / "t.toml"
    assert [(finding.line, finding.key) for finding in caught.value.findings] == [(3, "limits.calls")]


def test_a_long_report_ends_with_a_count(tmp_path: Path) -> None:
    keys = "".join(f"zebra{number} = 1\n" for number in range(MAX_SHOWN + 3))
    assert report_of(tmp_path, f"[limits]\n{keys}").endswith("\nand 3 more")


def test_a_long_value_is_cut(tmp_path: Path) -> None:
    report = report_of(tmp_path, f'[agents.a]\ntools = ["{"x" * 500}"]\n')
    assert f'seen "{"x" * 79}…' in report


SECRETS = """\
[mcp.a]
command = "run --key=hunter2"
args = ["--key", "hunter2", "${hunter_is_missing}", "hunter2${"]
token = "hunter2"
headers = { Authorization = "hunter2" }
evn = { KEY = "hunter2" }
url = "https://x:hunter2@host"
cwd = "${HOLDS}/x\\u0000"
tools = [3]
[mcp.a.env]
KEY = "hunter2${MISSING}"
OTHER = { nested = "hunter2" }
"NO=PE" = "hunter2"
NUMBER = 4242
[mcp]
b = "npx --key hunter2"
[tools.s]
mcp = { url = "https://x:hunter2@host", args = ["hunter2"], token = "hunter2", headers = { A = "hunter2" } }
[tools.u]
mcp = "https://x:hunter2@host"
[processes.p]
kind = "agent"
command = ["x", "hunter2", 3]
prompt = ["hunter2"]
options = "hunter2"
mcp = ["https://host/?key=hunter2 ", { env = { A = ["hunter2"] } }]
[tools.t]
command = ["x", "hunter2", { a = "hunter2" }]
env = "hunter2"
api_key = "hunter2"
builtin = "hunter2"
[daemon]
listen = ["unix:${HOLDS}?x"]
secret = "hunter2"
[agents.default]
token = "hunter2"
password = "hunter2"
[mcp.c]
url = "https://host/?key=hunter2"
auth = "Bearer hunter2"
oauth = { client_id = 3, client_secret_env = "hunter2", private_key_file = "hunter2", secret = "hunter2" }
hosts = ["x:hunter2@host"]
ca = ["hunter2"]
key = "hunter2"
[mcp.d]
url = "https://host/"
token_env = "hunter2"
headers = { A = "hunter2\\n", Host = "hunter2" }
[mcp.e]
url = "https://host/"
token_file = "hunter2"
headers = { Host = "hunter2", A = "${HOLDS}" }
[hunter]
x = "hunter2"
"""


# Well formed, and none of it can be used.
MEANT = """\
[mcp.a]
command = "run --key=hunter2"
url = "https://x:hunter2@host"
token = "hunter2"
headers = { Host = "hunter2" }
[mcp.c]
url = "https://host/?key=hunter2 "
auth = "oauth"
oauth = { client_secret_env = "hunter2", private_key_file = "hunter2" }
hosts = ["hunter2:99999"]
ca = "hunter2"
key = "hunter2"
[mcp.d]
url = "https://host/"
token_env = "hunter2"
[mcp.e]
url = "https://host/"
token_file = "hunter2"
token = "hunter2"
[tools.u]
mcp = "https://x:hunter2@host"
[tools.t]
command = ["hunter2"]
args = ["hunter2"]
env = { A = "hunter2" }
inline = "id"
[processes.p]
kind = "agent"
prompt = "hunter2"
options = { a = "hunter2" }
mcp = ["https://x:hunter2@host/"]
[agents.default]
token = "hunter2"
token_env = "hunter2"
[agents.a]
token_file = "hunter2"
"""


@pytest.mark.parametrize(("text", "problems"), [(SECRETS, 20), (MEANT, 14)])
def test_a_report_shows_no_value_that_may_be_a_secret(tmp_path: Path, text: str, problems: int) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text, {"HOLDS": "hunter2"})
    report = str(caught.value)
    assert "hunter2" not in report + repr(caught.value) + repr(caught.value.findings)
    assert "4242" not in report
    assert report.count("t.toml:") >= problems


def test_a_file_that_is_no_utf8_gets_the_line_of_the_first_bad_byte(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_bytes(b"[daemon]\n\n# \xff\n")
    with pytest.raises(ConfigError, match=r"t\.toml:3: not UTF-8$"):
        load_catalog(file, {})


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^cannot read .*/none\.toml: No such file or directory$"):
        load_catalog(tmp_path / "none.toml", {})


def test_a_path_that_holds_a_nul_says_so() -> None:
    with pytest.raises(ConfigError, match=r"^cannot read"):
        load_catalog(Path("a\0b"), {})


def test_a_directory_is_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Is a directory"):
        load_catalog(tmp_path, {})


def test_a_pipe_is_no_configuration_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(ConfigError, match=r"^cannot read .*/pipe\.toml: it is not a regular file$"):
        load_catalog(tmp_path / "pipe.toml", {})
    assert load_catalog(Path("/dev/null"), {}).tools == {}


def test_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.touch()
    os.truncate(file, MAX_FILE_BYTES + 1)
    with pytest.raises(ConfigError, match="it is over 4 MiB"):
        load_catalog(file, {})


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 5000 + "]" * 5000,
        "a = " + "[" * 100 + "]" * 100,
        ".".join(["a"] * 5000) + " = 1",
        "a = " + "{ a = " * 200 + "1" + " }" * 200,
    ],
    ids=["arrays", "some arrays", "dotted keys", "inline tables"],
)
def test_nesting_without_end_is_refused(tmp_path: Path, text: str) -> None:
    assert "nested" in report_of(tmp_path, text)


def test_a_number_of_too_many_digits_is_refused(tmp_path: Path) -> None:
    assert "t.toml" in report_of(tmp_path, f"[limits]\nin_flight = {'9' * 5000}")


def test_values_that_mean_what_happens_anyway_are_accepted(tmp_path: Path) -> None:
    catalog = load(
        tmp_path,
        """\
[tools.t]
command = ["x"]
input_mode = "json"
resident = false
[processes.p]
kind = "agent"
command = ["x"]
output_mode = "json"
""",
    )
    assert catalog.config.tools["t"].command == ("x",)


def test_zero_is_not_false(tmp_path: Path) -> None:
    report = report_of(tmp_path, '[tools.a]\ncommand = ["x"]\nresident = 0\n')
    assert "tools.a.resident: wrong kind of value\n    seen 0; allowed: true or false" in report


def test_an_empty_file_is_a_configuration(tmp_path: Path) -> None:
    assert list(load(tmp_path, "").profiles) == ["default"]


def test_variables_and_relative_paths_are_put_in_place(tmp_path: Path) -> None:
    catalog = load(
        tmp_path,
        """\
[daemon]
listen = ["unix:${NAME}.sock", "unix:/run/x", "stdio"]
[mcp.a]
command = "./server"
args = ["${NAME}", "${NONE:-some text}", "${BLANK:-full}", "${BLANK}", "$$5 $x", "./x"]
cwd = "work"
env = { TOKEN = "<${NAME}>" }
[tools.t]
command = ["bin/tool", "./${NAME}"]
args = ["${NAME}"]
description = "${NAME}"
""",
        {"NAME": "ann", "BLANK": ""},
    )
    server, tool = catalog.config.mcp["a"], catalog.config.tools["t"]
    assert catalog.config.daemon.listen == (f"unix:{tmp_path}/ann.sock", "unix:/run/x", "stdio")
    assert server.command == f"{tmp_path}/server"
    assert server.args == ("ann", "some text", "full", "", "$5 $x", "./x")
    assert server.cwd == f"{tmp_path}/work"
    assert server.env == {"TOKEN": "<ann>"}
    assert tool.command == (f"{tmp_path}/bin/tool", "./ann")
    assert tool.args == ("ann",)
    assert tool.description == "${NAME}"


def test_a_relative_socket_keeps_its_options_and_its_directory_is_quoted(tmp_path: Path) -> None:
    directory = tmp_path / "what?100%"
    directory.mkdir()
    catalog = load(directory, '[daemon]\nlisten = ["unix:a/x%25?mode=0600&profile=default"]\n')
    assert catalog.config.daemon.listen == (f"unix:{tmp_path}/what%3F100%25/a/x%25?mode=0600&profile=default",)


def test_tokens_of_every_kind_become_digests_and_leave_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("from the file\n")
    (tmp_path / "file").chmod(0o600)
    catalog = load(
        tmp_path,
        """\
[agents.written]
token = "hunter2"
[agents.variable]
token_env = "TOKEN"
[agents.file]
token_file = "${NAME}"
[agents.open]
""",
        {"TOKEN": "from the environment", "NAME": "file"},
    )
    assert catalog.tokens == {
        "written": sha256(b"hunter2").digest(),
        "variable": sha256(b"from the environment").digest(),
        "file": sha256(b"from the file").digest(),
    }
    assert catalog.config.agents["written"].token is None
    assert "hunter2" not in repr(catalog)
    assert "from the " not in repr(catalog)
    assert catalog.warnings == ()


def test_users_and_groups_are_numbers_in_the_profile(tmp_path: Path) -> None:
    profile = load(tmp_path, '[agents.a]\nuid = ["root", 1001]\ngid = "root"\njobs = false\n').profiles["a"]
    assert (profile.uids, profile.gids, profile.jobs) == (frozenset({0, 1001}), frozenset({0}), False)


def test_a_file_that_others_may_read_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("hunter2")
    (tmp_path / "file").chmod(0o604)
    catalog = load(tmp_path, '[agents.a]\ntoken_file = "file"\n')
    assert catalog.warnings == ("agents.a.token_file: others may read or change the file (mode 0604)",)


def test_not_even_the_cause_of_an_error_bears_the_file(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_bytes(b'[agents.a]\ntoken = "hunter2"\n# \xff\n')
    with pytest.raises(ConfigError) as caught:
        load_catalog(file, {})
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_a_variable_is_not_expanded_again(tmp_path: Path) -> None:
    text = '[mcp.a]\ncommand = "x"\nargs = ["${A}"]\n'
    assert load(tmp_path, text, {"A": "${B} $$"}).config.mcp["a"].args == ("${B} $$",)


def test_a_program_without_a_slash_is_left_to_the_path(tmp_path: Path) -> None:
    assert load(tmp_path, '[mcp.a]\ncommand = "npx"\n').config.mcp["a"].command == "npx"


def test_bytes_of_the_environment_that_are_no_text_pass_through(tmp_path: Path) -> None:
    text = '[mcp.a]\ncommand = "x"\nargs = ["${A}"]\n'
    assert load(tmp_path, text, {"A": "\udcff"}).config.mcp["a"].args == ("\udcff",)


def test_the_socket_of_a_long_path_is_refused(tmp_path: Path) -> None:
    report = report_of(tmp_path, f'[daemon]\nlisten = ["unix:/{"x" * 103}"]\n')
    assert "daemon.listen[0]: a socket's path has at most 103 bytes" in report


def test_the_file_in_the_working_directory_is_found_first(tmp_path: Path) -> None:
    (tmp_path / "tooldispatchd.toml").touch()
    with contextlib.chdir(tmp_path):
        assert find_configuration({"XDG_CONFIG_HOME": str(tmp_path)}) == Path("tooldispatchd.toml")


def test_the_users_own_file_is_found_by_either_variable(tmp_path: Path) -> None:
    file = tmp_path / ".config" / "tooldispatchd" / "config.toml"
    file.parent.mkdir(parents=True)
    file.touch()
    with contextlib.chdir(tmp_path):
        assert find_configuration({"HOME": str(tmp_path)}) == file
        assert find_configuration({"HOME": str(tmp_path), "XDG_CONFIG_HOME": "relative"}) == file
        assert find_configuration({"XDG_CONFIG_HOME": str(tmp_path / ".config")}) == file


def test_no_file_at_all_says_where_it_looked(tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path), pytest.raises(ConfigError) as caught:
        find_configuration({"XDG_CONFIG_HOME": str(tmp_path)})
    assert str(caught.value) == (
        "cannot find a configuration; looked for\n"
        "    tooldispatchd.toml\n"
        f"    {tmp_path}/tooldispatchd/config.toml\n"
        "    /etc/tooldispatchd/config.toml\n"
        '"tooldispatchd init" writes an example, "--config FILE" names another file'
    )


def test_who_has_no_home_has_no_file_there(tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path), pytest.raises(ConfigError) as caught:
        find_configuration({})
    assert ".config" not in str(caught.value)
