"""The daemon's log: structlog to stderr, as JSON lines, or readable on a terminal.

Never a payload or a secret: callers log constant events and names, and an incident's message, which may quote what a
tool was given, appears at level debug only. A reader that is slow or gone never stops the daemon.
"""

import os
import secrets
import socket
import stat
import traceback
from contextlib import suppress
from typing import Final

import msgspec
import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from tooldispatchd.catalog.masker import NO_SECRETS, Masker

LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}
# A traceback of a recursion is cut: its innermost frames tell enough.
FRAMES: Final = 30
STDERR: Final = 2


class LogSink:
    """Writes whole lines to a descriptor and never waits, never raises.

    A line that cannot be written at once is dropped and counted; the next one that can says how many were.
    """

    def __init__(self, fd: int = STDERR) -> None:
        self._socket: socket.socket | None = None
        self._fd = -1
        self.dropped = 0
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
        if self.dropped:
            line = b'{"level":"warning","event":"log lines dropped","count":%d}\n%b' % (self.dropped, line)
        try:
            if self._socket is not None:
                self._socket.send(line, socket.MSG_DONTWAIT)
            elif self._fd >= 0:
                os.write(self._fd, line)
        except OSError:
            self.dropped += 1
        else:
            self.dropped = 0


class DaemonLog:
    """A bound structlog logger that also knows incidents."""

    __slots__ = ("_logger",)

    def __init__(self, logger: FilteringBoundLogger) -> None:
        self._logger = logger

    def bind(self, **fields: object) -> "DaemonLog":
        """A log that adds these fields to every line."""
        return DaemonLog(self._logger.bind(**fields))

    def debug(self, event: str, **fields: object) -> object:
        """Details of one call."""
        return self._logger.debug(event, **fields)

    def info(self, event: str, **fields: object) -> object:
        """One line for each session and connection."""
        return self._logger.info(event, **fields)

    def warning(self, event: str, **fields: object) -> object:
        """Something that the operator may want to correct."""
        return self._logger.warning(event, **fields)

    def error(self, event: str, **fields: object) -> object:
        """Something failed for good."""
        return self._logger.error(event, **fields)

    def incident(self, event: str, error: BaseException) -> str:
        """Log a defect with its place and without its values; returns the id that the agent is told."""
        incident = secrets.token_hex(6)
        frames = traceback.extract_tb(error.__traceback__)[-FRAMES:]
        places = [f"{frame.filename.rpartition('tooldispatchd/')[2]}:{frame.lineno} {frame.name}" for frame in frames]
        self._logger.error(event, incident=incident, error=type(error).__name__, at=places)
        self._logger.debug("incident", incident=incident, message=str(error))
        return incident


class _SinkLogger:
    """What structlog calls with each rendered line."""

    def __init__(self, sink: LogSink, masker: Masker) -> None:
        self._sink = sink
        self._masker = masker

    def msg(self, line: bytes) -> None:
        self._sink.write(self._masker.mask_bytes(line) + b"\n")

    debug = info = warning = error = msg


def open_log(level: str, masker: Masker = NO_SECRETS) -> DaemonLog:
    """The log on stderr, from `level` on; known secrets are masked, whatever line they are in."""
    if os.isatty(STDERR):
        stamp = structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False)
        console = structlog.dev.ConsoleRenderer(colors=True)
        renderers: list[Processor] = [_escape, console, _encode_text]
    else:
        stamp = structlog.processors.TimeStamper(fmt="iso", utc=True, key="time")
        renderers = [_render_json]
    logger = structlog.wrap_logger(
        _SinkLogger(LogSink(), masker),
        processors=[structlog.processors.add_log_level, stamp, *renderers],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
    )
    return DaemonLog(logger.bind())


def _escape(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    # A name that an agent or a server chose must not steer the terminal.
    unprintable = {key for key, value in event.items() if isinstance(value, str) and not value.isprintable()}
    return {key: ascii(value) if key in unprintable else value for key, value in event.items()}


def _encode_text(_logger: WrappedLogger, _method: str, line: object) -> bytes:
    return str(line).encode(errors="replace")


def _render_json(_logger: WrappedLogger, _method: str, event: EventDict) -> bytes:
    ordered = {key: event.pop(key) for key in ("time", "level", "event") if key in event}
    return msgspec.json.encode({**ordered, **event}, enc_hook=str)
