"""Connections to real servers for the tests of this folder, and what must not be left after them."""

import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec
import trio
import trio.testing

from tests.providers.mcp.linking import SHARE
from tooldispatchd.agent.runtime import FairLimiter
from tooldispatchd.calls.connection import ConnectionState
from tooldispatchd.calls.outcome import Answer, Outcome, Update
from tooldispatchd.catalog.schemas import ACCEPT
from tooldispatchd.checkers.pool import CHECKERS, Checkers, Running
from tooldispatchd.children.family import open_family
from tooldispatchd.front.front import Front
from tooldispatchd.front.timer import Timer
from tooldispatchd.providers.mcp.answers import PendingCall
from tooldispatchd.providers.mcp.connection import Connection
from tooldispatchd.providers.mcp.keeper import ServerHandle
from tooldispatchd.providers.mcp.remembered import Eras
from tooldispatchd.providers.mcp.server import McpTool, Server
from tooldispatchd.providers.mcp.stdio import StdioWay
from tooldispatchd.providers.updates import Held
from tooldispatchd.wire.faults import Fault
from tooldispatchd.wire.lines import Text
from tooldispatchd.wire.messages import QuotedText

SERVERS: Final = Path(__file__).parents[2] / "servers"
MIB: Final = 1024 * 1024

# Far above what anything here takes, far below any limit that is not under test.
SOON_S: Final = 20.0


class Log:
    """Keeps how the connection ended, and what it last wrote to stderr."""

    def __init__(self) -> None:
        self.ends: list[dict[str, object]] = []
        self.said: list[tuple[str, dict[str, object]]] = []
        self.warnings: list[str] = []
        self.details: list[tuple[str, dict[str, object]]] = []
        self.stderr_tail: object = None

    def debug(self, event: str, **fields: object) -> None:
        self.details.append((event, fields))
        self.stderr_tail = fields.get("stderr_tail")

    def info(self, event: str, **fields: object) -> None:
        if event == "connection ended":
            self.ends.append(fields)
        else:
            self.said.append((event, fields))

    def warning(self, event: str, **fields: object) -> None:
        self.info(event, **fields)
        self.warnings.append(event)
        self.stderr_tail = fields.get("stderr_tail")

    def error(self, event: str, **fields: object) -> None:
        self.said.append((event, fields))

    def incident(self, event: str, error: Exception) -> str:
        self.said.append((event, {"error": error}))
        return "7"


class Waiting:
    """One call that was made; `outcomes` holds what its `done` was given."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self.told = trio.Event()

    def done(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self.told.set()

    async def outcome(self) -> Outcome:
        with trio.fail_after(SOON_S):
            await self.told.wait()
        (outcome,) = self.outcomes
        return outcome


class Session:
    """What the agent layer is to a connection."""

    def __init__(self) -> None:
        self.log = Log()
        self.batches = 0
        self.settled = 0
        self.opened = trio.Event()
        self.ended = trio.Event()
        self.connection: Connection

    def batch_done(self) -> None:
        self.batches += 1

    def settle(self) -> None:
        self.settled += 1
        self.opened.set()

    async def own(self) -> None:
        await self.connection.run(self.settle)
        self.ended.set()

    def start(self, **arguments: object) -> tuple[PendingCall, Waiting]:
        tool = next(iter(self.connection.offer.tools.values()))
        waiting = Waiting()
        call = begin(self.connection, tool, msgspec.json.encode(arguments), waiting.done)
        assert isinstance(call, PendingCall)
        self.connection.flush()
        return call, waiting

    async def call(self, **arguments: object) -> Outcome:
        _, waiting = self.start(**arguments)
        return await waiting.outcome()

    async def text(self, **arguments: object) -> str:
        outcome = await self.call(**arguments)
        assert isinstance(outcome, Answer)
        assert not outcome.is_error
        return plain(outcome.content)

    async def end(self) -> dict[str, object]:
        """Wait until the server is gone; the fields of the log line."""
        with trio.fail_after(SOON_S):
            await self.ended.wait()
        assert self.connection.state is ConnectionState.CLOSED
        (fields,) = self.log.ends
        return fields

    def fault(self) -> Fault:
        assert self.connection.fault is not None
        return self.connection.fault


DEFAULT: Final = Server(
    name="odd",
    argv=(),
    max_content_bytes=64 * MIB,
    max_line_bytes=65 * MIB,
    # What these servers speak: one that ignored a probe would be waited for.
    protocol="2025-11-25",
    handshake_s=SOON_S,
    polite_s=0.1,
    term_s=0.1,
)


# Stands for the tool of that name, whether a server is there that has it or not.
ECHO: Final = McpTool(
    name="echo",
    input_schema={},
    input=ACCEPT,
)


def begin(
    kept: Connection | ServerHandle,
    tool: McpTool,
    arguments: Text,
    done: Callable[[Outcome], None],
    *,
    traceparent: str | None = None,
    update: Callable[[Update], None] | None = None,
) -> PendingCall | Fault:
    call = PendingCall(tool, done, arguments, held=None if update is None else Held(update))
    call.meta = None if traceparent is None else {"traceparent": traceparent}
    outcome = kept.start(call)
    assert not isinstance(outcome, Answer)
    return outcome or call


def plain(content: str | QuotedText) -> str:
    """A content as the text that it is, also where a checker has quoted it."""
    return content if isinstance(content, str) else msgspec.json.decode(content.literal, type=str)


@asynccontextmanager
async def connecting(server: Server, running: Running | None = None) -> AsyncIterator[Session]:
    """A session whose connection has begun to open; closed at the end, and then gone; with these checkers."""
    session = Session()
    async with open_family() as family, trio.open_nursery() as background:
        checkers = Checkers(family, FairLimiter(CHECKERS))
        front = Front(Timer(session.log), session.log, out_buffer_bytes=1_000_000, stalled_s=10)
        background.start_soon(front.run)
        async with trio.open_nursery() as nursery:
            session.connection = Connection(
                server,
                share=SHARE,
                way=StdioWay(server, family, watch=front),
                eras=Eras(),
                opening=trio.CapacityLimiter(1),
                checkers=running or checkers,
                log=session.log,
                batch_done=session.batch_done,
            )
            nursery.start_soon(session.own)
            yield session
            session.connection.close()
        background.cancel_scope.cancel()
        await checkers.close()
    assert session.settled == 1
    assert session.connection.state is ConnectionState.CLOSED


@asynccontextmanager
async def settled(server: Server) -> AsyncIterator[Session]:
    async with connecting(server) as session:
        with trio.fail_after(max(SOON_S, server.handshake_s)):
            await session.opened.wait()
        yield session


def misbehaving(mode: str, **settings: object) -> Server:
    argv = (sys.executable, "-I", "-S", str(SERVERS / "misbehaving.py"), mode)
    return msgspec.structs.replace(DEFAULT, argv=argv, **settings)


async def gone(pid: int) -> None:
    """Wait until a process that was killed has ended, be it ours or not."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with trio.fail_after(SOON_S):
            await trio.lowlevel.wait_readable(pidfd)
    finally:
        os.close(pidfd)
