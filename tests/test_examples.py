"""The agents of protocol/examples/, and those of protocol/implementations/ under `run`, are played whole; and hooks."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.client.either import answer, hear, say, scripted
from tests.daemon.spawned import ROOT, Daemon, daemon_on, without_places

EXAMPLES: Final = ROOT / "protocol" / "examples"
CONFIG: Final = (ROOT / "tooldispatchd" / "cli" / "example.toml").read_text(encoding="utf-8")
HOOKS: Final = ROOT / "examples" / "hooks" / "hooks.toml"
TOKEN: Final = "ghp_" + "a" * 36
PATIENCE_S: Final = 60.0
IMPLEMENTATIONS: Final = ROOT / "protocol" / "implementations"
AGENT: Final = (sys.executable, str(EXAMPLES / "agent.py"))
# An agent's descriptors as `run` gives them, whatever numbers they have here.
LAUNCH: Final = """
import fcntl, os, sys
read_fd, write_fd = (fcntl.fcntl(int(word), fcntl.F_DUPFD, 10) for word in sys.argv[1:3])
os.dup2(write_fd, 4)
os.dup2(read_fd, 5)
os.closerange(6, 64)
os.execvp(sys.argv[3], sys.argv[3:])
"""


@pytest.fixture(scope="session")
def node() -> str:
    """Where Node is; it is installed where it is not."""
    if shutil.which("node") is None:
        subprocess.run(["apt-get", "update", "-qq"], check=True)
        subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", "nodejs"], check=True)
    found = shutil.which("node")
    assert found is not None, "the example in JavaScript needs Node, which could not be installed"
    return found


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with what `tooldispatchd init` writes, less the server, which is not what the examples are about."""
    tools, _, _ = CONFIG.partition("\n[mcp.time]\n")
    with daemon_on(tmp_path_factory.mktemp("examples"), tools) as daemon:
        yield daemon


def run(words: Sequence[str], **environ: str) -> subprocess.CompletedProcess[str]:
    environment = without_places() | environ
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def run_on(fds: tuple[int, int], words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run an agent with its channel on descriptors 4 and 5: `fds` are those to read and to write."""
    launch = [sys.executable, "-I", "-S", "-c", LAUNCH, *map(str, fds), *words]
    ended = subprocess.run(
        launch, env=without_places(), pass_fds=fds, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    for fd in set(fds):
        os.close(fd)
    return ended


TOLD: Final = [
    (
        "tools: echo greet sort words find dedent reverse address today current_date sleep"
        " job_wait job_read job_list job_stop info"
    ),
    'echo: "hello"',
    "gret: there is no such tool; trying greet",
    'greet: "Hello, Ada!"',
]


def test_an_agent_talks_through_a_socket(daemon: Daemon) -> None:
    ended = run([*AGENT, str(daemon.path)])
    assert (ended.returncode, ended.stderr, ended.stdout.splitlines()[:-1]) == (0, "", TOLD)
    assert ended.stdout.splitlines()[-1].startswith("greet: error: ")


def test_an_agent_talks_through_its_descriptors(daemon: Daemon) -> None:
    with socket.socket(socket.AF_UNIX) as channel:
        channel.connect(str(daemon.path))
        ended = run_on((os.dup(channel.fileno()), os.dup(channel.fileno())), AGENT)
    assert (ended.returncode, ended.stderr, ended.stdout.splitlines()[:-1]) == (0, "", TOLD)


def run_under_run(daemon: Daemon, *words: str) -> subprocess.CompletedProcess[str]:
    return run([sys.executable, "-m", "tooldispatchd", "run", "--socket", str(daemon.path), "--", *words])


def test_an_agent_talks_through_the_pipes_of_run(daemon: Daemon) -> None:
    ended = run_under_run(daemon, *AGENT)
    assert (ended.returncode, ended.stderr, ended.stdout.splitlines()[:-1]) == (0, "", TOLD)


# Calls of the conformance runner's tools, of which this daemon has one.
ASKED: Final = [
    TOLD[0],
    'echo: "a"',
    'echo: "c"',
    "fails: unknown_tool",
    "report: unknown_tool",
    "slow: unknown_tool",
]


def test_the_agent_in_node_talks_through_the_pipes_of_run(node: str, daemon: Daemon) -> None:
    ended = run_under_run(daemon, node, str(IMPLEMENTATIONS / "client.mjs"))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [ended.stdout.splitlines()[0], *sorted(ended.stdout.splitlines()[1:])] == ASKED


def test_the_agent_in_shell_talks_through_the_pipes_of_run(daemon: Daemon) -> None:
    ended = run_under_run(daemon, "sh", "-c", f"exec sh {IMPLEMENTATIONS / 'client.sh'} <&5 >&4")
    assert (ended.returncode, ended.stdout) == (0, "")
    assert sorted(ended.stderr.replace('\\"', '"').splitlines()[1:]) == ASKED[1:]


TOOLS: Final = {"__port": "tools", "tools": []}
BUSY: Final = (
    '{"error":"queue_full","category":"unavailable","detail":"busy","queue":"agent","retry_after_ms":10,"ran":"no"}'
)
# It came before a tool was found.
FLOODED: Final = '{"error":"too_many","category":"unavailable","detail":"busy","what":"lines_per_s","limit":1}'
MAY_HAVE_RUN: Final = '{"error":"server_unavailable","category":"unavailable","detail":"it is away","ran":"maybe"}'
LATE: Final = '{"error":"timeout","category":"unavailable","detail":"late","limit_ms":9,"stage":"queue","ran":"no"}'


def test_an_agent_tries_again_what_may_pass_and_has_not_begun_and_nothing_else() -> None:
    script = (
        *(hear("tools"), say(compact(TOOLS)), hear("tool_req", name="echo")),
        *(say(compact(answer(BUSY, is_error=True, fault=True))), hear("tool_req", name="echo")),
        *(say(compact(answer(FLOODED, is_error=True, fault=True))), hear("tool_req", name="echo")),
        *(say(compact(answer("again"))), hear("tool_req", name="gret")),
        *(say(compact(answer(MAY_HAVE_RUN, is_error=True, fault=True))), hear("tool_req", name="greet")),
        *(say(compact(answer(LATE, is_error=True, fault=True))), hear("bye"), say(compact({"__port": "bye"}))),
    )
    with scripted(*script) as (played, fds):
        ended = run_on(fds, AGENT)
    assert (ended.returncode, played.failed) == (0, None)
    asked = [said["id"] for said in played.heard if said["__port"] == "tool_req"]
    assert asked == ["1", "2", "3", "4", "5"]
    assert ended.stdout.splitlines()[1] == "echo: again"


def test_an_agent_whose_daemon_is_gone_says_so_and_ends() -> None:
    with scripted(hear("tools"), say(compact(TOOLS)), hear("tool_req")) as (_, fds):
        ended = run_on(fds, AGENT)
    assert (ended.returncode, ended.stderr) == (1, "the daemon closed the channel\n")


@pytest.mark.parametrize("name", ["with_blocking.py", "with_trio.py"])
def test_an_example_of_a_client_runs(name: str, daemon: Daemon, tmp_path: Path) -> None:
    ended = run([sys.executable, str(EXAMPLES / name)], TOOLDISPATCHD_SOCKET=str(daemon.path))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert '"Hello, Ada!"' in ended.stdout
    assert "invalid_input" in ended.stdout


def test_a_shell_that_knows_only_posix_takes_the_agent() -> None:
    checked = [shell for shell in ("dash", "busybox") if shutil.which(shell)]
    for shell in checked or ["sh"]:
        words = [shell, *(["sh"] if shell == "busybox" else []), "-n", str(IMPLEMENTATIONS / "client.sh")]
        assert run(words).stderr == ""


def test_every_example_is_in_the_table() -> None:
    table = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    files = {path.name for path in EXAMPLES.iterdir() if path.is_file()} - {"README.md"}
    assert {name for name in files if f"| `{name}` |" not in table} == set()


def compact(message: Mapping[str, object]) -> bytes:
    """A line as the daemon writes it: keys in their order, no white space."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


@pytest.mark.parametrize(
    ("tool", "value", "heard", "missing"),
    [
        ("write", '{"path": "/src/../.git/config", "text": ""}', "what is in .git is written by git alone", "/config"),
        ("run", '"rm -rf /nothing"', "deleting whole trees is not for agents", "/nothing"),
        ("run", f'"echo {TOKEN}"', '"[hidden]"', TOKEN),
        ("run", f'"echo {TOKEN} >&2; exit 3"', '"stderr_tail":"[hidden]', TOKEN),
    ],
)
def test_the_hooks_refuse_and_hide(tool: str, value: str, heard: str, missing: str) -> None:
    words = [sys.executable, "-m", "tooldispatchd", "call", "--config", str(HOOKS), tool, value]
    ran = run(words)
    said = ran.stdout + ran.stderr
    assert heard in said
    assert missing not in said
