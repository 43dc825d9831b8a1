"""Both clients behind one face, so that the same tests hold for both; and a daemon that says what it is told to."""

import json
import os
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from msgspec import UNSET

from tests.daemon.spawned import until
from tooldispatchd.client import blocking, concurrent
from tooldispatchd.client.conversation import Verdict, WrittenCalls
from tooldispatchd.client.shown import Entry, Form, Plain, ShownReady
from tooldispatchd.wire.messages import ApproveReq, Ask, Ready, ServerNote, ToolResp, ToolUpdate, ToolView

PATIENCE_S: Final = 20.0
Message = dict[str, Any]
KINDS: Final = ("blocking", "trio")


class EitherAgent(Protocol):
    """What both clients can do for one agent."""

    async def hello(
        self,
        profile: str | None = None,
        *,
        updates: bool = False,
        meta: object = None,
        token: str | None = None,
        schemas: Plain | None = None,
        servers: bool = False,
        on_approve: Callable[[ApproveReq], Verdict] | None = None,
        on_ask: Callable[[Ask], object] | None = None,
        on_tools_changed: Callable[[list[ToolView]], object] | None = None,
        on_server_note: Callable[[ServerNote], object] | None = None,
    ) -> Ready: ...
    async def hello_in(
        self,
        form: Form,
        *,
        updates: bool = False,
        servers: bool = False,
        on_tools_changed: Callable[[list[Entry]], object] | None = None,
    ) -> ShownReady: ...
    async def tools(self, **switched: Mapping[str, bool]) -> list[ToolView]: ...
    async def select(self, **switched: Mapping[str, bool]) -> list[ToolView]: ...
    async def tools_in(self, form: Form) -> list[Entry]: ...
    async def call(
        self,
        name: str,
        value: object = UNSET,
        *,
        deadline_ms: float | None = None,
        background: bool = False,
        on_update: Callable[[ToolUpdate], object] | None = None,
    ) -> ToolResp: ...
    async def parse(self, text: str) -> WrittenCalls: ...
    async def bye(self) -> None: ...


class Either(EitherAgent, Protocol):
    """What both clients can do."""

    async def ping(self) -> None: ...
    def agent(self, name: str) -> EitherAgent: ...


class BlockingAgent:
    """The blocking client's; nobody else waits for the loop of a test."""

    def __init__(self, agent: blocking.Agent) -> None:
        self._agent = agent

    async def hello(self, profile: str | None = None, **fields: Any) -> Ready:
        ready: Ready = self._agent.hello(profile, **fields)
        return ready

    async def hello_in(self, form: Form, **fields: Any) -> ShownReady:
        return self._agent.hello(schemas=form, **fields)

    async def tools(self, **switched: Any) -> list[ToolView]:
        tools: list[ToolView] = self._agent.tools(**switched)
        return tools

    async def select(self, **switched: Any) -> list[ToolView]:
        return self._agent.select(**switched)

    async def tools_in(self, form: Form) -> list[Entry]:
        return self._agent.tools(form)

    async def call(self, name: str, value: object = UNSET, **fields: Any) -> ToolResp:
        return self._agent.call(name, value, **fields)

    async def parse(self, text: str) -> WrittenCalls:
        return self._agent.parse(text)

    async def bye(self) -> None:
        self._agent.bye()


class BlockingClient(BlockingAgent):
    def __init__(self, client: blocking.Client) -> None:
        super().__init__(client)
        self._client = client

    async def ping(self) -> None:
        self._client.ping()

    def agent(self, name: str) -> EitherAgent:
        return BlockingAgent(self._client.agent(name))


class TrioAgent:
    """The trio client's, with callbacks that are no tasks."""

    def __init__(self, agent: concurrent.Agent) -> None:
        self._agent = agent

    async def hello(
        self,
        profile: str | None = None,
        *,
        on_approve: Callable[[ApproveReq], Verdict] | None = None,
        on_ask: Callable[[Ask], object] | None = None,
        **fields: Any,
    ) -> Ready:
        async def approve(asked: ApproveReq) -> Verdict:
            assert on_approve is not None
            return on_approve(asked)

        async def ask(asked: Ask) -> object:
            assert on_ask is not None
            return on_ask(asked)

        ready: Ready = await self._agent.hello(
            profile, on_approve=approve if on_approve else None, on_ask=ask if on_ask else None, **fields
        )
        return ready

    async def hello_in(self, form: Form, **fields: Any) -> ShownReady:
        return await self._agent.hello(schemas=form, **fields)

    async def tools(self, **switched: Any) -> list[ToolView]:
        tools: list[ToolView] = await self._agent.tools(**switched)
        return tools

    async def select(self, **switched: Any) -> list[ToolView]:
        return await self._agent.select(**switched)

    async def tools_in(self, form: Form) -> list[Entry]:
        return await self._agent.tools(form)

    async def call(self, name: str, value: object = UNSET, **fields: Any) -> ToolResp:
        return await self._agent.call(name, value, **fields)

    async def parse(self, text: str) -> WrittenCalls:
        return await self._agent.parse(text)

    async def bye(self) -> None:
        await self._agent.bye()


class TrioClient(TrioAgent):
    def __init__(self, client: concurrent.Client) -> None:
        super().__init__(client)
        self._client = client

    async def ping(self) -> None:
        await self._client.ping()

    def agent(self, name: str) -> EitherAgent:
        return TrioAgent(self._client.agent(name))


@asynccontextmanager
async def connected(kind: str, address: str) -> AsyncIterator[Either]:
    """A client of that kind on a Unix socket."""
    if kind == "blocking":
        with blocking.connect(address, timeout_s=PATIENCE_S) as client:
            yield BlockingClient(client)
    else:
        async with concurrent.connect(address) as concurrently:
            yield TrioClient(concurrently)


@asynccontextmanager
async def inherited(kind: str, read_fd: int, write_fd: int) -> AsyncIterator[Either]:
    """A client of that kind on a pair of descriptors, which become its own."""
    if kind == "blocking":
        with blocking.inherit(read_fd, write_fd, timeout_s=PATIENCE_S) as client:
            yield BlockingClient(client)
    else:
        async with concurrent.inherit(read_fd, write_fd) as concurrently:
            yield TrioClient(concurrently)


# --- a daemon that plays a script ---

Step = Callable[["Scripted"], object]


class Scripted:
    """The daemon's end of a channel; `heard` is what came before the script was over."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self.heard: list[Message] = []
        self.failed: BaseException | None = None
        self._lines = channel.makefile("rb")

    def hear(self) -> Message:
        said: Message = json.loads(self._lines.readline())
        self.heard.append(said)
        return said

    def play(self, steps: Sequence[Step]) -> None:
        try:
            for step in steps:
                step(self)
        except BaseException as error:
            self.failed = error
            raise
        finally:
            self._lines.close()
            self.channel.close()


def hear(port: str, **fields: object) -> Step:
    """Wait for a line, and check it."""

    def step(daemon: Scripted) -> None:
        said = daemon.hear()
        assert said["__port"] == port
        assert {name: said.get(name) for name in fields} == fields

    return step


def say(*lines: Message | bytes) -> Step:
    """Send lines, or bytes as they are; `$id` stands for the id of the last request."""

    def step(daemon: Scripted) -> None:
        for line in lines:
            text = line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n"
            asked = next((said["id"] for said in reversed(daemon.heard) if said["__port"] == "tool_req"), "")
            daemon.channel.sendall(text.replace(b"$id", str(asked).encode()))

    return step


def wait_for_the_end(daemon: Scripted) -> None:
    """Hold the channel until the client closes it."""
    while daemon.channel.recv(65_536):
        pass


def answer(content: str, **fields: object) -> Message:
    """The answer to the last request."""
    return {"__port": "tool_resp", "id": "$id", "content": content, "is_error": False, **fields}


@contextmanager
def scripted(*steps: Step) -> Iterator[tuple[Scripted, tuple[int, int]]]:
    """A daemon that plays `steps` and then closes the channel, and the client's descriptors: to read, and to write."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(PATIENCE_S)
    daemon = Scripted(theirs)
    thread = threading.Thread(target=daemon.play, args=(steps,))
    thread.start()
    read_fd = ours.detach()
    try:
        yield daemon, (read_fd, os.dup(read_fd))
    finally:
        join(thread)


def join(thread: threading.Thread) -> None:
    """Wait until a thread has ended, for the kernel too: who counts what a test left looks there."""
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), "the script was not played to its end"
    until(lambda: not Path(f"/proc/self/task/{thread.native_id}").exists())
