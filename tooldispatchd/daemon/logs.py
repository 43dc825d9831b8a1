"""The daemon's log on stderr: JSON lines, or what is readable on a terminal.

Never a payload or a secret: callers log constant events and names, and what may quote a payload (`QUOTING`) appears at
level debug only, and in the daemon's own log alone. A reader that is slow or gone never stops the daemon.
"""

import os
import secrets
import socket
import stat
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

import msgspec

from tooldispatchd.agent.session.administration import LEVELS, LogReader
from tooldispatchd.catalog.masker import NO_SECRETS, Masker

# Fields with the words of programs, servers, hooks and exceptions, who may say again what one agent told them: other
# agents that administer the daemon do not read these.
QUOTING: Final = frozenset(("stderr_tail", "message"))
# A traceback of a recursion is cut: its innermost frames tell enough.
FRAMES: Final = 30
# ECMA-48, "select graphic rendition", by level.
COLOURS: Final = {"debug": "\x1b[36m", "info": "\x1b[32m", "warning": "\x1b[33m", "error": "\x1b[31m"}
STDERR: Final = 2


class LogSink:
    """Writes lines to a descriptor and never waits, never raises.

    A line that cannot be written at once, or not whole, is dropped and counted; the next one that can says how many
    were, on a line of its own.
    """

    def __init__(self, fd: int = STDERR) -> None:
        self._socket: socket.socket | None = None
        self._fd = -1
        self._is_cut = False  # what was written last
        self.dropped = 0
        self.lost = 0  # of all lines
        # Where it cannot be opened there is no other place to say so.
        with suppress(OSError):
            mode = os.fstat(fd).st_mode
            if stat.S_ISSOCK(mode):
                self._socket = socket.socket(fileno=os.dup(fd))
            elif stat.S_ISFIFO(mode) or os.isatty(fd):
                try:
                    # Opened anew: a duplicate would share its non-blocking flag with every holder.
                    self._fd = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
                except PermissionError:
                    # Another user's pipe (sudo): a log is worth sharing the flag with the pipe's other writers.
                    self._fd = os.dup(fd)
                    os.set_blocking(self._fd, False)
            else:
                self._fd = os.dup(fd)

    def write(self, line: bytes) -> None:
        """Write `line`, which ends with its newline, or drop it."""
        told = b"\n" if self._is_cut else b""
        if self.dropped:
            told += b'{"level":"warning","event":"log lines dropped","count":%d}\n' % self.dropped
        size = len(told) + len(line)
        try:
            written = self._write(told + line)
        except OSError:
            written = 0
        if written >= len(told):
            self.dropped = 0
        if written:
            self._is_cut = written < size
        if written < size:
            self.dropped += 1
            self.lost += 1

    def _write(self, lines: bytes) -> int:
        """Write what there is room for, and give its size in bytes. Raises `OSError`."""
        if self._socket is not None:
            return self._socket.send(lines, socket.MSG_DONTWAIT)
        # Without a descriptor there is nobody to miss it.
        return os.write(self._fd, lines) if self._fd >= 0 else len(lines)


# A line of the log: its time in Unix seconds, its level, its event and the fields beside that.
Render = Callable[[float, str, str, dict[str, object]], bytes]


class LogOutput:
    """The place where all loggers write to, from a level on; known secrets are masked, whatever line they are in.

    Readers may have it too, from levels of their own on. `wanted` is the least level that anybody wants.
    """

    __slots__ = ("_level", "_masker", "_readers", "_render", "_sink", "wanted")

    def __init__(self, sink: LogSink, render: Render, *, level: int, masker: Masker = NO_SECRETS) -> None:
        self.wanted = self._level = level
        self._readers: tuple[LogReader, ...] = ()
        self._sink = sink
        self._render = render
        self._masker = masker

    @property
    def lost(self) -> int:
        """The number of lines that could not be written."""
        return self._sink.lost

    @property
    def level(self) -> str:
        """The least level that is written."""
        return next(name for name, level in LEVELS.items() if level == self._level)

    def set_level(self, level: str) -> None:
        """From now on write what is of this level or above."""
        self._level = LEVELS[level]
        self._look()

    def attach(self, reader: LogReader) -> None:
        """Tell it too, what is of its level or above."""
        self._readers = (*self._readers, reader)
        self._look()

    def detach(self, reader: LogReader) -> None:
        """Tell it nothing any more. Idempotent."""
        self._readers = tuple(one for one in self._readers if one is not reader)
        self._look()

    def _look(self) -> None:
        self.wanted = min([self._level, *(LEVELS[reader.level] for reader in self._readers)])

    def put(self, level: str, event: str, fields: dict[str, object]) -> None:
        """Write a line, and tell it those who read, without what may quote a payload."""
        at = time.time()
        if LEVELS[level] >= self._level:
            self._sink.write(self._masker.mask_bytes(self._render(at, level, event, fields)) + b"\n")
        told: bytes | None = None
        for reader in self._readers:
            # Most readers want some lines alone, and one that does not read has no room.
            if LEVELS[level] >= LEVELS[reader.level] and reader.has_room_for(fields):
                told = told or self._masker.mask_bytes(render_json(at, level, event, _unquoted(fields)))
                reader.take(told)


def _unquoted(fields: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if name not in QUOTING}


class DaemonLog:
    """A logger: each of its lines has its fields."""

    __slots__ = ("_fields", "output")

    def __init__(self, output: LogOutput, fields: dict[str, object]) -> None:
        self.output: Final = output
        self._fields = fields

    @property
    def lost(self) -> int:
        """The number of lines of the daemon's whole log that could not be written."""
        return self.output.lost

    @property
    def logs_calls(self) -> bool:
        """True where anybody hears what is said of single calls."""
        return self.output.wanted <= LEVELS["debug"]

    def bind(self, **fields: object) -> "DaemonLog":
        """A log that adds these fields to every line."""
        return DaemonLog(self.output, self._fields | fields)

    def debug(self, event: str, **fields: object) -> None:
        """Details of one call."""
        self._put("debug", event, fields)

    def info(self, event: str, **fields: object) -> None:
        """One line for each session and connection."""
        self._put("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Something that the operator may want to correct."""
        self._put("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Something failed for good."""
        self._put("error", event, fields)

    def _put(self, level: str, event: str, fields: dict[str, object]) -> None:
        if LEVELS[level] >= self.output.wanted:
            self.output.put(level, event, self._fields | fields)

    def incident(self, event: str, error: BaseException) -> str:
        """Log a defect with its place and without its values; returns the id that the agent is told."""
        incident = secrets.token_hex(6)
        frames = traceback.extract_tb(error.__traceback__)[-FRAMES:]
        places = [f"{frame.filename.rpartition('tooldispatchd/')[2]}:{frame.lineno} {frame.name}" for frame in frames]
        self.error(event, incident=incident, error=type(error).__name__, at=places)
        self.debug("incident", incident=incident, message=str(error))
        return incident


def open_log(level: str, masker: Masker = NO_SECRETS) -> DaemonLog:
    """The log on stderr, from `level` on."""
    render = render_text if os.isatty(STDERR) else render_json
    return DaemonLog(LogOutput(LogSink(), render, level=LEVELS[level], masker=masker), {})


def render_json(at: float, level: str, event: str, fields: dict[str, object]) -> bytes:
    """A line as JSON, its time in UTC (RFC 3339)."""
    stamp = datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return msgspec.json.encode({"time": stamp, "level": level, "event": event, **fields}, enc_hook=str)


def render_text(at: float, level: str, event: str, fields: dict[str, object]) -> bytes:
    """A line for a terminal, its time the local one."""
    return readable(at, level, event, fields, is_coloured=not os.environ.get("NO_COLOR")).encode()


def readable(at: float, level: str, event: str, fields: Mapping[str, object], *, is_coloured: bool) -> str:
    """A line for a person, its time the local one."""
    dim, strong, end = ("\x1b[2m", "\x1b[1m", "\x1b[0m") if is_coloured else ("", "", "")
    colour = COLOURS[level] if end else ""
    # How many problems there are is seen.
    hidden = "why" if "problems" in fields else None
    said = [_field(name, value, dim, end) for name, value in fields.items() if name != hidden]
    stamp = time.strftime("%H:%M:%S", time.localtime(at))
    return " ".join([f"{dim}{stamp}{end} {colour}{level:<7}{end} {strong}{event:<24}{end}", *said])


def _field(name: str, value: object, dim: str, end: str) -> str:
    """A field in one line; a time in seconds says its unit, as in "took=0.04 s"."""
    is_time = name.endswith("_s") and isinstance(value, int | float)
    return f"{dim}{name[:-2] if is_time else name}={end}{_shown(value)}{' s' if is_time else ''}"


def _shown(value: object) -> str:
    if isinstance(value, dict):
        value = [f"{_words(key)}: {_shown(each)}" for key, each in value.items()]
    if isinstance(value, list | tuple | set | frozenset):
        return "; ".join(map(_words, value)) or "none"
    text = _words(value)
    if text and " " not in text:
        return text
    mark = "'" if '"' in text else '"'
    return f"{mark}{text}{mark}"


def _words(value: object) -> str:
    """Show a value as people read it; of a problem its place, its key and why.

    A name that an agent or a server chose must not steer a terminal.
    """
    if value is None or isinstance(value, bool):
        return "none" if value is None else "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"  # three figures say enough
    if isinstance(value, dict) and "why" in value:
        place = ":".join(str(value[key]) for key in ("file", "line") if value.get(key))
        value = ": ".join(filter(None, (place, value.get("key"), str(value.get("why")))))
    elif isinstance(value, dict | list | tuple | set | frozenset):
        return _shown(value)
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
