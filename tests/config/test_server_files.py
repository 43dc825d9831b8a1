"""PEM files of servers: what can never be used is told of when the configuration is loaded."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.http.certificates import Authority
from tooldispatchd.config.configuration import ConfigError, load_catalog

CA_MISSING = "t.toml:3: mcp.a.ca: cannot read the certificate's file: No such file or directory"


def problems(directory: Path, *lines: str) -> list[str]:
    """What is said of a server at a URL with these further lines."""
    file = directory / "t.toml"
    file.write_text("\n".join(["[mcp.a]", 'url = "https://docs.example/mcp"', *lines, ""]))
    try:
        load_catalog(file, {})
    except ConfigError as error:
        return str(error).replace(f"{directory}/", "").splitlines()[1:]
    return []


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    """A directory with `ca.pem`, `own.pem`, `own.key`, `other.key`, and `both.pem` with the first pair."""
    (tmp_path / "made").mkdir()
    authority = Authority(tmp_path / "made")
    cert, key = map(Path, authority.issue("own"))
    _, other = map(Path, authority.issue("other"))
    for name, source in {"ca.pem": Path(authority.ca), "own.pem": cert, "own.key": key, "other.key": other}.items():
        (tmp_path / name).write_bytes(source.read_bytes())
    (tmp_path / "both.pem").write_bytes(cert.read_bytes() + key.read_bytes())
    (tmp_path / "none.pem").write_text("nothing of the kind\n")
    return tmp_path


@pytest.mark.parametrize(
    "lines", [['ca = "ca.pem"'], ['cert = "both.pem"'], ['ca = "ca.pem"', 'cert = "own.pem"', 'key = "own.key"']]
)
def test_files_that_can_be_used_are_fine(pem: Path, lines: list[str]) -> None:
    assert problems(pem, *lines) == []


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (['ca = "gone.pem"'], [CA_MISSING]),
        (['ca = "."'], ["t.toml:3: mcp.a.ca: cannot read the certificate's file: Is a directory"]),
        (['ca = "none.pem"'], ["t.toml:3: mcp.a.ca: there is no PEM certificate in this file"]),
        (['ca = "own.key"'], ["t.toml:3: mcp.a.ca: there is no PEM certificate in this file"]),
        (['cert = "none.pem"'], ["t.toml:3: mcp.a.cert: there is no PEM certificate in this file"]),
        (
            ['cert = "own.pem"'],
            [
                "t.toml:3: mcp.a.cert: there is no PEM private key in this file",
                '    allowed: a certificate and its key in one file, or "key" beside it',
            ],
        ),
        (
            ['cert = "own.pem"', 'key = "gone.key"'],
            ["t.toml:4: mcp.a.key: cannot read the key's file: No such file or directory"],
        ),
        (['cert = "own.pem"', 'key = "ca.pem"'], ["t.toml:4: mcp.a.key: there is no PEM private key in this file"]),
        (['cert = "own.pem"', 'key = "other.key"'], ["t.toml:4: mcp.a.key: this is not the key of the certificate"]),
        (
            ['ca = "gone.pem"', 'cert = "own.pem"', 'key = "other.key"'],
            [CA_MISSING, "t.toml:5: mcp.a.key: this is not the key of the certificate"],
        ),
    ],
)
def test_files_that_can_never_be_used_are_problems(pem: Path, lines: list[str], said: list[str]) -> None:
    assert problems(pem, *lines) == said


def test_what_only_looks_like_pem_is_a_problem(pem: Path) -> None:
    (pem / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    (said,) = problems(pem, 'ca = "ca.pem"')
    assert said.startswith("t.toml:3: mcp.a.ca: OpenSSL cannot use this file: ")


def test_a_key_that_is_encrypted_is_a_problem(pem: Path) -> None:
    secret = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"
    (pem / "own.key").write_text(secret)
    said = problems(pem, 'cert = "own.pem"', 'key = "own.key"')
    assert said == ["t.toml:4: mcp.a.key: the key is encrypted, and nobody is there to type its passphrase"]


def test_a_pipe_is_not_waited_for(pem: Path) -> None:
    subprocess.run(["mkfifo", str(pem / "pipe")], check=True)
    assert problems(pem, 'ca = "pipe"') == [
        "t.toml:3: mcp.a.ca: cannot read the certificate's file: it is not a regular file"
    ]


def test_servers_without_a_table_of_their_own_are_looked_at_too(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_text('[tools.t]\nmcp = { url = "https://docs.example/", ca = "gone.pem" }\n')
    with pytest.raises(ConfigError, match=r"tools\.t\.mcp\.ca: cannot read the certificate's file"):
        load_catalog(file, {})


def test_nothing_of_tls_is_imported_for_a_configuration_without_such_files(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_text('[mcp.a]\nurl = "https://docs.example/"\n')
    program = (
        "import sys; from pathlib import Path; from tooldispatchd.config.configuration import load_catalog; "
        f"load_catalog(Path({str(file)!r}), {{}}); raise SystemExit('ssl' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
