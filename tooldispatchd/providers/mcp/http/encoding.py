"""Undo a content coding in bounded steps: a bomb of zeros is met by its size, never by its memory (RFC 9110, 8.4).

Nothing is asked for but `identity`; servers and what stands before them compress all the same.
"""

import zlib
from collections.abc import Iterator
from typing import Final, Protocol

from tooldispatchd.providers.mcp.http.errors import WireError

# What one step may make of whatever came in.
STEP_BYTES: Final = 64 * 1024
_GZIP: Final = 16 + zlib.MAX_WBITS


class Decoder(Protocol):
    """Bytes as they came, to bytes as they were meant."""

    def decode(self, chunk: bytes) -> Iterator[bytes]:
        """What this chunk says, in pieces of at most `STEP_BYTES`. Raises `WireError`."""

    def finish(self) -> None:
        """The body is at its end. Raises `WireError` where the coding is not."""


def decoder(coding: str) -> Decoder | None:
    """For the value of a `Content-Encoding` header; None where there is nothing to undo. Raises `WireError`."""
    coding = coding.strip().lower()
    if coding in {"", "identity"}:
        return None
    if coding in {"gzip", "x-gzip"}:
        return _Inflater(_GZIP)
    if coding == "deflate":
        return _Inflater(zlib.MAX_WBITS)
    raise WireError(f"cannot read an answer of content encoding {coding[:60]!r}", was_sent=True)


class _Inflater:
    """gzip (RFC 1952), or deflate with or without its zlib header (RFC 1950 and 1951)."""

    def __init__(self, wbits: int) -> None:
        self._wbits = wbits
        self._inflate = zlib.decompressobj(wbits)
        # The first two bytes say whether a zlib header is there; a lone first one waits for the second.
        self._head: bytes | None = None if wbits == _GZIP else b""
        self._is_begun = False

    def decode(self, chunk: bytes) -> Iterator[bytes]:
        """As `Decoder`."""
        if self._head is not None:
            chunk = self._begin(self._head + chunk)
        while chunk:
            if self._inflate.eof:
                # A gzip file may have further members (RFC 1952, 2.2); what follows a zlib stream is nobody's.
                if self._wbits != _GZIP:
                    return
                self._inflate = zlib.decompressobj(self._wbits)
            yield from self._steps(chunk)
            chunk = self._inflate.unused_data

    def finish(self) -> None:
        """As `Decoder`."""
        if (self._is_begun or self._head) and not self._inflate.eof:
            raise WireError("cannot read the answer: its compressed body is cut short", was_sent=True)

    def _begin(self, head: bytes) -> bytes:
        """What can be decoded of the body's beginning, once it is known how: some mean the bare stream by "deflate"."""
        if len(head) < 2:
            self._head = head
            return b""
        self._head = None
        if head[0] & 0x0F != zlib.DEFLATED or int.from_bytes(head[:2], "big") % 31:
            self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        return head

    def _steps(self, chunk: bytes) -> Iterator[bytes]:
        """What one stream makes of this chunk, up to the stream's end."""
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
