"""The trio client: one channel, as many calls at once as there are tasks.

    async with connect() as client:
        await client.hello("default")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call, "slow", 1)
            nursery.start_soon(client.call, "slow", 2)

Cancelling the task that awaits a call cancels the call. The caller sets a deadline with `with trio.fail_after(5):`.
`exchange` draws the tasks behind it.
"""

import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Final, overload

import trio
from msgspec import UNSET

from tooldispatchd.client.conversation import Call, PendingRequests, WrittenCalls, answers
from tooldispatchd.client.errors import ClientError
from tooldispatchd.client.exchange import (
    Callbacks,
    OnApprove,
    OnAsk,
    OnEvent,
    OnServerNote,
    OnUpdate,
    Opened,
    Renewal,
    stream_on,
)
from tooldispatchd.client.reach import (
    ANSWERS_FD,
    CONNECT_S,
    REQUESTS_FD,
    find_socket,
    given_channel,
    pauses,
    socket_name,
)
from tooldispatchd.client.shown import (
    Entry,
    Form,
    OnShownChanged,
    OnToolsChanged,
    Plain,
    ShownReady,
    ShownTools,
    Switches,
    is_plain,
    switched,
)
from tooldispatchd.wire.messages import Bye, Pong, Ready, ToolResp, Tools, ToolView

# Between two attempts while the backlog is full.
AGAIN_S: Final = 0.02


class Agent:
    """One agent on a channel; `name` is None for the channel's own."""

    def __init__(self, renewal: Renewal, name: str | None) -> None:
        self.name = name
        self._renewal = renewal

    @overload
    async def hello(
        self,
        profile: str | None = None,
        *,
        token: str | None = None,
        spec: object = None,
        schemas: Plain | None = None,
        meta: object = None,
        updates: bool = False,
        events: bool | Sequence[str] = False,
        order: str | None = None,
        content: str | None = None,
        details: bool = False,
        servers: bool = False,
        on_approve: OnApprove | None = None,
        on_ask: OnAsk | None = None,
        on_tools_changed: OnToolsChanged | None = None,
        on_event: OnEvent | None = None,
        on_server_note: OnServerNote | None = None,
    ) -> Ready: ...

    @overload
    async def hello(
        self,
        profile: str | None = None,
        *,
        token: str | None = None,
        spec: object = None,
        schemas: Form,
        meta: object = None,
        updates: bool = False,
        events: bool | Sequence[str] = False,
        order: str | None = None,
        content: str | None = None,
        details: bool = False,
        servers: bool = False,
        on_approve: OnApprove | None = None,
        on_ask: OnAsk | None = None,
        on_tools_changed: OnShownChanged | None = None,
        on_event: OnEvent | None = None,
        on_server_note: OnServerNote | None = None,
    ) -> ShownReady: ...

    async def hello(
        self,
        profile: str | None = None,
        *,
        token: str | None = None,
        spec: object = None,
        schemas: Form | Plain | None = None,
        meta: object = None,
        updates: bool = False,
        events: bool | Sequence[str] = False,
        order: str | None = None,
        content: str | None = None,
        details: bool = False,
        servers: bool = False,
        on_approve: OnApprove | None = None,
        on_ask: OnAsk | None = None,
        on_tools_changed: OnToolsChanged | OnShownChanged | None = None,
        on_event: OnEvent | None = None,
        on_server_note: OnServerNote | None = None,
    ) -> Ready | ShownReady:
        """Open the session; raises `FaultError` if it is refused. The fields are those of the protocol.

        With a provider's form as `schemas` each tool is a dict for that provider's SDK, and its name there may be used
        in calls. `answers` is set from the callbacks; `on_tools_changed` needs `updates`, `on_event` needs `events`,
        `on_server_note` needs `servers`, which asks to speak with the servers that the answer names in `servers`.
        """
        asked = answers(approves=on_approve is not None, asks=on_ask is not None)
        fields: dict[str, object] = {"profile": profile, "token": token, "spec": spec, "schemas": schemas, "meta": meta}
        fields |= {"events": events or None, "order": order, "content": content, "details": details or None}
        fields["capabilities"] = ["servers"] if servers else None
        exchange = await self._renewal.channel()
        # Before `ready`: a server may ask while it starts.
        exchange.callbacks[self.name] = Callbacks(on_approve, on_ask, on_tools_changed, on_event, on_server_note)
        return await self._renewal.greet(exchange, self.name, {**fields, "updates": updates or None, "answers": asked})

    @overload
    async def tools(
        self, schemas: Plain | None = None, *, tags: Switches | None = None, tools: Switches | None = None
    ) -> list[ToolView]: ...

    @overload
    async def tools(
        self, schemas: Form, *, tags: Switches | None = None, tools: Switches | None = None
    ) -> list[Entry]: ...

    async def tools(
        self, schemas: Form | Plain | None = None, *, tags: Switches | None = None, tools: Switches | None = None
    ) -> list[ToolView] | list[Entry]:
        """The current tools of the session; in the plain form, whatever `hello` asked for, unless another is named.

        `tags` and `tools` are switched on and off for this list alone.
        """
        exchange = await self._renewal.session(self.name)
        said = exchange.conversation.tools(self.name, schemas=schemas, tags=tags, tools=tools)
        if is_plain(schemas):
            return (await exchange.answer(said, Tools, agent=self.name)).tools
        return (await exchange.answer(said, ShownTools, agent=self.name)).tools

    async def select(self, *, tags: Switches | None = None, tools: Switches | None = None) -> list[ToolView]:
        """Switch tags and tools on and off for the session; the tools that it has then.

        Raises `FaultError` for a tool that it cannot have. On a new channel they are switched so again.
        """
        renewal = self._renewal
        exchange = await renewal.session(self.name)
        said = exchange.conversation.select(self.name, tags=tags, tools=tools)
        found = (await exchange.answer(said, Tools, agent=self.name)).tools
        before = renewal.opened.get(self.name)
        fields = {"schemas": None} if before is None else before.fields
        renewal.opened[self.name] = Opened(switched(fields, tags, tools), exchange)
        return found

    async def call(
        self,
        name: str,
        value: object = UNSET,
        *,
        deadline_ms: float | None = None,
        background: bool = False,
        traceparent: str | None = None,
        content: str | None = None,
        on_update: OnUpdate | None = None,
    ) -> ToolResp:
        """Call a tool with `value` (whatever JSON can say, or `Raw`) and wait for its answer.

        An answer with `is_error` is the tool's own error. Raises `FaultError` for a fault of the daemon, and
        `ClientError` where the channel ends first. Cancelled, it tells the daemon so.
        """
        exchange = await self._renewal.session(self.name)
        said = exchange.conversation.call(self.name, Call(name, value, deadline_ms, background, traceparent, content))
        return await exchange.answer(said, ToolResp, agent=self.name, on_update=on_update)

    async def cancel_all(self, *, only_waiting: bool = False) -> None:
        """Cancel every call and every job of this agent, or those that do not run yet."""
        exchange = await self._renewal.session(self.name)
        exchange.conversation.cancel_all(self.name, only_waiting=only_waiting)
        exchange.say()

    async def background(self, call: str) -> None:
        """Make a job of a call, by its id in an event: its answer names the job, or is its own if it was too late."""
        exchange = await self._renewal.session(self.name)
        exchange.conversation.background(self.name, call)
        exchange.say()

    async def parse(self, text: str) -> WrittenCalls:
        """The calls in what a model without tool calling wrote, each with `name` and `input`; it needs no session."""
        exchange = await self._renewal.channel()
        return await exchange.answer(exchange.conversation.parse(self.name, text), WrittenCalls, agent=self.name)

    async def bye(self) -> None:
        """End the session; returns when its teardown is complete. Ends the channel too for the channel's own agent."""
        exchange = self._renewal.exchange
        await exchange.room()
        await exchange.answer(exchange.conversation.bye(self.name), Bye, agent=self.name)
        exchange.callbacks.pop(self.name, None)
        self._renewal.opened.pop(self.name, None)


class Client(Agent):
    """A channel and its own agent."""

    def agent(self, name: str) -> Agent:
        """A named agent on this channel; its `hello` opens it."""
        return Agent(self._renewal, name)

    async def ping(self) -> None:
        """Return when the daemon has answered; works before `hello`."""
        exchange = await self._renewal.channel()
        await exchange.answer(exchange.conversation.ping(), Pong, agent=None)


@asynccontextmanager
async def connect(address: str | None = None, *, retry: float | None = None) -> AsyncIterator[Client]:
    """A channel through a Unix socket: a path, `@name` for an abstract one, or where the environment says.

    Without an address an agent that was started with a channel of its own uses that one, as from `inherit`.
    Leaving it closes the channel, and the daemon cancels what still runs. Raises `ClientError` if none can be reached.

    With `retry` the client tries for so many seconds to reach a daemon, now and whenever its channel has ended: the
    next request opens another channel and repeats the `hello`. A call that was in flight ends with a `ClientError`: it
    may have run, and is never sent again. Jobs end with their session.
    """
    given = given_channel(os.environ) if address is None else None
    if given is not None:
        async with inherit(*given) as client:
            yield client  # `run` has opened it, and there is no other
        return
    address = find_socket(os.environ) if address is None else address
    dial = partial(_dial, address, retry or 0.0)
    async with converse(await dial(), dial=dial if retry else None) as client:
        yield client


@asynccontextmanager
async def inherit(read_fd: int = ANSWERS_FD, write_fd: int = REQUESTS_FD) -> AsyncIterator[Client]:
    """The channel that `tooldispatchd run` gave this process, as `connect`; its descriptors are closed at the end.

    `run` has said `hello` on it: the session is open, and another `hello` is refused.
    """
    try:
        # Children of this process must not inherit the channel.
        os.set_inheritable(read_fd, False)  # noqa: FBT003  # the standard library's own signature
        os.set_inheritable(write_fd, False)  # noqa: FBT003  # as above
        stream = stream_on(read_fd, write_fd)
    except OSError as error:
        raise ClientError(f"no channel on descriptors {write_fd} and {read_fd}: {error.strerror}") from error
    async with converse(stream, is_shared=True) as client:
        yield client


@asynccontextmanager
async def converse(
    stream: trio.abc.Stream,
    *,
    is_shared: bool = False,
    dial: Callable[[], Awaitable[trio.abc.Stream]] | None = None,
) -> AsyncIterator[Client]:
    """A channel over any stream of bytes, which is closed at the end; `is_shared`: others write to it too.

    `dial` gives the next stream when this one has ended.
    """
    try:
        async with aclosing(Renewal(stream, dial)) as renewal, trio.open_nursery() as nursery:
            renewal.start(nursery, PendingRequests(is_shared=is_shared))
            try:
                yield Client(renewal, None)
            finally:
                renewal.end()
                nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        # The nursery is an implementation detail: users catch a fault as it was raised, not a group around it.
        if len(group.exceptions) != 1:
            raise
        raise group.exceptions[0] from group.exceptions[0].__cause__  # noqa: ASYNC123  # its cause stays as it was


async def _dial(address: str, retry_s: float) -> trio.SocketStream:
    """A connected socket; raises `ClientError`."""
    left = pauses(retry_s)
    while True:
        try:
            return await _reach(address)
        except OSError as error:
            pause_s = next(left, None)
            if pause_s is None:
                raise ClientError(f"cannot reach the daemon at {address}: {error.strerror or error}") from error
        await trio.sleep(pause_s)


async def _reach(address: str) -> trio.SocketStream:
    """A connected socket; tries again while the daemon's backlog is full, when a non-blocking connect fails."""
    give_up_at = trio.current_time() + CONNECT_S
    while True:
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            channel.setblocking(False)  # noqa: FBT003  # the standard library's own signature
            channel.connect(socket_name(address))
        except BlockingIOError:
            channel.close()
            if trio.current_time() > give_up_at:
                raise
            await trio.sleep(AGAIN_S)
        except BaseException:
            channel.close()
            raise
        else:
            await trio.lowlevel.checkpoint()
            return trio.SocketStream(trio.socket.from_stdlib_socket(channel))
