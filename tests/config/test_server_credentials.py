"""Reading what servers are shown, and giving it to their bindings."""

from pathlib import Path

import pytest

from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.servers import ServerCredentials
from tooldispatchd.config.configuration import ConfigError, load_catalog
from tooldispatchd.config.credentials import MAX_KEY_CHARS, MAX_TOKEN_CHARS, take_credentials
from tooldispatchd.config.key_patterns import Table

URL = "https://docs.example/mcp"
PEM = "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----"


def whys(server: Table, environ: dict[str, str] | None = None) -> list[str]:
    secrets = take_credentials({"mcp": {"a": {"url": URL, **server}}}, environ or {})
    return [problem.why for problem in secrets.problems]


def load(directory: Path, text: str, environ: dict[str, str], *, mode: int = 0o600) -> Catalog:
    file = directory / "t.toml"
    file.write_text(text)
    file.chmod(mode)
    return load_catalog(file, environ)


def private_file(directory: Path, text: str, *, mode: int = 0o600) -> None:
    file = directory / "secret"
    file.write_text(text)
    file.chmod(mode)


@pytest.mark.parametrize(
    "source", ['token = "hunter2"', 'token_env = "TOKEN"', 'token_file = "secret"', 'token_file = "${FILE}"']
)
def test_a_token_becomes_a_header_behind_the_others(tmp_path: Path, source: str) -> None:
    private_file(tmp_path, "hunter2\n")
    text = f'[mcp.docs]\nurl = "{URL}"\nheaders = {{ X-Team = "${{TEAM}}" }}\n{source}\n'
    catalog = load(tmp_path, text, {"TOKEN": "hunter2", "FILE": "secret", "TEAM": "docs"})
    headers = (("X-Team", "docs"), ("authorization", "Bearer hunter2"))
    assert catalog.servers["docs"].credentials == ServerCredentials(headers)
    assert catalog.warnings == ()
    assert "hunter2" not in repr(catalog)


def test_each_server_has_its_own_wherever_its_table_stands(tmp_path: Path) -> None:
    text = f"""\
[mcp.plain]
command = "x"
[mcp.docs]
url = "{URL}"
token_env = "A"
[tools.t]
mcp = {{ url = "{URL}", token_env = "B" }}
[processes.p]
kind = "agent"
command = ["x"]
mcp = [{{ url = "{URL}", token = "c" }}, "docs"]
"""
    servers = load(tmp_path, text, {"A": "a", "B": "b"}).servers
    assert {name: [value for _, value in binding.credentials.headers] for name, binding in servers.items()} == {
        "plain": [],
        "docs": ["Bearer a"],
        "docs-example": ["Bearer b"],
        "docs-example-2": ["Bearer c"],
    }


def test_the_secret_and_the_key_of_oauth_are_read(tmp_path: Path) -> None:
    private_file(tmp_path, f"{PEM}\n")
    text = f"""\
[mcp.service]
url = "{URL}"
auth = "oauth"
oauth = {{ grant = "client_credentials", client_id = "x", client_secret_env = "SECRET" }}
[mcp.signed]
url = "{URL}"
auth = "oauth"
oauth = {{ grant = "private_key_jwt", client_id = "x", private_key_file = "secret" }}
"""
    catalog = load(tmp_path, text, {"SECRET": "hunter2"})
    assert catalog.servers["service"].credentials == ServerCredentials(client_secret="hunter2")
    assert catalog.servers["signed"].credentials == ServerCredentials(private_key=PEM)
    assert "hunter2" not in repr(catalog)


@pytest.mark.parametrize(("mode", "warnings"), [(0o400, 0), (0o640, 0), (0o644, 1), (0o602, 1)])
def test_a_file_that_others_may_use_is_a_warning(tmp_path: Path, mode: int, warnings: int) -> None:
    private_file(tmp_path, "hunter2", mode=mode)
    catalog = load(tmp_path, f'[mcp.docs]\nurl = "{URL}"\ntoken_file = "secret"\n', {})
    said = f"mcp.docs.token_file: others may read or change the file (mode {mode:04o})"
    assert catalog.warnings == (said,) * warnings


def test_a_token_in_a_configuration_that_others_may_read_is_a_warning(tmp_path: Path) -> None:
    text = f'[mcp.docs]\nurl = "{URL}"\ntoken = "hunter2"\n'
    assert load(tmp_path, text, {}, mode=0o640).warnings == ()
    (said,) = load(tmp_path, text, {}, mode=0o644).warnings
    assert said.startswith("mcp.docs.token: others may read this file (mode 0644): chmod 600 ")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("", "the token is empty"),
        ("a b", "the token has what no header can have"),
        ("a\nb", "the token has what no header can have"),
        ("ä", "the token has what no header can have"),
        ("\udcff", "the token has what no header can have"),
        ("x" * (MAX_TOKEN_CHARS + 1), f"the token has more than {MAX_TOKEN_CHARS} characters"),
    ],
)
def test_what_can_be_no_token_is_a_problem(value: str, why: str) -> None:
    assert whys({"token_env": "TOKEN"}, {"TOKEN": value}) == [why]


def test_a_token_may_fill_a_header() -> None:
    assert whys({"token": "x" * MAX_TOKEN_CHARS}) == []


def test_a_file_of_any_size_is_read_no_further_than_it_may_be_long(tmp_path: Path) -> None:
    private_file(tmp_path, "x" * 1_000_000)
    oauth: Table = {"grant": "private_key_jwt", "private_key_file": str(tmp_path / "secret")}
    assert whys({"auth": "oauth", "oauth": oauth}) == [f"the key has more than {MAX_KEY_CHARS} characters"]


def test_what_contradicts_itself_is_not_read() -> None:
    assert whys({"token_env": "NONE", "token_file": "/none"}) == []
    assert whys({"token_env": "NONE", "auth": "oauth"}) == []
    assert whys({"oauth": {"client_secret_env": "NONE"}}) == []
    assert whys({"auth": "oauth", "oauth": {"private_key_file": "/none"}}) == []
    assert take_credentials({"mcp": {"b": {"command": "x", "token_env": "NONE"}}}, {}).problems == ()


def test_no_problem_and_nothing_shown_bears_a_secret(tmp_path: Path) -> None:
    text = f"""\
[mcp.a]
url = "{URL}"
token = "hunter2 hunter2"
[mcp.b]
url = "{URL}"
token_env = "HOLDS"
[mcp.c]
url = "{URL}"
auth = "oauth"
oauth = {{ client_id = "x", client_secret_env = "HOLDS" }}
"""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text, {"HOLDS": "hunter2\nhunter2"})
    assert len(caught.value.findings) == 3
    assert "hunter2" not in f"{caught.value}{caught.value.findings!r}{caught.value.__cause__!r}"
