"""The command as a user starts it: once, with a configuration that has every kind of secret, and much that is wrong."""

import argparse
import json
import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tooldispatchd.cli import doctor

# Every secret begins with it, wherever it stands.
CANARY: Final = "canary-4711-"
CONFIG: Final = """\
mcp_json = ["others.json"]
[daemon]
listen = ["unix:DIRECTORY/d.sock"]
[audit]
store = "sqlite:DIRECTORY/nowhere/audit.sqlite"
[mcp.fine]
command = "PYTHON"
args = ["-I", "-S", "MISBEHAVING", "echo"]
tools = ["no_such_tool"]
[mcp.leaks]
command = "sh"
args = ["-c", "echo $KEY $PLAIN $VAULT $1 >&2; exit 3", "sh", "--token=canary-4711-argument"]
env = { KEY = "canary-4711-env", PLAIN = "${PLAIN}", VAULT = "${command:echo canary-4711-command}" }
[mcp.hangs]
command = "sh"
args = ["-c", "while read -r line; do :; done", "canary-4711-argument-alone"]
handshake_s = 1
[mcp.missing]
command = "no-such-program"
[mcp.literal]
url = "http://127.0.0.1:1/mcp?key=canary-4711-query"
token = "canary-4711-token"
headers = { X-Api-Key = "canary-4711-header", X-More = "canary-4711-more" }
[mcp.by_env]
url = "http://127.0.0.1:1/b"
token_env = "TOKEN"
[mcp.by_file]
url = "http://127.0.0.1:1/c"
token_file = "DIRECTORY/canary-4711-name"
[mcp.by_oauth]
url = "http://127.0.0.1:1/d"
auth = "oauth"
oauth = { grant = "client_credentials", client_id = "canary-4711-client", client_secret_env = "TOKEN" }
[rest.basic]
base_url = "http://127.0.0.1:1"
basic = { user = "me", password = "canary-4711-password" }
query = { key = "canary-4711-rest-query" }
[rest.keyed]
base_url = "http://127.0.0.1:1/v1"
api_key = { header = "X-Key", value = "${file:DIRECTORY/canary-4711-name}" }
[tools.basic]
type = "{} -> json"
rest = { api = "basic", path = "/x", headers = { X-Own = "canary-4711-request" } }
[tools.credential]
command = ["echo", "canary-4711-word"]
env = { A = "${credential:vault}", B = "canary-4711-tool-env" }
[agents.default]
tools = ["basic", "credential"]
mcp = ["fine", "leaks", "hangs", "missing", "literal", "by_env", "by_file", "by_oauth", "other"]
[agents.clerk]
token = "canary-4711-profile"
[agents.other]
token_env = "TOKEN"
"""
OTHERS: Final = {
    "mcpServers": {"other": {"url": "http://127.0.0.1:1/e", "headers": {"Authorization": "canary-4711-j"}}}
}
MISBEHAVING: Final = Path(__file__).parent.parent / "servers" / "misbehaving.py"


class Seen(NamedTuple):
    code: int
    out: str
    err: str
    bundle: Path

    def of(self, part: str, name: str) -> dict[str, Any]:
        findings = json.loads(self.out)["findings"]
        found: dict[str, Any] = next(each for each in findings if (each["part"], each["name"]) == (part, name))
        return found


def run_doctor(*words: str) -> int:
    parser = argparse.ArgumentParser()
    doctor.add_arguments(parser)
    return doctor.run(parser.parse_args(words))


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """What one run says."""
    directory = tmp_path_factory.mktemp("doctor")
    text = CONFIG.replace("DIRECTORY", str(directory)).replace("PYTHON", sys.executable)
    (directory / "t.toml").write_text(text.replace("MISBEHAVING", str(MISBEHAVING)))
    (directory / "others.json").write_text(json.dumps(OTHERS))
    (directory / "canary-4711-name").write_text("canary-4711-file\n")
    (directory / "vault").write_text("canary-4711-credential\n")
    secrets = {"TOKEN": "canary-4711-variable", "PLAIN": "canary-4711-plain", "CREDENTIALS_DIRECTORY": str(directory)}
    words = [sys.executable, "-m", "tooldispatchd", "doctor", "--config", str(directory / "t.toml"), "--json"]
    bundle = directory / "report.json"
    done = subprocess.run(
        [*words, "--bundle", str(bundle)], capture_output=True, text=True, env=os.environ | secrets, check=False
    )
    return Seen(done.returncode, done.stdout, done.stderr, bundle)


def test_what_is_wrong_is_told_with_what_to_do(seen: Seen) -> None:
    assert seen.code == 1
    assert json.loads(seen.out)["ok"] is False
    said = {name: seen.of("server", name)["said"] for name in ("fine", "hangs", "missing", "literal")}
    assert said == {
        "fine": "server fine does not offer the whitelisted tool no_such_tool",
        "hangs": "it did not answer server/discover within 1 s",
        "missing": "no-such-program cannot be started: No such file or directory",
        "literal": "cannot connect to 127.0.0.1 port 1: Connection refused",
    }
    assert seen.of("server", "leaks")["said"].startswith("it exited with code 3")
    assert seen.of("store", "audit.store")["advice"].startswith("mkdir -p ")
    assert seen.of("api", "basic")["health"] == "wrong"
    assert seen.of("tool", "credential")["health"] == "fine"
    assert seen.of("place", f"unix:{seen.bundle.parent}/d.sock")["said"] == "free"
    found = json.loads(seen.out)["findings"]
    assert [each["name"] for each in found if each["health"] == "wrong" and not each["advice"]] == []


def test_the_report_holds_no_secret_and_is_its_owners_alone(seen: Seen) -> None:
    text = seen.bundle.read_text()
    assert text.count(CANARY) == 0
    assert stat.S_IMODE(seen.bundle.stat().st_mode) == 0o600
    report = json.loads(text)
    assert report["configuration"]["mcp"]["literal"] == {
        "url": "…",
        "token": "…",
        "headers": {"X-Api-Key": "…", "X-More": "…"},
    }
    assert report["configuration"]["mcp"]["hangs"] == {"command": "…", "args": ["…", "…", "…"], "handshake_s": 1}
    assert report["machine"]["packages"]["trio"]
    assert len(report["findings"]) == len(json.loads(seen.out)["findings"])


def test_what_is_printed_holds_no_secret_that_is_known_as_one(seen: Seen) -> None:
    assert CANARY not in seen.err
    # An argument that no name calls a secret is shown to its operator as the daemon shows it.
    assert [
        secret for secret in ("env", "command", "token", "file", "variable") if f"{CANARY}{secret}" in seen.out
    ] == []


def test_a_report_overwrites_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "report.json").symlink_to("/nowhere")
    assert run_doctor("--bundle", str(tmp_path / "report.json")) == 2
    assert "and it is left as it is" in capsys.readouterr().err


def test_a_configuration_that_cannot_be_used_is_told_as_check_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.toml").write_text("frob = 1\n")
    assert run_doctor("--config", str(tmp_path / "t.toml"), "--bundle", str(tmp_path / "report.json")) == 2
    assert f"{tmp_path}/t.toml:1: frob: " in capsys.readouterr().err
    assert json.loads((tmp_path / "report.json").read_text())["problems"][0]["key"] == "frob"


def test_a_sound_configuration_is_fine_and_says_how_much_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listen = f'[daemon]\nlisten = ["unix:{tmp_path}/d.sock"]\n'
    (tmp_path / "t.toml").write_text(f'{listen}[tools.echo]\ninline = "id"\ntype = "string -> string"\n')
    assert run_doctor("--config", str(tmp_path / "t.toml")) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[-1].endswith(" fine")
    assert err == ""
    assert shlex.split(out)[0] == "fine"
