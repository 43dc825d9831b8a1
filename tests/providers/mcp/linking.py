"""A link without a connection: an inbox that keeps what comes, a dialect that says little, and servers to link to."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

import msgspec
import trio

from tests.servers.raw_http import Asked, Peer, Script
from tooldispatchd.calls.memory import Memory
from tooldispatchd.checkers.pool import InPlace, Running
from tooldispatchd.http.reach import Reach
from tooldispatchd.providers.mcp.dialects import Legacy
from tooldispatchd.providers.mcp.link import Link, Transport
from tooldispatchd.providers.mcp.messages import Incoming, Outgoing, read_message
from tooldispatchd.providers.mcp.server import Server
from tooldispatchd.wire.faults import Fault

# Far above what anything here takes, far below any limit that is not under test.
SOON_S = 10.0
KIB = 1024
# Of a daemon that has memory for whatever a test does.
SHARE = Memory(1 << 40).share(None)


class Inbox:
    """Keeps messages, answers and faults; a request waits from `expect` until either of the latter two."""

    def __init__(self) -> None:
        self.share = SHARE
        self.checkers: Running = InPlace()
        self.waiting: set[int] = set()
        self.messages: list[bytes] = []
        self.answers: dict[int, Incoming] = {}
        self.faults: dict[int, Fault] = {}
        self.log: list[tuple[str, dict[str, object]]] = []
        self._changed = trio.Event()

    async def take_chunk(self, chunk: bytes) -> None:
        raise AssertionError(chunk)

    def take_now(self, chunk: bytes) -> bool:
        raise AssertionError(chunk)

    async def take_rest(self) -> None:
        """There is none."""

    async def take(self, message: bytes | msgspec.Raw, number: int | None = None) -> None:
        self.messages.append(bytes(message))
        read = read_message(message)
        if read is not None:
            is_answer = isinstance(read.result, msgspec.Raw) or isinstance(read.error, msgspec.Raw)
            if is_answer and read.id in (None, msgspec.UNSET) and number is not None:
                read.id = number
            self.take_message(read)

    def take_message(self, message: Incoming) -> None:
        if isinstance(message.id, int) and message.method is msgspec.UNSET and message.id in self.waiting:
            self.waiting.remove(message.id)
            self.answers[message.id] = message
        self._tell()

    def fail(self, number: int, fault: Fault, *, is_unbegun: bool = False) -> None:
        if number in self.waiting:
            self.waiting.remove(number)
            self.faults[number] = fault.ran(may_have=False) if is_unbegun else fault
        self._tell()

    def is_waiting(self, number: int) -> bool:
        return number in self.waiting

    def debug(self, event: str, **fields: object) -> None:
        self.log.append((event, fields))

    def _tell(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait for something that comes with a message."""
        with trio.fail_after(SOON_S):
            while not is_so():
                await self._changed.wait()

    async def result(self, number: int) -> object:
        """What request `number` was answered with."""
        await self.until(lambda: number not in self.waiting)
        result = self.answers[number].result
        assert isinstance(result, msgspec.Raw)
        return msgspec.json.decode(result)

    async def fault(self, number: int) -> Fault:
        await self.until(lambda: number not in self.waiting)
        return self.faults[number]


class BusyInbox(Inbox):
    """Never done with a message; `let_go` is what its share is told to free."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go: list[object] = []
        self.share = Memory(1 << 40, let_go=self.let_go.append).share(None)
        self.views: list[memoryview] = []

    async def take(self, message: bytes | msgspec.Raw, number: int | None = None) -> None:
        self.views.append(memoryview(message))
        self._tell()
        await trio.sleep_forever()

    def gave_what_was_taken(self) -> bool:
        """Whether the one message lies in the one buffer that was let go of: a change of this shows in that."""
        [buffer], [view] = self.let_go, self.views
        assert isinstance(buffer, bytearray)
        buffer[:1] = b"!"
        return view[0] == ord("!")


class Speaks(Legacy):
    """A dialect with one header."""

    def __init__(self, revision: str) -> None:
        super().__init__(revision)
        self.is_modern = revision == "2026-07-28"

    def headers(self, message: Outgoing) -> list[tuple[str, str]]:
        return [("MCP-Protocol-Version", self.revision)] if self.revision else []


LEGACY = Speaks("2025-11-25")
MODERN = Speaks("2026-07-28")


class Linked:
    """An open link and its inbox."""

    def __init__(self, link: Link, inbox: Inbox) -> None:
        self.link = link
        self.inbox = inbox
        self._number = 0

    def ask(self, method: str = "tools/call", **params: object) -> int:
        """Send a request; its number."""
        self._number += 1
        self.inbox.waiting.add(self._number)
        assert self.link.dialect is not None
        self.link.send(self.link.dialect.request(self._number, method, params))
        assert self.link.flush()
        return self._number

    def call(self, arguments: bytes, **headers: str) -> int:
        """Send a call of which headers repeat the arguments of these names; its number."""
        self._number += 1
        self.inbox.waiting.add(self._number)
        params = tuple((header, (name,)) for name, header in headers.items())
        head = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":' % self._number
        line = b"%b%b}}\n" % (head, arguments)
        self.link.send(Outgoing(line, "tools/call", self._number, "echo", arguments, params))
        assert self.link.flush()
        return self._number

    def tell(self, method: str, **params: object) -> None:
        """Send a notification."""
        assert self.link.dialect is not None
        self.link.send(self.link.dialect.notification(method, params or None))
        assert self.link.flush()

    async def result(self, method: str = "tools/call", **params: object) -> object:
        return await self.inbox.result(self.ask(method, **params))

    async def fault(self, method: str = "tools/call", **params: object) -> Fault:
        return await self.inbox.fault(self.ask(method, **params))

    async def turn(self) -> None:
        """Wait until the link has something for its owner."""
        with trio.fail_after(SOON_S):
            await self.link.turn(trio.current_time() + SOON_S * 2)


@asynccontextmanager
async def linked(
    way: Transport, dialect: Speaks = LEGACY, *, is_opened: bool = True, inbox: Inbox | None = None
) -> AsyncIterator[Linked]:
    """A link, closed at the end: within the time that its way states, and with none of its tasks left."""
    inbox = inbox or Inbox()
    async with trio.open_nursery() as nursery:
        link = way.link(inbox, nursery)
        link.dialect = dialect
        try:
            if is_opened:
                with trio.fail_after(SOON_S):
                    await link.open()
            yield Linked(link, inbox)
        finally:
            with trio.fail_after(way.close_s + 2, shield=True):
                link.drop()
                await link.close()
            assert not nursery.child_tasks


def at(url: str, *, max_bytes: int = 1024 * KIB, transport: str = "auto", **reach: object) -> Server:
    """A server that is reached by URL."""
    return Server(
        name="far",
        max_line_bytes=max_bytes,
        max_content_bytes=max_bytes,
        transport=transport,
        reach=msgspec.structs.replace(Reach(url=url), **reach),
    )


# --- what servers say ------------------------------------------------------------------------------------------------

Handle = Callable[[Peer, Asked], Awaitable[None]]

STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
STREAM_END = b"0\r\n\r\n"


def each(handle: Handle) -> Script:
    """A script that deals with each request by itself."""

    async def script(peer: Peer) -> None:
        while True:
            await handle(peer, await peer.read_request())

    return script


def in_turn(*handles: Handle) -> Handle:
    """The first request is dealt with by the first of `handles`, and so on, over all connections."""
    rest = list(handles)

    async def handle(peer: Peer, asked: Asked) -> None:
        await rest.pop(0)(peer, asked)

    return handle


def number_of(asked: Asked) -> int:
    found = msgspec.json.decode(asked.body)["id"]
    assert isinstance(found, int)
    return found


def method_of(asked: Asked) -> str:
    """The message's method, or HTTP's where there is no message."""
    return str(msgspec.json.decode(asked.body)["method"]) if asked.body else asked.method


def answer_to(number: int, result: object = None) -> bytes:
    """A JSON-RPC answer."""
    return msgspec.json.encode({"jsonrpc": "2.0", "id": number, "result": result if result is not None else {"a": 1}})


def chunk(data: bytes) -> bytes:
    """A chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(data: bytes = b"", *, id_: str | None = None, name: str | None = None, retry: int | None = None) -> bytes:
    """One event, as a chunk."""
    lines = []
    if name is not None:
        lines.append(f"event: {name}\n".encode())
    if id_ is not None:
        lines.append(f"id: {id_}\n".encode())
    if retry is not None:
        lines.append(b"retry: %d\n" % retry)
    lines.append(b"data: " + data + b"\n")
    return chunk(b"".join(lines) + b"\n")


def streaming(*chunks: bytes, is_ended: bool = True) -> Handle:
    """Answer with a stream of these chunks; one that does not end is held open until the client leaves."""

    async def handle(peer: Peer, asked: Asked) -> None:
        await peer.send(STREAM_HEAD + b"".join(chunks) + (STREAM_END if is_ended else b""))
        if not is_ended:
            await peer.wait_for_close()
            raise EOFError

    return handle


def answering(body: bytes = b"", status: str = "200 OK", headers: str = "") -> Handle:
    async def handle(peer: Peer, asked: Asked) -> None:
        await peer.answer(body, status, headers)

    return handle


def methods(asked: Iterable[Asked]) -> list[str]:
    return [method_of(each_) for each_ in asked]
