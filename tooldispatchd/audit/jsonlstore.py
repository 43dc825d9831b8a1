"""The audit as lines of JSON in a file, which is put aside when it is large or old; whole files go, the oldest first.

A record is a line with `at`, `tool` and more, a note about the audit itself one that begins with `event`. A batch is
one write, so that several daemons may append to one file. A daemon that is killed meanwhile leaves a line cut short at
most, which the next one takes away.
"""

import fcntl
import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from tooldispatchd.audit.record import AuditFilter, AuditStoreError, CallRecord, StoreNote
from tooldispatchd.privatefiles import open_private

# A file is an eighth of all that is kept, so that as much goes at once.
PARTS: Final = 8
_STAMP: Final = "%Y%m%dT%H%M%SZ"
_NOTE: Final = b'{"event":'
# No line is longer: two payloads of 16 KiB, each character of which may be six in JSON, and names.
MAX_LINE_BYTES: Final = 256 * 1024

_encode_lines: Final = msgspec.json.Encoder().encode_lines
_decode: Final = msgspec.json.Decoder(CallRecord).decode
_decode_note: Final = msgspec.json.Decoder(StoreNote).decode


@contextmanager
def _told(what: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise AuditStoreError(f"cannot {what} {path}: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise AuditStoreError(f"cannot {what} {path}: it has a line that is no record") from error


class JsonlStore:
    """Writes; used by one thread at a time. Each method but `close` raises `AuditStoreError`."""

    def __init__(self, path: str, *, keep_s: float, max_bytes: int) -> None:
        self._path = Path(path)
        self._keep_s = keep_s
        self._max_bytes = max_bytes
        self._fd = -1
        with _told("open", self._path):
            self._open()

    def _open(self) -> None:
        fd = open_private(self._path, os.O_APPEND)
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = fd
        with self._alone():
            size = os.fstat(fd).st_size
            end = os.pread(fd, MAX_LINE_BYTES, max(0, size - MAX_LINE_BYTES))
            if end and not end.endswith(b"\n"):
                os.ftruncate(fd, size - len(end) + end.rfind(b"\n") + 1)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """While no other daemon writes to the file."""
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def write(self, records: Sequence[CallRecord], notes: Sequence[StoreNote]) -> None:
        """All of these, or none."""
        lines = _encode_lines([*records, *notes])
        with _told("write to", self._path):
            if not self._is_current:
                self._open()
            with self._alone():
                size = os.fstat(self._fd).st_size
                if size and os.pread(self._fd, 1, size - 1) != b"\n":
                    # Another daemon was killed while it wrote.
                    lines = b"\n" + lines
                try:
                    written = os.write(self._fd, lines)
                    while written < len(lines):
                        # The disk is full as a rule, and the next write says so.
                        written += os.write(self._fd, memoryview(lines)[written:])
                except OSError:
                    os.ftruncate(self._fd, size)
                    raise

    @property
    def _is_current(self) -> bool:
        """Whether nobody has put the file aside."""
        with suppress(FileNotFoundError):
            return self._path.stat().st_ino == os.fstat(self._fd).st_ino
        return False

    def unclosed(self) -> list[tuple[str, int]]:
        """The runs, each with its process, that this file says the begin of and not the end."""
        with _told("read", self._path):
            runs = {note.run: note.pid for note in _notes(self._path) if note.event == "opened"}
            for note in _notes(self._path):
                if note.event in {"closed", "unclosed"}:
                    runs.pop(note.run, None)
        return list(runs.items())

    def tidy(self, now: float) -> bool:
        """Put the file aside where it is large or old, and remove what is too old; whether one was put aside."""
        with _told("tidy", self._path):
            is_over = self._is_current and self._is_over(now)
            if is_over:
                with self._alone():
                    aside = self._path.with_name(f"{self._path.name}.{time.strftime(_STAMP, time.gmtime(now))}")
                    # One that was put aside within this second stays what it is.
                    if self._is_current and not aside.exists():
                        self._path.rename(aside)
                self._open()
            size = self._path.stat().st_size
            for aside in reversed(_asides(self._path)):
                size += aside.stat().st_size
                # It was last written to when it was put aside.
                if size > self._max_bytes or aside.stat().st_mtime < now - self._keep_s:
                    aside.unlink()
        return is_over

    def _is_over(self, now: float) -> bool:
        if os.fstat(self._fd).st_size > self._max_bytes // PARTS:
            return True
        first = os.pread(self._fd, MAX_LINE_BYTES, 0).partition(b"\n")[0]
        if not first:
            return False
        try:
            at = (_decode_note if first.startswith(_NOTE) else _decode)(first).at
        except (msgspec.DecodeError, UnicodeDecodeError):
            return True  # half of a line is all that is left of it
        return at < now - self._keep_s / PARTS

    def close(self) -> None:
        os.close(self._fd)


class JsonlReader:
    """Reads while daemons write, from the files put aside and the current one. Each method raises `AuditStoreError`."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._read: tuple[int, int] = (0, 0)
        with _told("open", self._path):
            self._read = (self._path.stat().st_ino, 0)

    def latest(self, wanted: AuditFilter, limit: int) -> list[CallRecord]:
        """The last so many that are wanted, the oldest first."""
        return list(deque(self.all(wanted), maxlen=limit or None))

    def all(self, wanted: AuditFilter) -> Iterator[CallRecord]:
        """All that are wanted, the oldest first."""
        with _told("read", self._path):
            for aside in _asides(self._path):
                # What it holds is older than when it was put aside.
                if wanted.since is None or aside.stat().st_mtime >= wanted.since:
                    yield from self._in_file(aside, wanted, 0)
            yield from self._in_file(self._path, wanted, 0)

    def news(self, wanted: AuditFilter) -> list[CallRecord]:
        """Those that came since `latest`, or since the last time."""
        found: list[CallRecord] = []
        inode, offset = self._read
        with _told("read", self._path):
            files = [*_asides(self._path), self._path]
            # From the file that was read last, which may have been put aside since, as may others after it.
            while len(files) > 1 and files[0].stat().st_ino != inode:
                del files[0]
            for file in files:
                found += self._in_file(file, wanted, offset if file.stat().st_ino == inode else 0)
        return found

    def notes(self, since: float) -> list[StoreNote]:
        """What happened to the audit itself since then."""
        with _told("read", self._path):
            files = [*_asides(self._path), self._path]
            return [note for file in files for note in _notes(file) if note.at >= since]

    def close(self) -> None:
        """Nothing is kept open."""

    def _in_file(self, path: Path, wanted: AuditFilter, offset: int) -> Iterator[CallRecord]:
        with path.open("rb") as file:
            file.seek(offset)
            for line in file:
                # The last one may be written just now.
                if not line.endswith(b"\n"):
                    break
                offset += len(line)
                # What is left of a line that a killed daemon wrote is none.
                record = None if line.startswith(_NOTE) else _record_in(line)
                if record is not None and wanted.admits(record):
                    yield record
            self._read = (os.fstat(file.fileno()).st_ino, offset)


def _record_in(line: bytes) -> CallRecord | None:
    try:
        return _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _asides(path: Path) -> list[Path]:
    """The files that were put aside, the oldest first."""
    return sorted(path.parent.glob(f"{path.name}.[0-9]*T[0-9]*Z"))


def _notes(path: Path) -> Iterator[StoreNote]:
    with path.open("rb") as file:
        for line in file:
            if line.startswith(_NOTE) and line.endswith(b"\n"):
                with suppress(msgspec.DecodeError, UnicodeDecodeError):
                    yield _decode_note(line)
