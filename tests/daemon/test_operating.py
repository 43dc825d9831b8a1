"""The commands with which an operator looks at a running daemon, and has it read its configuration."""

import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.daemon.spawned import Daemon, daemon_on, until, without_places, words_of
from tooldispatchd.config.configuration import ConfigError, load

COMMAND = [sys.executable, "-m", "tooldispatchd"]
CONFIG = r"""
[processes.asker]
kind = "agent"
type = "!json -> !json"
command = ["sh", "-c", '''
ask() { printf '{"id":"%s","name":"%s","input":{}}\n' "$1" "$1" >&4; read -r answer <&5; }
ask nap; ask stuck
''']
tools = ["nap", "stuck"]
[tools.research]
process = "asker"
[tools.stuck]
command = ["sleep", "1000"]
[tools.nap]
command = ["echo", "1"]
[tools.echo]
type = "string -> string"
inline = "id"
"""

# An agent without a name is shown by its program and process: here these tests themselves.
AGENT: Final = re.escape(f"{Path('/proc/self/comm').read_text().strip()} {os.getpid()}")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_on(tmp_path_factory.mktemp("operated"), CONFIG) as running:
        yield running


def words(daemon: Daemon, *words: str) -> list[str]:
    return [*COMMAND, *words, "--socket", str(daemon.path)]


def run(daemon: Daemon, *said: str) -> tuple[int, str, str]:
    """The exit code of a command, what it printed, and what it complained of."""
    command = words(daemon, *said)
    ended = subprocess.run(command, env=without_places(), capture_output=True, text=True, timeout=20, check=False)
    return ended.returncode, ended.stdout, ended.stderr


def test_a_reload_tells_what_has_changed_and_what_is_wrong(daemon: Daemon) -> None:
    file = daemon.path.parent / "config.toml"
    file.write_text(CONFIG + '[tools.more]\ncommand = ["true"]\n[limits]\nstalled_s = 7\n')
    code, changed, warnings = run(daemon, "reload")
    assert (code, changed) == (0, "tools.more: new\n")
    assert warnings.startswith("warning: limits.stalled_s stays as it was")
    file.write_text(CONFIG + "[tools.more]\ncommand = 7\n")
    with pytest.raises(ConfigError) as wrong:
        load(file, os.environ)
    assert run(daemon, "reload", "--apply") == (2, "", f"{wrong.value}\n")
    code, told, complaint = run(daemon, "reload", "--json")
    assert (code, complaint) == (2, "")
    assert json.loads(told) == {"ok": False, "problems": wrong.value.fields(), "warnings": [], "changed": []}


def test_the_log_is_followed_as_a_terminal_shows_it_until_ctrl_c(daemon: Daemon) -> None:
    said = words(daemon, "logs", "--level", "debug", "--tool", "echo")
    pipe = subprocess.PIPE
    with (
        subprocess.Popen(said, env=without_places(), text=True, stdout=pipe, stderr=pipe) as logs,
        daemon.agent() as agent,
    ):
        told = logs.stdout
        assert told is not None
        # It follows from some moment on.
        until(lambda: bool(agent.ask("echo", "x") and select.select([told], [], [], 0.1)[0]))
        line = told.readline()
        logs.send_signal(signal.SIGINT)
        assert (logs.wait(20), logs.stderr and logs.stderr.read()) == (130, "")
    assert re.fullmatch(r"[\d:]{8} debug   call answered            session=\d+ .*tool=echo .*\n", line)
    assert '"call answered"' not in daemon.log.read_text()


# What the shell says when a command has ended, of the modes of its terminal too.
SAME: Final = "echo ended $?; stty -g | cmp - before && echo same"


class Terminal:
    """A shell in a real terminal of 80 columns and 24 lines, which tmux plays."""

    def __init__(self, directory: Path) -> None:
        self._tmux = ["tmux", "-S", str(directory / "tmux"), "-f", "/dev/null"]
        self._said("new-session", "-d", "-x", "80", "-y", "24", "-c", str(directory), "env PS1='$ ' HISTFILE= sh")
        until(lambda: self.screen() == ["$"])

    def _said(self, *words: str) -> str:
        environment = {**without_places(), "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
        told = subprocess.run([*self._tmux, *words], env=environment, capture_output=True, text=True, check=False)
        return told.stdout

    def screen(self) -> list[str]:
        """Its lines, less the empty ones."""
        return [line.rstrip() for line in self._said("capture-pane", "-p").splitlines() if line.strip()]

    def press(self, *keys: str) -> None:
        self._said("send-keys", *keys)

    def run(self, line: str) -> None:
        """Have the shell run this on an empty screen."""
        self._said("send-keys", "-l", f"clear; {line}")
        self.press("Enter")

    def shows(self, *patterns: str) -> list[str]:
        """Wait until each of these is a line, in this order; the screen."""
        found: list[str] = []

        def is_shown() -> bool:
            found[:] = self.screen()
            lines = iter(found)
            return all(any(re.fullmatch(pattern, line) for line in lines) for pattern in patterns)

        try:
            until(is_shown)
        except AssertionError:
            pytest.fail(f"{patterns} are not shown:\n" + "\n".join(found))
        return found

    def close(self) -> None:
        self._said("kill-server")


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    opened = Terminal(tmp_path_factory.mktemp("tmux"))
    yield opened
    opened.close()


def test_a_terminal_shows_which_agent_serves_which_call(daemon: Daemon, terminal: Terminal) -> None:
    with daemon.agent() as agent:
        agent.hello("default")
        agent.call("1", "research", {})
        until(lambda: b"1000" in {word for pid in daemon.running("1000") for word in words_of(pid)})
        terminal.run(shlex.join(words(daemon, "tree")))
        terminal.shows(
            rf"{AGENT}  session \d+, default, uid \d+, \d[\d.]* m?s",
            r"└── research  running for \d[\d.]* m?s",
            r"    └── agent  session \d+, asker, uid \d+, \d[\d.]* m?s",
            r"        ├── stuck  running for \d[\d.]* m?s",
            r"        └── nap  1 ok, the last \d[\d.]* m?s ago, .* at most",
        )


def test_a_terminal_watches_what_happens_and_is_itself_again(daemon: Daemon, terminal: Terminal) -> None:
    top = shlex.join(words(daemon, "top", "--every", "0.2"))
    with daemon.agent() as agent:
        agent.hello("default")
        agent.call("1", "stuck", {})
        terminal.run(f"stty -g > before; {top}; {SAME}")
        terminal.shows(
            r"serving for \d[\d.]* s, 1 session; calls: 1, 0 wait, \d+ answered; .* MiB",
            r"\[agents\] servers  tools",
            r"  agent +session  profile  calls  wait  oldest↓  answered  faults  pid",
            rf"> {AGENT}  \d+ +default  1      0     \d[\d.]* m?s +0         0       \d+",
            r"q quit  a agents  s servers  t tools  ↑↓ Enter into  < > sort  r reverse",
        )
        terminal.press("Enter")
        terminal.shows(
            rf"agents > {AGENT}: its calls", rf"> stuck  running +\d.* m?s +{AGENT} +\d+ +1", "q quit  Esc back  .*"
        )
        terminal.press("Escape", "t")
        terminal.shows(r" agents  servers \[tools\]", r"  tool .*", r". stuck +1 .*")
        terminal.press("q")
        terminal.shows("ended 0", "same")


def test_a_terminal_is_itself_again_however_top_ends(daemon: Daemon, terminal: Terminal) -> None:
    top = shlex.join(words(daemon, "top", "--every", "0.2", "--timeout", "1"))
    terminal.run(f"stty -g > before; {top}; {SAME}")
    terminal.shows("q quit  .*")
    running = {int(entry.name): words_of(int(entry.name)) for entry in Path("/proc").glob("[0-9]*")}
    (pid,) = [pid for pid, said in running.items() if {b"top", bytes(daemon.path)} <= set(said)]
    os.kill(pid, signal.SIGTERM)
    terminal.shows("ended 143", "same")
    terminal.run(f"{top}; {SAME}")
    terminal.shows("q quit  .*")
    os.kill(daemon.process.pid, signal.SIGSTOP)
    try:
        terminal.shows("the daemon did not answer within 1 s; this is as it was before")
    finally:
        os.kill(daemon.process.pid, signal.SIGCONT)
    terminal.shows("serving for .*")
    terminal.press("q")
    terminal.shows("ended 0", "same")


def test_a_reader_who_has_gone_ends_what_is_watched(daemon: Daemon) -> None:
    said = words(daemon, "tree", "--watch", "0.01")
    with subprocess.Popen(said, env=without_places(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as tree:
        assert tree.stdout is not None
        tree.stdout.readline()
        tree.stdout.close()
        assert (tree.wait(20), tree.stderr and tree.stderr.read()) == (141, b"")


def test_top_needs_a_terminal(daemon: Daemon) -> None:
    said = "tooldispatchd: top needs a terminal; programs have: tooldispatchd status --json\n"
    assert run(daemon, "top") == (2, "", said)


def test_what_fails_again_and_again_is_logged_ever_more_rarely(tmp_path: Path) -> None:
    config = (
        '[mcp.absent]\ncommand = "/bin/false"\ntools = ["x"]\n[tools.echo]\ntype = "json -> json"\ninline = "id"\n'
        '[hooks.broken]\nbefore = ["/bin/false"]\n[agents.default]\ntools = ["echo"]\n[agents.down]\nmcp = ["absent"]\n'
    )
    with daemon_on(tmp_path, config) as daemon, daemon.agent() as agent:
        for number in range(20):
            agent.say({"__port": "hello", "profile": "down", "agent": str(number)})
            assert agent.hear()["error"] == "server_unavailable"
            assert agent.ask("echo", number)["fault"] is True
        until(lambda: daemon.logged("connection ended") == 11)
        # The agent's own session is the one that opened.
        assert daemon.logged("session opened") == 12
        assert daemon.logged("hook failed") == 11
