"""The blocking client: one channel, its own agent and named ones beside it, from one thread.

    with connect() as client:
        client.hello("default")
        print(client.call("echo", "hello").content)

Every wait has an end: the answer, the end of the channel, or `timeout_s`. While it waits for one answer it handles
everything else that comes, and runs the callbacks that `hello` was given; these may themselves call tools.
"""

import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, overload

import msgspec
from msgspec import UNSET

from tooldispatchd.client.conversation import Call, PendingRequests, Ticket, WrittenCalls, answers
from tooldispatchd.client.duplex import Duplex
from tooldispatchd.client.errors import ClientError, FaultError
from tooldispatchd.client.reach import ANSWERS_FD, CONNECT_S, REQUESTS_FD, find_socket, given_channel, pauses, reach
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
from tooldispatchd.client.waiting import (
    Callbacks,
    OnApprove,
    OnAsk,
    OnEvent,
    OnServerNote,
    OnUpdate,
    SaidHello,
    Waiting,
)
from tooldispatchd.wire.messages import AdminResp, Bye, Pong, Ready, ToolResp, Tools, ToolView

# Longer than any tool should take.
TIMEOUT_S: Final = 600.0
# As many calls as a daemon with its default limits runs at once for one agent.
WINDOW: Final = 256

_decode_value: Final = msgspec.json.Decoder(dict[str, object]).decode


class Followed(msgspec.Struct, frozen=True):
    """One value of a subscription; so many before it were `dropped`, because we did not read."""

    value: dict[str, object]
    dropped: int


class Agent:
    """One agent on a channel; `name` is None for the channel's own."""

    def __init__(self, waiting: Waiting, name: str | None) -> None:
        self.name = name
        self._waiting = waiting

    @overload
    def hello(
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
        max_output: int | None = None,
        on_approve: OnApprove | None = None,
        on_ask: OnAsk | None = None,
        on_tools_changed: OnToolsChanged | None = None,
        on_event: OnEvent | None = None,
        on_server_note: OnServerNote | None = None,
    ) -> Ready: ...

    @overload
    def hello(
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
        max_output: int | None = None,
        on_approve: OnApprove | None = None,
        on_ask: OnAsk | None = None,
        on_tools_changed: OnShownChanged | None = None,
        on_event: OnEvent | None = None,
        on_server_note: OnServerNote | None = None,
    ) -> ShownReady: ...

    def hello(
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
        max_output: int | None = None,
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
        fields |= {"capabilities": ["servers"] if servers else None, "max_output": max_output}
        self._waiting.renew()
        # Before `ready`: a server may ask while it starts.
        self._waiting.callbacks[self.name] = Callbacks(on_approve, on_ask, on_tools_changed, on_event, on_server_note)
        return self._greet({**fields, "updates": updates or None, "answers": asked})

    def _greet(self, fields: dict[str, object]) -> Ready | ShownReady:
        waiting = self._waiting
        said = waiting.conversation.hello(self.name, **fields)
        ready: Ready | ShownReady
        ready = waiting.question(said, Ready) if is_plain(fields["schemas"]) else waiting.question(said, ShownReady)
        waiting.hellos[self.name] = SaidHello(fields, waiting.channel)
        return ready

    def _reopen(self) -> None:
        """Repeat the `hello` if the channel is a new one."""
        self._waiting.renew()
        before = self._waiting.hellos.get(self.name)
        if before is not None and before.channel != self._waiting.channel:
            self._greet(before.fields)

    @overload
    def tools(
        self, schemas: Plain | None = None, *, tags: Switches | None = None, tools: Switches | None = None
    ) -> list[ToolView]: ...

    @overload
    def tools(self, schemas: Form, *, tags: Switches | None = None, tools: Switches | None = None) -> list[Entry]: ...

    def tools(
        self, schemas: Form | Plain | None = None, *, tags: Switches | None = None, tools: Switches | None = None
    ) -> list[ToolView] | list[Entry]:
        """The current tools of the session; in the plain form, whatever `hello` asked for, unless another is named.

        `tags` and `tools` are switched on and off for this list alone.
        """
        self._reopen()
        said = self._waiting.conversation.tools(self.name, schemas=schemas, tags=tags, tools=tools)
        if is_plain(schemas):
            return self._waiting.question(said, Tools).tools
        return self._waiting.question(said, ShownTools).tools

    def select(self, *, tags: Switches | None = None, tools: Switches | None = None) -> list[ToolView]:
        """Switch tags and tools on and off for the session; the tools that it has then.

        Raises `FaultError` for a tool that it cannot have. On a new channel they are switched so again.
        """
        self._reopen()
        waiting = self._waiting
        found = waiting.question(waiting.conversation.select(self.name, tags=tags, tools=tools), Tools).tools
        before = waiting.hellos.get(self.name)
        fields = {"schemas": None} if before is None else before.fields
        waiting.hellos[self.name] = SaidHello(switched(fields, tags, tools), waiting.channel)
        return found

    def call(
        self,
        name: str,
        value: object = UNSET,
        *,
        deadline_ms: float | None = None,
        background: bool = False,
        traceparent: str | None = None,
        content: str | None = None,
        turn: str | float | None = None,
        max_bytes: int | None = None,
        max_tokens: int | None = None,
        on_update: OnUpdate | None = None,
    ) -> ToolResp:
        """Call a tool with `value` (whatever JSON can say, or `Raw`) and wait for its answer.

        An answer with `is_error` is the tool's own error. Raises `FaultError` for a fault of the daemon, and
        `ClientError` where no answer came; then the call is cancelled.
        """
        call = Call(name, value, deadline_ms, background, traceparent, content, turn, max_bytes, max_tokens)
        return self.result(self.start(call, on_update))

    def start(self, call: Call, on_update: OnUpdate | None = None) -> Ticket:
        """Send a call without waiting for its answer, which `result` gives."""
        self._reopen()
        ticket = self._waiting.conversation.call(self.name, call)
        self._waiting.expect(ticket, self.name, on_update)
        self._waiting.flush()
        return ticket

    def result(self, ticket: Ticket) -> ToolResp:
        """Wait for the answer of a call that was started, as `call` does. It is given once."""
        return self._waiting.answer(ticket, ToolResp)

    def cancel(self, ticket: Ticket) -> None:
        """Cancel a started call. Its `result` is the fault `cancelled`, or its own outcome if it had ended already."""
        self._waiting.conversation.cancel(self.name, ticket)
        self._waiting.flush()

    def cancel_all(self, *, only_waiting: bool = False) -> None:
        """Cancel every call and every job of this agent, or those that do not run yet."""
        self._waiting.conversation.cancel_all(self.name, only_waiting=only_waiting)
        self._waiting.flush()

    def background(self, call: Ticket | str) -> None:
        """Make a job of a started call: its `result` names the job, or is its own outcome where it was too late."""
        self._waiting.conversation.background(self.name, call)
        self._waiting.flush()

    def call_many(self, calls: Iterable[Call], *, window: int = WINDOW) -> list[ToolResp | FaultError]:
        """Make many calls, at most `window` at once; their outcomes in the order of `calls`.

        Raises `ClientError` where the channel ends before the last.
        """
        found = dict(self.as_completed(calls, window=window))
        return [found[number] for number in range(len(found))]

    def as_completed(
        self, calls: Iterable[Call], *, window: int = WINDOW
    ) -> Iterator[tuple[int, ToolResp | FaultError]]:
        """As `call_many`, each with its number from 0, as they end. Leaving early cancels those that still run."""
        numbered = enumerate(calls)
        running: dict[Ticket, int] = {}
        try:
            while True:
                # `calls` may be endless: one more is taken only when there is room for it.
                while len(running) < window and (following := next(numbered, None)) is not None:
                    running[self.start(following[1])] = following[0]
                if not running:
                    return
                for ticket in self._waiting.ended(running):
                    yield running.pop(ticket), self._waiting.take(ticket, ToolResp)
        finally:
            for ticket in running:
                self._waiting.abandon(ticket)

    def parse(self, text: str) -> WrittenCalls:
        """The calls in what a model without tool calling wrote, each ready for `start`; it needs no session."""
        self._waiting.renew()
        return self._waiting.question(self._waiting.conversation.parse(self.name, text), WrittenCalls)

    def bye(self) -> None:
        """End the session; returns when its teardown is complete. Ends the channel too for the channel's own agent."""
        self._waiting.question(self._waiting.conversation.bye(self.name), Bye)
        self._waiting.callbacks.pop(self.name, None)
        self._waiting.hellos.pop(self.name, None)


class Client(Agent):
    """A channel and its own agent; not to be used from two threads at once.

    It takes the two directions as descriptors, which may be the same socket, and closes them with itself. `is_shared`:
    another process writes to the channel too. `again` gives the next socket when this channel has ended.
    """

    def __init__(
        self,
        read_fd: int,
        write_fd: int,
        *,
        is_shared: bool = False,
        timeout_s: float = TIMEOUT_S,
        again: Callable[[], int] | None = None,
    ) -> None:
        conversation = PendingRequests(is_shared=is_shared)
        super().__init__(Waiting(Duplex(read_fd, write_fd), conversation, timeout_s, again), None)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def agent(self, name: str) -> Agent:
        """A named agent on this channel; its `hello` opens it."""
        return Agent(self._waiting, name)

    def ping(self) -> None:
        """Return when the daemon has answered; works before `hello`."""
        self._waiting.renew()
        self._waiting.question(self._waiting.conversation.ping(), Pong)

    def admin(self, ask: str, **fields: object) -> dict[str, object]:
        """Ask the daemon about itself, or change it (protocol/extensions/admin.md); raises `FaultError` if it refuses.

        It opens no session. `fields` are those of `admin_req`; None leaves one out.
        """
        self._waiting.renew()
        answer = self._waiting.question(self._waiting.conversation.admin(ask, fields), AdminResp)
        return _decode_value(answer.value)

    def follow(self, ask: str, *, tick_s: float, **fields: object) -> Generator[Followed | None, None, None]:
        """What a subscription tells, as it comes; None after each `tick_s` seconds without any. Leaving it ends it."""
        waiting = self._waiting
        waiting.renew()
        ticket = waiting.conversation.admin(ask, fields)
        waiting.subscribe(ticket)
        try:
            waiting.question(ticket, AdminResp)
            while True:
                note = waiting.note(ticket, tick_s)
                yield None if note is None else Followed(_decode_value(note.value), note.dropped or 0)
        finally:
            waiting.unsubscribe(ticket)
            if waiting.conversation.lost is None:
                # Its answer does not matter, nor whether it had begun.
                waiting.conversation.admin("stop", {"of": str(ticket)})
                waiting.flush()

    def close(self) -> None:
        """Close the channel; the daemon cancels what still runs for its agents."""
        self._waiting.close()


def connect(address: str | None = None, *, timeout_s: float = TIMEOUT_S, retry: float | None = None) -> Client:
    """A channel through a Unix socket: a path, `@name` for an abstract one, or where the environment says.

    Without an address an agent that was started with a channel of its own uses that one, as from `inherit`.
    `timeout_s` bounds the wait for any one answer. Raises `ClientError` if no daemon can be reached.

    With `retry` the client tries for so many seconds to reach a daemon, now and whenever its channel has ended: the
    next request opens another channel and repeats the `hello`. A call that was in flight ends with a `ClientError`: it
    may have run, and is never sent again. Jobs end with their session.
    """
    given = given_channel(os.environ) if address is None else None
    if given is not None:
        # `run` has opened it, and there is no other.
        return inherit(*given, timeout_s=timeout_s)
    address = find_socket(os.environ) if address is None else address
    dial = partial(_dial, address, timeout_s, retry or 0.0)
    fd = dial()
    return Client(fd, fd, timeout_s=timeout_s, again=dial if retry else None)


def _dial(address: str, timeout_s: float, retry_s: float) -> int:
    """A connected socket; raises `ClientError`."""
    left = pauses(retry_s)
    while True:
        try:
            return reach(address, within_s=min(timeout_s, CONNECT_S)).detach()
        except OSError as error:
            pause_s = next(left, None)
            if pause_s is None:
                raise ClientError(f"cannot reach the daemon at {address}: {error.strerror or error}") from error
        time.sleep(pause_s)


def inherit(read_fd: int = ANSWERS_FD, write_fd: int = REQUESTS_FD, *, timeout_s: float = TIMEOUT_S) -> Client:
    """The channel that `tooldispatchd run` gave this process; raises `ClientError` where there is none.

    `run` has said `hello` on it: the session is open, and another `hello` is refused.
    """
    try:
        # Children of this process must not inherit the channel.
        os.set_inheritable(read_fd, False)  # noqa: FBT003  # the standard library's own signature
        os.set_inheritable(write_fd, False)  # noqa: FBT003  # as above
        return Client(read_fd, write_fd, is_shared=True, timeout_s=timeout_s)
    except OSError as error:
        raise ClientError(f"no channel on descriptors {write_fd} and {read_fd}: {error.strerror}") from error
