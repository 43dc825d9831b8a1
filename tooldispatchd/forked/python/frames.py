"""The frames of a call's stream socket: one byte for the kind, a length, and that many bytes.

    daemon ── CALL (JSON), INPUT (JSON), CANCEL? ──▶ child
    daemon ◀── (UPDATE | LOG)* (JSON), LEAVING?, DETAILS?, STATE?, then VALUE or ERROR (all JSON), or UNBEGUN ── child

Of a frame that is cut off nothing is used. Bytes in, frames out; no I/O.
"""

import struct
from enum import IntEnum

# A byte and eight more, little endian: an answer may be larger than four gigabytes.
_PREFIX = struct.Struct("<BQ")


class FrameKind(IntEnum):
    CALL = 1
    """An object: `function` (`package.module:function`), `id`, `tool`, `agent`, `session`, `profile`, `left_s` (seconds
    or null), `scratch` and `workspace` (paths or null), `held` (the device and inode of the workspace, where it
    runs there), `updates`, `state` (null where the tool has none), `options` (an object)."""
    INPUT = 2
    """The call's input, checked by the daemon."""
    UPDATE = 3
    """An object: `progress`, `total`, `message`, `content`."""
    LEAVING = 4
    """Nothing: the worker ends after this answer."""
    VALUE = 5
    """The function's result."""
    ERROR = 6
    """An object: `kind`, `message`, `trace`, `limit`, `field`?, as `calling.failure` writes it."""
    LOG = 7
    """An object: `level`, `message`."""
    DETAILS = 8
    """An object for the agent's runtime, beside the value."""
    STATE = 9
    """The state that the call leaves, an object; not there where it is as it came."""
    CANCEL = 10
    """Nothing: the call is to end itself."""
    UNBEGUN = 11
    """Nothing: the worker has not begun the call, and serves no more."""


MAX_WORDS_BYTES = 64 * 1024
"""The bound of all but calls and values: more than what updates, lines and errors are cut at, however escaped."""

COPIED_BYTES = 64 * 1024
"""A longer payload that comes last is given as the buffer that it was gathered in."""

# Of the daemon, or the answer itself.
_LONG = frozenset((FrameKind.CALL, FrameKind.INPUT, FrameKind.VALUE))


class FrameError(Exception):
    """The bytes are no frames, or a frame is longer than what is taken; `kind` is None where it is not known."""

    def __init__(self, why: str, *, kind: FrameKind | None = None) -> None:
        super().__init__(why)
        self.kind = kind


# Calling the enumeration runs far more code, which each forked child would have to fault in.
_KINDS = {int(kind): kind for kind in FrameKind}


def frame(kind: FrameKind, payload: bytes = b"") -> bytes:
    return prefix(kind, len(payload)) + payload


def prefix(kind: FrameKind, size: int) -> bytes:
    return _PREFIX.pack(kind, size)


class FrameReader:
    """Cuts a stream into frames, none of which may hold more than `max_bytes`, nor words more than MAX_WORDS_BYTES."""

    __slots__ = ("_buffer", "_max")

    def __init__(self, max_bytes: int) -> None:
        self._buffer = bytearray()
        self._max = max_bytes

    @property
    def is_between(self) -> bool:
        """Whether nothing of a further frame has come yet."""
        return not self._buffer

    def add(self, chunk: bytes) -> None:
        """Take what was read."""
        self._buffer += chunk

    def next(self) -> tuple[FrameKind, bytes | bytearray] | None:
        """The next whole frame; raises FrameError as soon as it is known that none can come."""
        buffer = self._buffer
        if len(buffer) < _PREFIX.size:
            return None
        number, length = _PREFIX.unpack_from(buffer)
        kind = _KINDS.get(number)
        if kind is None:
            raise FrameError(f"no frame begins with {number}")
        most = self._max if kind in _LONG else min(self._max, MAX_WORDS_BYTES)
        if length > most:
            raise FrameError(f"a frame of {length} bytes is over {most}", kind=kind)
        end = _PREFIX.size + length
        if len(buffer) < end:
            return None
        if len(buffer) == end and length > COPIED_BYTES:
            # Copying an answer of megabytes would hold the loop of its reader.
            del buffer[: _PREFIX.size]
            self._buffer = bytearray()
            return kind, buffer
        payload = bytes(buffer[_PREFIX.size : end])
        del buffer[:end]
        return kind, payload
