"""Start of the daemon: spawn to the first `ready`, what it imports, and how soon `--help` answers."""

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.harness import START_S, Bar, BenchmarkError, Table, daemon_words, run_alone, scratch

CONFIG: Final = """
[tools.echo]
type = "string -> string"
inline = "id"
"""
HELLO: Final = b'{"__port":"hello"}\n'
READY: Final = b'"ready"'
LIBRARIES: Final = "import trio, msgspec, jsonschema_rs"
UNUSED: Final = ("mcp", "httpx2", "opentelemetry", "cel_expr_python", "jsonschema", "pydantic", "asyncio", "rich")
"""Packages that a daemon with one inline tool has no use for; those of the design first."""
UNUSED_BY_HELP: Final = ("trio", "msgspec", "mcp", "jsonschema_rs", "httpx2")
READY_BAR_MS: Final = 400.0
HELP_BAR_MS: Final = 100.0


def measure(quick: bool) -> Table:
    """Medians of some starts, each a new process."""
    rounds = 2 if quick else 9
    with scratch() as folder:
        file = folder / "tooldispatchd.toml"
        file.write_text(CONFIG)
        python_ms = _median_ms([sys.executable, "-c", "pass"], rounds)
        libraries_ms = _median_ms([sys.executable, "-c", LIBRARIES], rounds)
        help_ms = _median_ms([sys.executable, "-m", "tooldispatchd", "--help"], rounds)
        on_socket_ms = median(_ready_on_socket_ms(file, folder / f"{number}.sock") for number in range(rounds))
        on_stdio_ms = median(_ready_on_stdio_ms(file) for _ in range(rounds))
        by_daemon = _imported(["-X", "importtime", *daemon_words(file)[1:], "--listen", "stdio"])
    by_help = _imported(["-X", "importtime", "-m", "tooldispatchd", "--help"])
    return Table(
        title="Start",
        program="start",
        columns=("what", "ms"),
        rows=[
            ("bare python", f"{python_ms:.0f}"),
            (f"python, {LIBRARIES}", f"{libraries_ms:.0f}"),
            ("tooldispatchd --help", f"{help_ms:.0f}"),
            ("spawn to ready on a Unix socket", f"{on_socket_ms:.0f}"),
            ("spawn to ready on stdio", f"{on_stdio_ms:.0f}"),
        ],
        bars=[
            _time_bar("start to ready, Unix socket", READY_BAR_MS, on_socket_ms),
            _time_bar("start to ready, stdio", READY_BAR_MS, on_stdio_ms),
            _time_bar("tooldispatchd --help", HELP_BAR_MS, help_ms),
            _unused_bar("a daemon with one inline tool imports nothing that it does not use", UNUSED, by_daemon),
            _unused_bar("--help imports nothing that it does not use", UNUSED_BY_HELP, by_help),
        ],
        notes=(f"looked for: {', '.join(UNUSED)}; by --help: {', '.join(UNUSED_BY_HELP)}.",),
    )


def _time_bar(what: str, bar_ms: float, measured_ms: float) -> Bar:
    return Bar(what, f"≤ {bar_ms:.0f} ms", f"{measured_ms:.0f} ms", measured_ms <= bar_ms)


def _unused_bar(what: str, unused: Sequence[str], imported: set[str]) -> Bar:
    found = [name for name in unused if name in imported]
    return Bar(what, "none", ", ".join(found) or "none", not found)


def _median_ms(words: Sequence[str], rounds: int) -> float:
    took = []
    for _ in range(rounds):
        start = time.perf_counter()
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        took.append((time.perf_counter() - start) * 1e3)
        if done.returncode != 0:
            raise BenchmarkError(f"{words} failed: {done.stderr.decode(errors='replace')[-2000:]}")
    return median(took)


def _ready_on_socket_ms(file: Path, path: Path) -> float:
    start = time.perf_counter()
    words = [*daemon_words(file), "--listen", f"unix:{path}"]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            with _connect(path, process) as peer:
                peer.sendall(HELLO)
                _expect_ready(peer.recv(65536))
                return (time.perf_counter() - start) * 1e3
        finally:
            process.terminate()


def _connect(path: Path, process: subprocess.Popen[bytes]) -> socket.socket:
    until = time.perf_counter() + START_S
    while time.perf_counter() < until and process.poll() is None:
        peer = socket.socket(socket.AF_UNIX)
        if peer.connect_ex(str(path)) == 0:
            return peer
        peer.close()
        # A part of what is measured: half a millisecond against some hundred.
        time.sleep(0.0005)
    raise BenchmarkError(f"the daemon ended, or did not listen within {START_S} s")


def _ready_on_stdio_ms(file: Path) -> float:
    start = time.perf_counter()
    words = [*daemon_words(file), "--listen", "stdio"]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        # A daemon that dies at once is told of below, by its missing answer.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(HELLO)
        _expect_ready(process.stdout.readline())
        took = (time.perf_counter() - start) * 1e3
        process.stdin.close()
        return took


def _expect_ready(answer: bytes) -> None:
    if READY not in answer:
        raise BenchmarkError(f"hello was answered {answer[:400]!r}")


def _imported(words: Sequence[str]) -> set[str]:
    """The top-level packages that `python WORDS` imports until its input, one `hello`, ends."""
    done = subprocess.run([sys.executable, *words], input=HELLO, capture_output=True, check=False)
    lines = [line for line in done.stderr.decode(errors="replace").splitlines() if line.startswith("import time:")]
    if done.returncode != 0 or not lines:
        raise BenchmarkError(f"{words} failed: {done.stderr.decode(errors='replace')[-2000:]}")
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


if __name__ == "__main__":
    run_alone(measure)
