"""Tools of the toolbox: through the daemon, called directly, and as MCP servers offer the like over stdio.

One call at a time. A direct call has neither a process of its own nor a sandbox; `current_date` has both and does next
to nothing, so it says what a call of a worker under Landlock costs by itself.
"""

import contextlib
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import quantiles
from typing import Final

import msgspec

from benchmarks.harness import Agent, Bar, BenchmarkError, Table, micros, rotated, run_alone, scratch, start_daemon
from benchmarks.peers.toolbox_calls import direct_functions

FILES: Final = 20_000
DIRECTORIES: Final = 200
NEEDLE: Final = "survey_of_bees"
FILESYSTEM: Final = Path("build/servers/npm/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js")

DAEMON: Final = "daemon"
DIRECT: Final = "direct call"
SDK: Final = "official SDK's server"
NODE: Final = "server-filesystem"
RIPGREP: Final = "rg"
SORTED: Final = "rg --sort=path"
OVER_DIRECT_MS: Final = 2.0
OF_RIPGREP: Final = 1.5
LONG_LINE: Final = "edit of a line of 15 MB"
MOST_LONG_S: Final = 1.0

Caller = Callable[[], object]
Times = dict[tuple[str, str], list[float]]


def measure(quick: bool) -> Table:
    """Latency of each tool by each contender, who take turns."""
    rounds, calls, searches = (1, 20, 1) if quick else (5, 60, 3)
    with scratch() as workspace, contextlib.ExitStack() as stack:
        _make_tree(workspace)
        callers = _callers(workspace, stack)
        for call in callers.values():
            call()
        times: Times = {label: [] for label in callers}
        for number in range(rounds):
            for label in rotated(list(callers), number):
                times[label] += _time(callers[label], searches if label[0] in {"grep", LONG_LINE} else calls)
    return Table(
        title=f"The toolbox: small files, and a search in {FILES:,}",
        program="toolbox",
        columns=("tool, who runs it", "calls/s", "p50 us", "p99 us", "least us"),
        rows=[_row(label, each) for label, each in times.items()],
        bars=_bars(times),
        notes=(
            "One call in flight. current_date is an empty call: what one of a worker under Landlock costs by itself.",
            "edit replaces one word of a file of 40 lines; read reads it. server-filesystem has no search in contents.",
            *(() if FILESYSTEM.exists() else ("Not measured: server-filesystem; `make servers` installs it.",)),
        ),
    )


def _make_tree(workspace: Path) -> None:
    """Every hundredth file has one line with NEEDLE."""
    for number in range(FILES):
        folder = workspace / "tree" / f"d{number % DIRECTORIES}"
        folder.mkdir(parents=True, exist_ok=True)
        lines = [f"line {line} of file {number}" for line in range(20)]
        (folder / f"f{number}.txt").write_text("\n".join([*lines, NEEDLE] if number % 400 == 0 else lines))


def _callers(workspace: Path, stack: contextlib.ExitStack) -> dict[tuple[str, str], Caller]:
    daemon = _daemon(workspace, stack)
    direct = direct_functions(workspace)
    offered: dict[str, Callable[[str, dict[str, object]], object]] = {
        DAEMON: daemon.call,
        DIRECT: lambda name, arguments: direct[name](**arguments),
        SDK: _mcp_server([sys.executable, "-m", "benchmarks.peers.toolbox_mcp", str(workspace)], stack),
    }
    callers: dict[tuple[str, str], Caller] = {
        ("current_date", DAEMON): lambda: daemon.call("current_date", {}),
        (LONG_LINE, DAEMON): _long_line(workspace, daemon.call),
    }
    for who, call in offered.items():
        callers |= _three_tools(workspace, who, call)
    if FILESYSTEM.exists() and (node := shutil.which("node")):
        callers |= _node_tools(workspace, _mcp_server([node, str(FILESYSTEM), str(workspace)], stack))
    return callers | _ripgrep(workspace)


def _daemon(workspace: Path, stack: contextlib.ExitStack) -> Agent:
    place = msgspec.json.encode(str(workspace)).decode()
    config = f"""
[toolbox.files]
tools = ["read", "edit", "grep"]
[toolbox.clock]
tools = ["current_date"]
[agents.default]
toolboxes = ["files", "clock"]
workspace = {place}
"""
    agent = stack.enter_context(contextlib.closing(Agent(stack.enter_context(start_daemon(config)))))
    agent.ask({"__port": "hello"})
    return agent


def _three_tools(
    workspace: Path, who: str, call: Callable[[str, dict[str, object]], object]
) -> dict[tuple[str, str], Caller]:
    file, words = _small_file(workspace, who)
    return {
        ("read", who): lambda: call("read", {"path": file}),
        ("edit", who): _editing(call, file, words),
        ("grep", who): lambda: call("grep", {"pattern": NEEDLE, "path": str(workspace / "tree")}),
    }


def _editing(call: Callable[[str, dict[str, object]], object], file: str, words: list[str]) -> Caller:
    """What replaces the first of two words in a file by the other, and then that one."""

    def edit() -> None:
        call("edit", {"path": file, "old": words[0], "new": words[1]})
        words.reverse()

    return edit


def _long_line(workspace: Path, call: Callable[[str, dict[str, object]], object]) -> Caller:
    file = workspace / "long line.txt"
    file.write_text(f"{'x' * 7_500_000}wasps{'y' * 7_500_000}\n")
    # What was not read is not edited.
    call("read", {"path": str(file)})
    return _editing(call, str(file), ["wasps", "hornets"])


def _node_tools(workspace: Path, call: Callable[[str, dict[str, object]], object]) -> dict[tuple[str, str], Caller]:
    file, words = _small_file(workspace, NODE)

    def edit() -> None:
        call("edit_file", {"path": file, "edits": [{"oldText": words[0], "newText": words[1]}]})
        words.reverse()

    return {("read", NODE): lambda: call("read_text_file", {"path": file}), ("edit", NODE): edit}


def _small_file(workspace: Path, who: str) -> tuple[str, list[str]]:
    """A file of its own for each contender, and the word that stands in it once, before the one that replaces it."""
    file = workspace / f"small {who}.txt"
    file.write_text("\n".join([*(f"this is line {number}" for number in range(40)), "wasps"]))
    return str(file), ["wasps", "hornets"]


def _ripgrep(workspace: Path) -> dict[tuple[str, str], Caller]:
    own = Path(sysconfig.get_path("scripts"), "rg")
    program = str(own) if own.exists() else shutil.which("rg")
    if program is None:
        raise BenchmarkError("the program rg is not there, which grep runs: install ripgrep")

    def searching(*options: str) -> Caller:
        words = [program, "--no-config", "--line-number", *options, NEEDLE, str(workspace / "tree")]
        return lambda: subprocess.run(words, stdout=subprocess.PIPE, check=True)

    return {("grep", RIPGREP): searching(), ("grep", SORTED): searching("--sort=path")}


def _mcp_server(words: list[str], stack: contextlib.ExitStack) -> Callable[[str, dict[str, object]], object]:
    """A started server; what is given makes one call of it and waits."""
    process = stack.enter_context(_ended(words))
    client = {"name": "benchmark", "version": "1"}
    _ask(process, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
    _send(process, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    return lambda name, arguments: _ask(process, "tools/call", {"name": name, "arguments": arguments})


@contextlib.contextmanager
def _ended(words: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def _send(process: subprocess.Popen[bytes], message: dict[str, object]) -> None:
    assert process.stdin is not None
    process.stdin.write(msgspec.json.encode(message) + b"\n")
    process.stdin.flush()


def _ask(process: subprocess.Popen[bytes], method: str, params: dict[str, object]) -> object:
    _send(process, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    assert process.stdout is not None
    while line := process.stdout.readline():
        answer = msgspec.json.decode(line, type=dict[str, object])
        # A server may ask or tell something of its own in between.
        if answer.get("id") == 1 and "method" not in answer:
            result = answer.get("result")
            if not isinstance(result, dict) or result.get("isError"):
                raise BenchmarkError(f"{method} was answered {line[:400]!r}")
            return result
    raise BenchmarkError(f"the server ended at {method}")


def _time(call: Caller, times: int) -> list[float]:
    took = []
    for _ in range(times):
        begun = time.perf_counter()
        call()
        took.append(1e6 * (time.perf_counter() - begun))
    return took


def _percentile(times: list[float], at: int) -> float:
    return quantiles(times, n=100, method="inclusive")[at - 1] if len(times) > 1 else times[0]


def _row(label: tuple[str, str], times: list[float]) -> tuple[str, ...]:
    per_s = 1e6 * len(times) / sum(times)
    figures = (_percentile(times, 50), _percentile(times, 99), min(times))
    return (", ".join(label), f"{per_s:,.0f}", *map(micros, figures))


def _bars(times: Times) -> list[Bar]:
    bars = []
    for tool in ("read", "edit"):
        over_ms = (_percentile(times[tool, DAEMON], 50) - _percentile(times[tool, DIRECT], 50)) / 1000
        what = f"{tool} of a small file, p50 over the direct call"
        bars.append(Bar(what, f"≤ {OVER_DIRECT_MS:.0f} ms", f"{over_ms:.2f} ms", over_ms <= OVER_DIRECT_MS))
    for program in (RIPGREP, SORTED):
        ratio = _percentile(times["grep", DAEMON], 50) / _percentile(times["grep", program], 50)
        what = f"grep in {FILES:,} files, p50"
        bars.append(Bar(what, f"≤ {OF_RIPGREP} x {program}", f"{ratio:.2f}", ratio <= OF_RIPGREP))
    long_s = _percentile(times[LONG_LINE, DAEMON], 50) / 1e6
    bars.append(Bar(f"{LONG_LINE}, p50", f"≤ {MOST_LONG_S:.0f} s", f"{long_s:.2f} s", long_s <= MOST_LONG_S))
    return bars


if __name__ == "__main__":
    run_alone(measure)
