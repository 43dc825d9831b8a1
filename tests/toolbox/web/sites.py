"""Web sites of this process on 127.0.0.1, and a name server whose answers a test chooses."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import trio

Answer = bytes | Callable[[trio.abc.Stream], Awaitable[None]]
TLS_HELLO = b"\x16\x03"
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


def page(
    body: bytes, content_type: str = "text/html; charset=utf-8", status: str = "200 OK", headers: tuple[str, ...] = ()
) -> bytes:
    """An answer with its length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {content_type}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def redirect(location: str, status: str = "302 Found") -> bytes:
    return page(b"moved", status=status, headers=(f"Location: {location}",))


@dataclass
class Site:
    """A site that runs: its origin, and the requests that it heard, without their bodies."""

    answers: Mapping[str, Answer]
    scheme: str = "http"
    port: int = 0
    heads: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    async def serve(self, stream: trio.abc.Stream) -> None:
        try:
            heard = b""
            while b"\r\n\r\n" not in heard:
                heard += await self._more(stream)
                if heard.startswith(TLS_HELLO):
                    await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                    return
            head, _, body = heard.partition(b"\r\n\r\n")
            lengths = [int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            while len(body) < sum(lengths):
                body += await self._more(stream)
            self.heads.append(head.decode())
            self.bodies.append(body)
            answer = self.answers.get(head.decode().split()[1].partition("?")[0], NOT_FOUND)
            await (stream.send_all(answer) if isinstance(answer, bytes) else answer(stream))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client has heard enough
        finally:
            await trio.aclose_forcefully(stream)

    async def _more(self, stream: trio.abc.Stream) -> bytes:
        chunk = bytes(await stream.receive_some())
        if not chunk:
            raise trio.BrokenResourceError
        return chunk


@asynccontextmanager
async def site(
    answers: Mapping[str, Answer], *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[Site]:
    """Serve `answers` by path while the block lasts."""
    listeners = await trio.open_tcp_listeners(port, host=host)
    found = Site(answers, "https" if tls else "http", listeners[0].socket.getsockname()[1])
    serving: Any = [trio.SSLListener(each, tls, https_compatible=True) for each in listeners] if tls else listeners
    async with trio.open_nursery() as nursery:
        # They listen already.
        nursery.start_soon(partial(trio.serve_listeners, found.serve, serving))  # noqa: ASYNC113
        yield found
        nursery.cancel_scope.cancel()


class Names(trio.abc.HostnameResolver):
    """A name server: each time a name is asked for, the next of its answers; the last one stays."""

    def __init__(self, **answers: list[list[str]]) -> None:
        self.asked: list[str] = []
        self._answers = {name.replace("_", "."): list(each) for name, each in answers.items()}
        trio.socket.set_custom_hostname_resolver(self)

    async def getaddrinfo(  # noqa: PLR0917  # trio's signature
        self,
        host: bytes | None,
        port: bytes | str | int | None,
        family: int = 0,
        type: int = 0,  # noqa: A002
        proto: int = 0,
        flags: int = 0,
    ) -> Any:
        name = (host or b"").decode()
        self.asked.append(name)
        left = self._answers.get(name)
        if left is None:
            raise trio.socket.gaierror(trio.socket.EAI_NONAME, "Name or service not known")
        addresses = left.pop(0) if len(left) > 1 else left[0]
        return [
            (trio.socket.AF_INET6, type, 6, "", (each, 0, 0, 0))
            if ":" in each
            else (trio.socket.AF_INET, type, 6, "", (each, 0))
            for each in addresses
        ]

    async def getnameinfo(self, sockaddr: tuple[str, int] | tuple[str, int, int, int], flags: int) -> tuple[str, str]:
        raise NotImplementedError
