"""Run one agent from its `hello` to its exit code.

    reach a daemon ─▶ hello, ready ─▶ write the tools' file ─▶ start the agent ─▶ relay until it exits
                                     remove the file ◀─ wait for a private daemon ◀─ close the channel

Whatever ends it, a signal or a failure at any step, what was opened before is closed again.
"""

import errno
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from tooldispatchd.client.reach import CONNECT_S, find_socket, reach
from tooldispatchd.runner.ends import lift
from tooldispatchd.runner.opening import OpeningError, RefusedError, StoppedError, open_session, see_alive
from tooldispatchd.runner.private import PrivateDaemon, start_private
from tooldispatchd.runner.relay import Relay
from tooldispatchd.runner.shared import SharedStreams
from tooldispatchd.runner.signals import Signals, comes_from_terminal
from tooldispatchd.runner.spawn import SIGNALLED, AgentProcess, AgentStartError, look_up, spawn
from tooldispatchd.runner.tools_file import tools_file
from tooldispatchd.runner.wiring import ANSWERS, REQUESTS, OwnChannel, Wiring, close_given
from tooldispatchd.wire.messages import Hello

TOKEN: Final = "TOOLDISPATCHD_TOKEN"  # noqa: S105  # the variable's name
FAILED: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
REFUSED: Final = {"not_authenticated": UNREACHABLE, "unknown_profile": USAGE}
NOBODY: Final = frozenset({errno.ENOENT, errno.ECONNREFUSED, errno.ENOTDIR})


class Order(msgspec.Struct, frozen=True):
    """What to run, and on which daemon: `socket`, else a private one with `config`, else whichever is found."""

    command: list[str]
    hello: Hello
    socket: str | None = None
    config: Path | None = None
    shares_streams: bool = False
    is_verbose: bool = False
    timeout_s: float = 30.0
    """How long a daemon may be silent before the agent starts; servers may take longer to start."""


class UnreachableError(Exception):
    """There is no daemon to be had; `code` is our exit code."""

    def __init__(self, why: str, code: int = UNREACHABLE) -> None:
        super().__init__(why)
        self.code = code


def run(order: Order, environ: Mapping[str, str]) -> int:
    """Run the agent; its exit code, 128 + n for a signal, or ours where it did not start (told on stderr)."""
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


def tell(what: str) -> None:
    """A line on stderr, if anybody reads it."""
    with suppress(OSError):
        # A shell may have closed it; print would take our stdout in its place.
        if sys.stderr is not None:
            sys.stderr.write(f"tooldispatchd: {what}\n")
            sys.stderr.flush()


def _run(order: Order, environ: Mapping[str, str], signals: Signals) -> int:
    look_up(order.command[0], environ)
    channel, private = _reach(order, environ, signals)
    try:
        with channel:
            return _run_on(channel, order, environ, signals)
    except OpeningError as error:
        code = private.end(signals) if private else 0
        private = None
        if code > 0:
            # It has said why itself, but not why there is one.
            cause = "" if order.config else f", and none listens at {find_socket(environ)}"
            raise UnreachableError(f"the agent's own daemon did not start{cause}", code) from error
        raise UnreachableError(str(error)) from error
    finally:
        if private is not None:
            private.end(signals)


def _reach(order: Order, environ: Mapping[str, str], signals: Signals) -> tuple[socket.socket, PrivateDaemon | None]:
    say: Callable[[str], None] = tell if order.is_verbose else lambda _: None
    if order.config is None:
        # A socket that somebody named is the one that is meant; the usual places are only looked at.
        named = order.socket or environ.get("TOOLDISPATCHD_SOCKET")
        address = order.socket or find_socket(environ)
        try:
            channel = _connect(address, order.timeout_s, signals)
        except OpeningError as error:
            raise UnreachableError(f"cannot use the daemon at {address}: {error}") from error
        except OSError as error:
            if named or error.errno not in NOBODY:
                raise UnreachableError(f"cannot reach the daemon at {address}: {error.strerror or error}") from error
            say(f"no daemon at {address}")
        else:
            say(f"using the daemon at {address}")
            return channel, None
    say(f"starting a private daemon{f' with {order.config}' if order.config else ''}")
    return start_private(order.config, environ)


def _connect(address: str, timeout_s: float, signals: Signals) -> socket.socket:
    """A channel to a daemon that answers; raises OSError, `OpeningError` for a silent one, and `StoppedError`."""
    # Only a daemon that does not accept keeps a caller waiting.
    within_s = min(timeout_s, CONNECT_S)
    # On a channel of its own: the lines of the agent's are counted.
    with reach(address, within_s=within_s) as probe:
        see_alive(probe, signals, timeout_s)
    return socket.socket(fileno=lift(reach(address, within_s=within_s).detach()))


def _run_on(channel: socket.socket, order: Order, environ: Mapping[str, str], signals: Signals) -> int:
    slow = partial(tell, "the daemon starts the profile's servers; the agent begins when they are there")
    ready, said = open_session(channel, order.hello, signals, slow)
    for warning in ready.warnings:
        tell(f"warning: {warning}")
    lost = partial(tell, "the daemon has ended the channel; the agent goes on without tools")
    wiring: Wiring = SharedStreams(channel, lost) if order.shares_streams else OwnChannel(channel, lost)
    place = "stdio" if order.shares_streams else f"{REQUESTS},{ANSWERS}"
    try:
        with tools_file(ready.tools, environ) as path:
            env = {name: value for name, value in environ.items() if name != TOKEN}
            env |= {"TOOLDISPATCHD_TOOLS": str(path), "PLUMB_MCP_TOOLS": str(path), "TOOLDISPATCHD_CHANNEL": place}
            if (number := signals.take_ending()) is not None:
                raise StoppedError(number)
            agent = spawn(order.command, env, wiring.given)
            wiring.start(said)
            return _relay(agent, wiring, signals)
    finally:
        close_given(wiring.given)
        wiring.finish()


def _relay(agent: AgentProcess, wiring: Wiring, signals: Signals) -> int:
    relay = Relay(wiring.sources, wiring.sinks, signals)
    # What came while it was being started came too early for a terminal to have told it too.
    for number in signals.take():
        agent.signal(number)

    def forward(number: int) -> None:
        if not comes_from_terminal(number):
            agent.signal(number)

    relay.run(agent.pidfd, forward)
    wiring.finish()
    code = agent.reap()
    if wiring.last is not None:
        relay.flush(wiring.last)
    return code
