"""The audit as lines of JSON in a file, which is put aside when it is large or old; whole files go, the oldest first.

A record is a line with `at`, `tool` and more, a note about the audit itself one that begins with `event`. Several
daemons may append to one file: each holds its lock while it writes or puts the file aside. A daemon that is killed
meanwhile leaves a line cut short at most, which the next one takes away.
"""

import fcntl
import glob
import os
import re
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from tooldispatchd.audit.record import AuditFilter, AuditStoreError, CallRecord, StoreNote
from tooldispatchd.privatefiles import open_private

# A file is an eighth of all that is kept, so that as much goes at once.
PARTS: Final = 8
_STAMP: Final = "%Y%m%dT%H%M%SZ"
# The number, not the stamp, says which came first: several may go within a second, and clocks are set back.
_ASIDE: Final = re.compile(r"\d{8}T\d{6}Z(?:-(\d+))?")
_NOTE: Final = b'{"event":'
# Counted at once, without the interpreter's lock being asked for once a line.
_COUNTED_BYTES: Final = 1024 * 1024
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
    """Writes; used by one thread at a time. Each method but `close` raises `AuditStoreError`.

    `removed` counts the records that went before their time, so that the others keep within `max_bytes`.
    """

    def __init__(self, path: str, *, keep_s: float, max_bytes: int) -> None:
        self.removed = 0
        self._path = Path(path)
        self._keep_s = keep_s
        self._max_bytes = max_bytes
        self._part_bytes = max_bytes // PARTS
        # The note that this run goes on; each file that it writes to has one.
        self._opened = b""
        self._has_opened = False
        # A batch of which the beginning stands in files that were put aside: its lines, and where they go on.
        self._begun: tuple[Sequence[CallRecord], Sequence[StoreNote], bytes, int] | None = None
        self._fd = -1
        with _told("open", self._path):
            self._open()

    def _open(self) -> None:
        fd = open_private(self._path, os.O_APPEND)
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = fd
        self._has_opened = False
        with self._locked():
            size = os.fstat(fd).st_size
            end = os.pread(fd, MAX_LINE_BYTES, max(0, size - MAX_LINE_BYTES))
            if end and not end.endswith(b"\n"):
                os.ftruncate(fd, size - len(end) + end.rfind(b"\n") + 1)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """While no other daemon writes to the file."""
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    @contextmanager
    def _current(self) -> Iterator[int]:
        """While no other daemon writes to the file, or puts it aside; its size."""
        while True:
            with self._locked():
                if self._is_current:
                    yield os.fstat(self._fd).st_size
                    return
            self._open()

    @property
    def _is_current(self) -> bool:
        """Whether nobody has put the file aside."""
        with suppress(FileNotFoundError):
            return self._path.stat().st_ino == os.fstat(self._fd).st_ino
        return False

    def write(self, records: Sequence[CallRecord], notes: Sequence[StoreNote]) -> None:
        """All of these. After an error the same ones may be given again, and no line is written twice."""
        start = 0
        if self._begun is not None and self._begun[0] is records and self._begun[1] is notes:
            lines, start = self._begun[2:]
        else:
            lines = bytes(_encode_lines([*records, *notes]))
        with _told("write to", self._path):
            while start < len(lines):
                self._begun = records, notes, lines, start
                start = self._write_some(lines, start)
        self._begun = None
        for note in notes:
            if note.event == "opened":
                self._opened, self._has_opened = bytes(_encode_lines([note])), True

    def _write_some(self, lines: bytes, start: int) -> int:
        """Write the lines that the file has room for, or put it aside; where the rest begins."""
        with self._current() as size:
            end = lines.rfind(b"\n", start, start + max(0, self._part_bytes - size)) + 1
            if not end and size:
                self._put_aside(time.time())
                return start
            # A line that is larger than a file should be has one of its own.
            end = end or lines.index(b"\n", start) + 1
            self._append(lines[start:end], size)
            return end

    def _append(self, lines: bytes, size: int) -> None:
        if not self._has_opened:
            lines = self._opened + lines
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
        self._has_opened = True

    def _put_aside(self, now: float) -> None:
        """Let a new file begin, and the oldest ones go that it needs the room of."""
        asides = _asides(self._path)
        number = _next_number(asides)
        stamp = time.strftime(_STAMP, time.gmtime(now))
        asides.append(self._path.rename(f"{self._path}.{stamp}-{number}"))
        room = self._max_bytes - self._part_bytes
        kept = sum(aside.stat().st_size for aside in asides)
        for aside in asides:
            size = aside.stat().st_size
            # One that is larger than a file should be, as of a larger `max_bytes`, stays until others are in its place.
            if kept <= room or kept - size < room - self._part_bytes:
                break
            kept -= size
            self.removed += _count_records(aside)
            aside.unlink()

    def unclosed(self) -> list[tuple[str, int]]:
        """The runs, each with its process, that this file says the begin of and not the end."""
        with _told("read", self._path):
            runs = {note.run: note.pid for note in _notes(self._path) if note.event == "opened"}
            for note in _notes(self._path):
                if note.event in {"closed", "unclosed"}:
                    runs.pop(note.run, None)
        return list(runs.items())

    def tidy(self, now: float) -> None:
        """Put the file aside where it is old, and remove what is too old."""
        with _told("tidy", self._path):
            with self._current():
                is_old = self._is_old(now)
                if is_old:
                    self._put_aside(now)
            with self._current() as size:
                if is_old:
                    self._append(b"", size)
                for aside in _asides(self._path):
                    # It was last written to when it was put aside.
                    if aside.stat().st_mtime < now - self._keep_s:
                        aside.unlink()

    def _is_old(self, now: float) -> bool:
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
    """Reads while daemons write, from the files put aside and the current one. Each method raises `AuditStoreError`.

    The file that was read last is kept open, so that no other has its inode: it is known again where it was put aside.
    Where it is gone, its number tells whether others went with it.
    """

    def __init__(self, path: str) -> None:
        self.has_missed = False
        self._path = Path(path)
        self._offset = self._file_number = 0
        with _told("open", self._path):
            self._file: BinaryIO = self._path.open("rb")

    def latest(self, wanted: AuditFilter, limit: int) -> list[CallRecord]:
        """The last so many that are wanted, the oldest first."""
        return list(deque(self.all(wanted), maxlen=limit or None))

    def all(self, wanted: AuditFilter) -> Iterator[CallRecord]:
        """All that are wanted, the oldest first."""
        with _told("read", self._path):
            # Before the others are listed: one that is put aside meanwhile is among them.
            self._turn_to(self._path.open("rb"))
            asides = _asides(self._path)
            self._file_number = _next_number(asides)
            for aside in asides:
                with suppress(FileNotFoundError), aside.open("rb") as file:
                    if _inode(file) == _inode(self._file):
                        self._file_number = _number(aside)
                        break
                    # What it holds is older than when it was put aside.
                    if wanted.since is None or os.fstat(file.fileno()).st_mtime >= wanted.since:
                        yield from (record for line in file if (record := _wanted_in(line, wanted)))
            yield from self._rest(wanted)

    def news(self, wanted: AuditFilter) -> list[CallRecord]:
        """Those that came since `latest`, or since the last time."""
        found: list[CallRecord] = []
        self.has_missed = False
        with _told("read", self._path):
            # Looked for first: nothing comes to a file that has one after it.
            while (following := self._following()) is not None:
                found += self._rest(wanted)
                self._turn_to(following)
            found += self._rest(wanted)
        return found

    def notes(self, since: float) -> list[StoreNote]:
        """What happened to the audit itself since then."""
        with _told("read", self._path):
            files = [*_asides(self._path), self._path]
            return [note for file in files for note in _notes(file) if note.at >= since]

    def close(self) -> None:
        self._file.close()

    def _turn_to(self, file: BinaryIO) -> None:
        self._file.close()
        self._file, self._offset = file, 0

    def _following(self) -> BinaryIO | None:
        """The file that was begun after the one that is read, if there is one."""
        current = None
        # There is none between two.
        with suppress(FileNotFoundError):
            current = self._path.open("rb")
            if _inode(current) == _inode(self._file):
                current.close()
                return None
        later: list[Path] = []
        asides = _asides(self._path)
        for aside in reversed(asides):
            with suppress(FileNotFoundError):
                if aside.stat().st_ino == _inode(self._file):
                    self._file_number = _number(aside)
                    break
                later.append(aside)
        for aside in reversed(later):
            with suppress(FileNotFoundError):
                file = aside.open("rb")
                if current is not None:
                    current.close()
                self._go_on(_number(aside))
                return file
        if current is not None:
            self._go_on(_next_number(asides))
        return current

    def _go_on(self, number: int) -> None:
        self.has_missed |= 0 < self._file_number < number - 1
        self._file_number = number

    def _rest(self, wanted: AuditFilter) -> Iterator[CallRecord]:
        """Read on in this file, as far as its lines are whole; those that are wanted."""
        self._file.seek(self._offset)
        for line in self._file:
            # The last one may be written just now.
            if not line.endswith(b"\n"):
                break
            self._offset += len(line)
            if record := _wanted_in(line, wanted):
                yield record


def _inode(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_ino


def _wanted_in(line: bytes, wanted: AuditFilter) -> CallRecord | None:
    # What is left of a line that a killed daemon wrote is none.
    record = None if line.startswith(_NOTE) else _record_in(line)
    return record if record is not None and wanted.admits(record) else None


def _record_in(line: bytes) -> CallRecord | None:
    try:
        return _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _asides(path: Path) -> list[Path]:
    """The files that were put aside, the oldest first."""
    found = path.parent.glob(f"{glob.escape(path.name)}.*")
    return sorted((each for each in found if _ASIDE.fullmatch(_mark(each))), key=_number)


def _mark(aside: Path) -> str:
    return aside.name.rpartition(".")[2]


def _number(aside: Path) -> int:
    """Greater than that of all that were put aside before it; 0 where none was given yet."""
    found = _ASIDE.fullmatch(_mark(aside))
    return int(found[1] or 0) if found else 0


def _next_number(asides: Sequence[Path]) -> int:
    return _number(asides[-1]) + 1 if asides else 1


def _count_records(path: Path) -> int:
    count, before = 0, b"\n"
    with path.open("rb") as file:
        while piece := file.read(_COUNTED_BYTES):
            # A line break stands in no text of JSON.
            count += piece.count(b"\n") - (before + piece).count(b"\n" + _NOTE)
            before = (before + piece)[-len(_NOTE) :]
    return count


def _notes(path: Path) -> Iterator[StoreNote]:
    with suppress(FileNotFoundError), path.open("rb") as file:
        for line in file:
            if line.startswith(_NOTE) and line.endswith(b"\n"):
                with suppress(msgspec.DecodeError, UnicodeDecodeError):
                    yield _decode_note(line)
