"""`top` and `status` in a real terminal: what tmux shows of them."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.daemon.spawned import Agent, Daemon, daemon_on, until, without_places

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")

CONFIG = """
[tools.stuck]
command = ["sleep", "1000"]
[tools.echo]
type = "string -> string"
inline = "id"
"""
WIDTH, HEIGHT = 80, 24


class Terminal:
    """A shell in a terminal of 80 columns that nobody looks at."""

    def __init__(self, directory: Path) -> None:
        self._command = ["tmux", "-S", str(directory / "tmux"), "-f", "/dev/null"]
        self._environ = without_places() | {"PS1": "$ ", "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
        size = ["-x", str(WIDTH), "-y", str(HEIGHT)]
        self._tmux("new-session", "-d", *size, "env", "-u", "ENV", "sh")

    def _tmux(self, *words: str) -> str:
        ended = subprocess.run(
            [*self._command, *words], env=self._environ, capture_output=True, text=True, timeout=20, check=True
        )
        return ended.stdout

    def type(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    @property
    def lines(self) -> list[str]:
        """What stands on the screen."""
        return self._tmux("capture-pane", "-p").splitlines()

    @property
    def colors(self) -> list[str]:
        """The colours that stand on the screen, but for the terminal's own (ECMA-48, SGR)."""
        return re.findall(r"\x1b\[(?:[0-9;]*;)?([34][0-8])[;m]", self._tmux("capture-pane", "-p", "-e"))

    def shows(self, words: str) -> bool:
        return any(words in line for line in self.lines)

    def close(self) -> None:
        self._tmux("kill-server")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path)
    yield terminal
    terminal.close()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_on(tmp_path_factory.mktemp("shown"), CONFIG) as running:
        yield running


@pytest.fixture
def ada(daemon: Daemon) -> Iterator[Agent]:
    with daemon.agent() as agent:
        agent.say({"__port": "hello", "agent": "ada"})
        agent.hear()
        agent.call("c1", "stuck", {}, agent="ada")
        yield agent


def figures_hidden(lines: Sequence[str]) -> list[str]:
    """The lines as they are whatever the moment: without figures, units and the longest turn."""
    hidden = (re.sub(r"[0-9.]+(?: (?:ms|us|s|min|h)\b)?", "#", line).rstrip() for line in lines)
    return [re.sub(r" +", " ", line) for line in hidden if not line.startswith("loop")]


def test_top_is_drawn_gone_into_and_left_as_it_was_found(daemon: Daemon, terminal: Terminal, ada: Agent) -> None:
    terminal.type(f"echo before; {sys.executable} -m tooldispatchd top --socket {daemon.path} --every 0.2", "Enter")
    until(lambda: terminal.shows("[agents] servers  tools"))
    drawn = terminal.lines
    assert terminal.colors == []
    assert max(map(len, drawn)) <= WIDTH
    assert "q quit" in drawn[-1]
    row = next(line for line in drawn if " ada " in line)
    assert row.split()[:2] == [">", "ada"]
    terminal.type("t")
    until(lambda: terminal.shows("agents  servers [tools]") and terminal.shows("stuck"))
    terminal.type("a")
    until(lambda: terminal.shows("[agents]"))
    terminal.type("Enter")
    until(lambda: terminal.shows("c1"))
    terminal.type("q")
    until(lambda: terminal.shows("before"))
    terminal.type("echo $((6 * 7))", "Enter")
    until(lambda: "42" in terminal.lines)


def test_status_is_drawn_on_a_terminal_as_it_is_for_a_program(daemon: Daemon, terminal: Terminal, ada: Agent) -> None:
    command = [sys.executable, "-m", "tooldispatchd", "status", "--socket", str(daemon.path)]
    piped = subprocess.run(
        command, env=without_places() | {"COLUMNS": str(WIDTH)}, capture_output=True, text=True, timeout=20, check=True
    ).stdout.splitlines()
    terminal.type(f"clear; {' '.join(command)}", "Enter")
    until(lambda: any(line.startswith("ada ") for line in terminal.lines))
    assert figures_hidden(terminal.lines)[: len(piped) - 1] == figures_hidden(piped)
    assert max(map(len, terminal.lines)) <= WIDTH
