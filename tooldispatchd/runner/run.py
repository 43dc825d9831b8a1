"""Run one agent from its `hello` to its exit code.

    reach a daemon ─▶ hello, ready ─▶ write the tools' files ─▶ start the agent ─▶ relay until it exits
                                     remove the files ◀─ wait for a private daemon ◀─ close the channel

Whichever step a signal or a failure ends, everything that was opened before is closed again.
"""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Raw

from tooldispatchd.client.reach import ANSWERS_FD, CONNECT_S, REQUESTS_FD, find_socket
from tooldispatchd.privatefiles import create_private
from tooldispatchd.runner.daemons import (
    TOKEN,
    UNREACHABLE,
    UnreachableError,
    end_private,
    reach_running,
    start_private,
    tell,
)
from tooldispatchd.runner.opening import OpeningError, RefusedError, StoppedError, open_session, see_alive
from tooldispatchd.runner.relay import Relay, flush
from tooldispatchd.runner.signals import Signals
from tooldispatchd.runner.spawn import SIGNALLED, AgentStartError, look_up, spawn
from tooldispatchd.runner.wiring import OwnChannel, SharedStreams, close_given
from tooldispatchd.wire.messages import Hello

TOOLS: Final = "TOOLDISPATCHD_TOOLS"
SERVERS_TOOLS: Final = "PLUMB_MCP_TOOLS"
FAILED: Final = 1
USAGE: Final = 2
REFUSED: Final = {"not_authenticated": UNREACHABLE, "unknown_profile": USAGE}


class Order(msgspec.Struct, frozen=True):
    """The command to run, and on which daemon: `socket`, else a private one with `config`, else whichever is found."""

    command: list[str]
    hello: Hello
    socket: str | None = None
    config: Path | None = None
    shares_streams: bool = False
    is_verbose: bool = False
    timeout_s: float = 30.0
    """How long a daemon may be silent before the agent starts; servers may take longer to start."""


def run(order: Order, environ: Mapping[str, str]) -> int:
    """Run the agent; its exit code, 128 + n for a signal, or ours if it did not start (with the reason on stderr)."""
    with Signals() as signals:
        try:
            return _run(order, environ, signals)
        except StoppedError as stopped:
            return SIGNALLED + stopped.number
        except RefusedError as refused:
            tell(str(refused))
            return REFUSED.get(refused.code, FAILED)
        except (UnreachableError, AgentStartError) as error:
            tell(str(error))
            return error.code
        except OSError as error:
            tell(f"cannot run the agent: {error.strerror or error}")
            return FAILED


def _run(order: Order, environ: Mapping[str, str], signals: Signals) -> int:
    # First: a mistyped command should not start a daemon and its servers.
    look_up(order.command[0], environ)
    channel, private = _reach(order, environ, signals)
    try:
        with channel:
            return _run_on(channel, order, environ, signals)
    except OpeningError as error:
        code = end_private(private, signals) if private else 0
        private = None
        if code > 0:
            # It has written its own reason; add why a private daemon was started.
            cause = "" if order.config else f", and none listens at {find_socket(environ)}"
            raise UnreachableError(f"the agent's own daemon did not start{cause}", code) from error
        raise UnreachableError(str(error)) from error
    finally:
        if private is not None:
            end_private(private, signals)


def _reach(
    order: Order, environ: Mapping[str, str], signals: Signals
) -> tuple[socket.socket, subprocess.Popen[bytes] | None]:
    """Our end of a channel to a running daemon, or to a private one and that daemon."""
    say: Callable[[str], None] = tell if order.is_verbose else lambda _: None
    if order.config is None:
        address = order.socket or find_socket(environ)
        within_s = min(order.timeout_s, CONNECT_S)
        # On a channel of its own: a ping on the agent's would shift the numbers of its lines.
        probe = reach_running(order.socket, environ, within_s)
        if probe is not None:
            try:
                with probe:
                    see_alive(probe, signals, order.timeout_s)
            except OpeningError as error:
                raise UnreachableError(f"cannot use the daemon at {address}: {error}") from error
            channel = reach_running(address, environ, within_s)
            assert channel is not None
            say(f"using the daemon at {address}")
            return channel, None
        say(f"no daemon at {address}")
    say(f"starting a private daemon{f' with {order.config}' if order.config else ''}")
    return start_private(order.config, environ)


def _run_on(channel: socket.socket, order: Order, environ: Mapping[str, str], signals: Signals) -> int:
    slow = partial(tell, "the daemon starts the profile's servers; the agent begins when they are there")
    ready, said = open_session(channel, order.hello, signals, slow)
    for warning in ready.warnings:
        tell(f"warning: {warning}")
    lost = partial(tell, "the daemon has ended the channel; the agent goes on without tools")
    wiring = SharedStreams(channel, lost) if order.shares_streams else OwnChannel(channel, lost)
    place = "stdio" if order.shares_streams else f"{REQUESTS_FD},{ANSWERS_FD}"
    try:
        # Only in the plain form is a server's tool known by its name.
        is_plain = order.hello.schemas in {None, "plain"}
        with _tools_files(ready.tools, environ, is_plain=is_plain) as files:
            env = {name: value for name, value in environ.items() if name not in {TOKEN, SERVERS_TOOLS}}
            env |= {"TOOLDISPATCHD_CHANNEL": place, **files}
            # There is no agent yet that a signal could be passed on to, so it ends us.
            if (number := signals.take_ending()) is not None:
                raise StoppedError(number)
            agent = spawn(order.command, env, wiring.given)
            wiring.start(said)
            relay = Relay(wiring.sources, wiring.sinks, signals)
            # Signals that came while the agent was being started: a terminal cannot have sent them to it.
            for number in signals.take():
                agent.signal(number)
            relay.run(agent)
            wiring.finish()
            code = agent.reap()
            # Output that the agent wrote just before its exit, which may wait for a slow reader.
            if wiring.last is not None:
                flush(wiring.last, signals)
            return code
    finally:
        close_given(wiring.given)
        wiring.finish()


@contextmanager
def _tools_files(tools: Sequence[Raw], environ: Mapping[str, str], *, is_plain: bool) -> Iterator[dict[str, str]]:
    """Files with a JSON list of `tools`, as the daemon wrote them, by the variables that tell of them.

    They are in the form that `hello` asked for; in the plain one each is `{name, title?, description, input_schema}`,
    and a second file has the tools of servers alone. They have mode 0600 in a directory of 0700, under
    $XDG_RUNTIME_DIR if that can be written, else with temporary files; removed at the end. Raises OSError.
    """
    prefix = "tooldispatchd-run-"
    try:
        made = tempfile.mkdtemp(prefix=prefix, dir=environ.get("XDG_RUNTIME_DIR") or None)
    except OSError:
        # After `su` that directory belongs to another user; in a container it may not exist.
        made = tempfile.mkdtemp(prefix=prefix)
    directory = Path(made).absolute()
    try:
        files = {TOOLS: _listed(directory / "tools.json", tools)}
        if is_plain:
            of_servers = [tool for tool in tools if ":" in _decode_entry(tool).name]
            files[SERVERS_TOOLS] = _listed(directory / "mcp.json", of_servers)
        yield files
    finally:
        # The agent may have put a file of its own beside them.
        shutil.rmtree(directory, ignore_errors=True)


class _ToolEntry(msgspec.Struct):
    name: str


_decode_entry: Final = msgspec.json.Decoder(_ToolEntry).decode


def _listed(path: Path, tools: Sequence[Raw]) -> str:
    with os.fdopen(create_private(path), "wb") as file:
        file.write(msgspec.json.encode(tools) + b"\n")
    return str(path)
