"""The answer to one HTTP request: its body is read as it is needed, and a content coding undone in bounded steps.

Nothing is asked for but `identity`; servers and what stands before them compress all the same. A bomb of zeros is met
by its size, never by its memory (RFC 9110, 8.4).
"""

import email.utils
import re
import time
import zlib
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import h11
import trio

from tooldispatchd.calls.memory import Holding
from tooldispatchd.http.errors import WireError
from tooldispatchd.http.http1 import Http1
from tooldispatchd.http.places import Origin

# What one step may make of whatever came in.
STEP_BYTES: Final = 64 * 1024
_GZIP: Final = 16 + zlib.MAX_WBITS


def decoder(coding: str) -> "Inflater | None":
    """For the value of a `Content-Encoding` header; None where there is nothing to undo. Raises `WireError`."""
    coding = coding.strip().lower()
    if coding in {"", "identity"}:
        return None
    if coding in {"gzip", "x-gzip"}:
        return Inflater(_GZIP)
    if coding == "deflate":
        return Inflater(zlib.MAX_WBITS)
    raise WireError(f"cannot read an answer of content encoding {coding[:60]!r}", was_sent=True)


class Inflater:
    """gzip (RFC 1952), or deflate with or without its zlib header (RFC 1950 and 1951)."""

    def __init__(self, wbits: int) -> None:
        self._wbits = wbits
        self._inflate = zlib.decompressobj(wbits)
        # The first two bytes say whether a zlib header is there; a lone first one waits for the second.
        self._head: bytes | None = None if wbits == _GZIP else b""
        self._is_begun = False

    def decode(self, chunk: bytes) -> Iterator[bytes]:
        """The chunk decoded, in pieces of at most `STEP_BYTES`. Raises `WireError`."""
        if self._head is not None:
            chunk = self._head + chunk
            if len(chunk) < 2:
                self._head = chunk
                return
            self._head = None
            # Some mean the bare stream by "deflate".
            if chunk[0] & 0x0F != zlib.DEFLATED or int.from_bytes(chunk[:2], "big") % 31:
                self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        while chunk:
            if self._inflate.eof:
                # A gzip file may have further members (RFC 1952, 2.2); what follows a zlib stream means nothing.
                if self._wbits != _GZIP:
                    return
                self._inflate = zlib.decompressobj(self._wbits)
            yield from self._steps(chunk)
            chunk = self._inflate.unused_data

    def finish(self) -> None:
        """The body is at its end. Raises `WireError` where the coding is not."""
        if (self._is_begun or self._head) and not self._inflate.eof:
            raise WireError("cannot read the answer: its compressed body is cut short", was_sent=True)

    def _steps(self, chunk: bytes) -> Iterator[bytes]:
        """The chunk as one stream decodes it, up to the stream's end."""
        self._is_begun = True
        try:
            while True:
                piece = self._inflate.decompress(chunk, STEP_BYTES)
                if piece:
                    yield piece
                chunk = self._inflate.unconsumed_tail
                # A full step may have more in store although all input is taken.
                if self._inflate.eof or (not chunk and len(piece) < STEP_BYTES):
                    return
        except zlib.error as error:
            raise WireError(f"cannot read the answer: {error}", was_sent=True) from error


# A server that asks for more is not waited for; a day fits where milliseconds are counted.
_MAX_RETRY_S: Final = 86_400.0
_WITHOUT_BODY: Final = frozenset({204, 304})
# The names of IANA's registry are of these, and at most 40 of them (RFC 2978, 2.3).
_CHARSET: Final = re.compile(r";\s*charset\s*=\s*\"?([a-z0-9_.:+-]{1,40})(?![^\"\s;])", re.ASCII | re.IGNORECASE)
_KEEP_ALIVE: Final = re.compile(r"\btimeout=([0-9]{1,6})\b", re.ASCII | re.IGNORECASE)


class HttpReply:
    """Status, headers (names in lower case, what came twice joined by ", ") and body of an answer.

    `connection` and `origin` are the wire's: where it came from, and is put back to.
    """

    def __init__(
        self, connection: Http1, response: h11.Response, origin: Origin, *, method: str, max_bytes: int
    ) -> None:
        self.connection = connection
        self.origin = origin
        self.status = response.status_code
        found: dict[str, list[str]] = {}
        for name, value in response.headers:
            found.setdefault(name.decode("ascii"), []).append(value.decode("latin-1"))
        # Joined at the end: one after the other thousands of them would be copied thousands of times.
        joined = {name: ", ".join(values) for name, values in found.items()}
        self.headers: Mapping[str, str] = MappingProxyType(joined)
        self._pieces: Iterator[bytes] = iter(())
        self._is_ended = False
        self._decoder: Inflater | None = None
        # The headers of such an answer are those of another one, which would have a body (RFC 9110, 9.3.2 and 15.4.5).
        if method == "HEAD" or self.status in _WITHOUT_BODY:
            return
        try:
            self._decoder = decoder(self.headers.get("content-encoding", ""))
        except WireError as error:
            error.extras["http_status"] = self.status
            raise
        length = self.headers.get("content-length", "")
        if length.isdecimal() and int(length) > max_bytes:
            raise self._too_large(f"it says {length} bytes", max_bytes)

    def __repr__(self) -> str:
        return f"Reply({self.status}, {self.media_type!r})"

    @property
    def media_type(self) -> str:
        """What the body is: lower case and without parameters, "" where nothing says so."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def charset(self) -> str | None:
        """The encoding of the body's text in lower case, where the content type names one (RFC 9110, 8.3.2)."""
        found = _CHARSET.search(self.headers.get("content-type", ""))
        return None if found is None else found[1].lower()

    @property
    def retry_after_ms(self) -> int | None:
        """When to try again by the server's word (RFC 9110, 10.2.3: seconds or a date), at most a day; else None."""
        said = self.headers.get("retry-after", "").strip()
        if said.isascii() and said.isdecimal():
            # Digits beyond these are over the bound in any case.
            return int(min(float(said[:12]), _MAX_RETRY_S) * 1000)
        try:
            seconds = email.utils.parsedate_to_datetime(said).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
        return int(min(max(seconds, 0.0), _MAX_RETRY_S) * 1000)

    @property
    def keep_alive_s(self) -> int | None:
        """How long the server keeps the TCP connection for a next request, where it says so (RFC 2068, 19.7.1.1)."""
        found = _KEEP_ALIVE.search(self.headers.get("keep-alive", ""))
        return None if found is None else int(found[1])

    def is_spent(self) -> bool:
        """Whether the body was read to its end, or its end lies here unread."""
        return self._is_ended or self.connection.skip()

    async def read(self, max_bytes: int) -> bytes:
        """The rest of a small body. Raises `WireError`, where it is longer than `max_bytes` with `is_too_large`."""
        return bytes(await self.read_large(max_bytes))

    async def read_large(self, max_bytes: int, held: Holding | None = None) -> bytearray:
        """As `read`; not copied, which takes 50 ms for 40 MB. Where `held` has no room for more, it is cut short."""
        # One array, and not a list of pieces: those of a byte or two would take forty each.
        body = bytearray()
        while piece := await self.receive():
            if len(body) + len(piece) > max_bytes:
                self.close()
                raise self._too_large("it goes on", max_bytes)
            body += piece
            if held is not None and not held.resize(len(body)):
                self.close()
                break
        return body

    async def drain(self, limit_s: float) -> None:
        """Read to the end, so that the TCP connection can serve again; close it if that is not done in time."""
        with trio.move_on_after(limit_s):
            try:
                while not self._is_ended:
                    # What is read away need not be understood.
                    self._is_ended = not await self.connection.receive()
            except WireError:
                return
        if not self._is_ended:
            self.close()

    async def receive(self) -> bytes:
        """The next piece of the body, decoded; nothing at its end. Only the reader bounds the sum.

        Raises `WireError`.
        """
        while True:
            try:
                if (piece := next(self._pieces, None)) is not None:
                    # 64 KiB of a bomb are a thousand pieces: others get their turn in between.
                    await trio.lowlevel.checkpoint()
                    return piece
                if self._is_ended:
                    return b""
                chunk = await self.connection.receive()
                if not chunk:
                    if self._decoder is not None:
                        self._decoder.finish()
                    self._is_ended = True
                    return b""
                if self._decoder is None:
                    return chunk
                self._pieces = self._decoder.decode(chunk)
            except WireError as error:
                self.close()
                error.was_sent = True
                error.extras.setdefault("http_status", self.status)
                raise

    def close(self) -> None:
        """Let the rest of the body be: the TCP connection ends."""
        self.connection.close()

    def _too_large(self, why: str, max_bytes: int) -> WireError:
        return WireError(
            f"its answer is over {max_bytes} bytes: {why}",
            was_sent=True,
            is_too_large=True,
            extras={"http_status": self.status},
        )
