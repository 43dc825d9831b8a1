"""`tooldispatchd demo`: a scripted agent, a daemon of its own, and what the daemon cleaned up after it."""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

# What the agent says, one line after the other; None is the answer that it waits for first.
SCRIPT: Final = (
    (
        "It opens its session; the daemon starts the profile's MCP server for it.",
        '{"__port":"hello","profile":"default"}',
    ),
    (
        "An inline tool, answered in the dispatch thread.",
        '{"__port":"tool_req","id":"1","name":"echo","input":"hello"}',
    ),
    (
        "An expression, checked against its types when it was loaded.",
        '{"id":"2","name":"greet","input":{"name":"Ada"}}',
    ),
    ("A process: one child, for this call only.", '{"id":"3","name":"sort","input":["pear","apple","fig"]}'),
    ("Any program, as it is: text on its stdin.", '{"id":"4","name":"words","input":"one two three"}'),
    ("A typed Python function: a fork of a warm process.", '{"id":"5","name":"dedent","input":{"text":"  a\\n  b"}}'),
    ("A tool of the MCP server.", '{"id":"6","name":"time:get_current_time","input":{"timezone":"Asia/Tokyo"}}'),
    ("A wrong input is told so that the model can mend it.", '{"id":"7","name":"greet","input":{"nom":"Ada"}}'),
    ("So is a name that does not exist.", '{"id":"8","name":"gret","input":{"name":"Ada"}}'),
    ("It says goodbye; the server is gone before the daemon answers.", '{"__port":"bye"}'),
)
# A server written in Python imports for a second or two; on a busy machine for longer.
PATIENCE_S: Final = 60.0
SHOWN: Final = 150
# The daemon's own: one kills what a killed daemon leaves behind, the other is the warm process of Python functions.
OWN: Final = ("sweep.py", "start.py")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It takes nothing."""
    parser.description = "Show a scripted agent call an inline tool, a process and an MCP server through a daemon."


def run(arguments: argparse.Namespace) -> int:  # noqa: ARG001  # every command has this signature
    """Play the script; 0 when every line was answered and nothing was left behind."""
    from tooldispatchd.cli.init import example

    with tempfile.TemporaryDirectory(prefix="tooldispatchd-demo-") as directory:
        config = Path(directory) / "tooldispatchd.toml"
        config.write_bytes(example())
        path = Path(directory) / "dispatch.sock"
        if find_spec("mcp_server_time") is None:
            print("Without its MCP server, whose call is answered by a fault: pip install mcp-server-time brings it.\n")
        print("$ tooldispatchd serve --config tooldispatchd.toml --listen unix:dispatch.sock")
        with _daemon(config, path) as daemon:
            with socket.socket(socket.AF_UNIX) as channel:
                channel.settimeout(PATIENCE_S)
                channel.connect(str(path))
                answers = channel.makefile("rb")
                for about, line in SCRIPT:
                    print(f"\n# {about}\n→ {line}")
                    channel.sendall(line.encode() + b"\n")
                    answer = answers.readline().decode().rstrip("\n")
                    if not answer:
                        raise SystemExit("the daemon closed the channel")
                    print(f"← {answer if len(answer) <= SHOWN else answer[:SHOWN] + '…'}")
                    if '"__port":"hello"' in line:
                        show_processes("Running for this agent", daemon.pid)
            show_processes("Left of it", daemon.pid)
            everyone = [daemon.pid, *(pid for pid, _words in _descendants(daemon.pid))]
        left = [pid for pid in everyone if Path(f"/proc/{pid}").exists()]
        presence = "still there" if path.exists() else "gone"
        print(f"\nThe daemon ended with {daemon.returncode} after SIGTERM; its socket is {presence}.")
        print(f"Of its {len(everyone)} processes, {len(left) or 'none'} {'is' if len(left) < 2 else 'are'} left.")
        print('Your turn: "tooldispatchd init" writes the configuration that this was played with.')
        return 0 if daemon.returncode == 0 and not path.exists() and not left else 1


@contextmanager
def _daemon(config: Path, path: Path) -> Iterator[subprocess.Popen[bytes]]:
    words = [sys.executable, "-m", "tooldispatchd", "serve", "--log-level", "warning"]
    # The example's server is installed beside this interpreter, which may not be on the path.
    environ = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '/usr/bin:/bin')}"}
    daemon = subprocess.Popen(  # noqa: S603  # this interpreter and this package
        [*words, "--config", str(config), "--listen", f"unix:{path}"], env=environ
    )
    try:
        until = time.monotonic() + PATIENCE_S
        while not path.exists():
            if daemon.poll() is not None or time.monotonic() > until:
                raise SystemExit("the daemon did not start")
            time.sleep(0.02)
        yield daemon
    finally:
        daemon.terminate()
        daemon.wait(PATIENCE_S)


def show_processes(title: str, daemon: int) -> None:
    """Print each process below the daemon, but its own."""
    # One without words has ended, and waits to be reaped.
    owned = [(pid, words) for pid, words in _descendants(daemon) if words and not any(name in words for name in OWN)]
    print(f"  {title}: {'nothing' if not owned else ''}".rstrip())
    for pid, words in owned:
        print(f"    {pid:>7}  {words}")


def _descendants(parent: int) -> list[tuple[int, str]]:
    """Every process below `parent`, as pid and command line."""
    found: list[tuple[int, str]] = []
    try:
        tasks = list(Path(f"/proc/{parent}/task").iterdir())
        pids = [int(pid) for task in tasks for pid in (task / "children").read_text().split()]
        for pid in pids:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            found.append((pid, " ".join(Path(os.fsdecode(word)).name for word in words if word)))
            found.extend(_descendants(pid))
    except FileNotFoundError:
        pass  # it ended while it was looked at
    return found
