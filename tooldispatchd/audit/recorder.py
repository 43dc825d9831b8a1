"""Takes the calls that have ended and has one thread write them, in batches, off the way of the calls.

    put ──▶ queue ──▶ thread: record, hash, mask ──▶ store, one transaction a batch

The queue is bounded in calls and in bytes. What does not fit, or cannot be written before the daemon ends, is lost, and
counted: the log says so, and so does a note in the store. So it is with what the store removes to have room for more.
While the store fails its batch is tried again and again.
"""

import math
import os
import random
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Final, Literal, Protocol

from tooldispatchd.audit.record import MAX_PAYLOAD, AuditStoreError, CallRecord, StoreNote, record_of
from tooldispatchd.calls.backoff import Backoff
from tooldispatchd.calls.endedcall import EndedCall, StoreFailure
from tooldispatchd.catalog.masker import Masker

# Over a second of what the store takes.
MAX_QUEUED: Final = 65_536
# Of inputs above all: eight of the longest lines.
MAX_QUEUED_BYTES: Final = 64 * 1024 * 1024
BATCH: Final = 4_096
# Of payloads: the store is over its bound by a batch at most.
BATCH_BYTES: Final = 1024 * 1024
# Calls come together in the meantime; and who follows the store sees them soon.
GATHER_S: Final = 0.1
TIDY_S: Final = 60.0
# What is queued at the end is written in that time. The rest of a daemon's end is counted beside it.
FLUSH_S: Final = 1.0
LATE: Final = "the store has not taken them in time"
ENDED: Final = "a defect: calls are not recorded any more"
UNCLOSED: Final = "it was killed: its last records, of some tenth of a second as a rule, are missing"
FULL: Final = "the oldest ones, for audit.max_bytes has no room for all of audit.keep"


class AuditStore(Protocol):
    """Each method but `close` raises `AuditStoreError`.

    `removed` counts the records that `write` has taken away before their time, to have room for more.
    """

    removed: int

    def write(self, records: Sequence[CallRecord], notes: Sequence[StoreNote]) -> None: ...
    def unclosed(self) -> list[tuple[str, int]]: ...
    def tidy(self, now: float) -> None: ...
    def close(self) -> None: ...


class AuditLog(Protocol):
    """The daemon's log, as the thread uses it."""

    def warning(self, event: str, **fields: object) -> object: ...


class Recorder:
    """The `AuditSink` of the daemon; `open_recorder` makes it."""

    def __init__(self, store: AuditStore, log: AuditLog, *, run: str, masker: Masker, payloads: bool) -> None:
        self._has_payloads = payloads
        self._store = store
        self._log = log
        self._run = run
        self._masker = masker
        self._queue: deque[EndedCall] = deque()
        # Each is counted by one thread alone. A settled record is in the store, or in a note of lost ones.
        self._given = self._settled = 0
        self._put_bytes = self._taken_bytes = 0
        self._refused = self._dropped = 0
        # Set by the writer, and read by whoever asks how it does.
        self.failure: StoreFailure | None = None
        # Of both together, what is in a note, and what is in the log.
        self._noted = self._logged = 0
        # Of what the store has removed, the same.
        self._noted_removed = self._logged_removed = 0
        self._tidied_at = -math.inf
        self._is_asleep = False
        self._is_closing = False
        self._woken, self._closing = Event(), Event()
        self._thread = Thread(target=self._work, name="audit", daemon=True)

    # --- in the loop's thread ---

    @property
    def payload_chars(self) -> int:
        """As much of an answer as is recorded, and of what a secret in it may reach over; 0 for nothing."""
        return MAX_PAYLOAD + self._masker.longest if self._has_payloads else 0

    def put(self, ended: EndedCall) -> None:
        """Have the call recorded."""
        size = _size_of(ended)
        self._given += 1
        if len(self._queue) >= MAX_QUEUED or self._put_bytes - self._taken_bytes + size > MAX_QUEUED_BYTES:
            self._refused += 1
        else:
            self._put_bytes += size
            self._queue.append(ended)
        if self._is_asleep:
            self._is_asleep = False
            self._woken.set()

    @property
    def waiting(self) -> int:
        """How many are neither written nor lost, those included that the writer has in its hand."""
        return max(0, self._given - self._refused - self._dropped - (self._settled - self._noted))

    @property
    def lost(self) -> int:
        """How many there was no room for."""
        return self._refused

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Have the rest written, within `FLUSH_S`."""
        self._is_closing = True
        self._closing.set()
        self._woken.set()
        self._thread.join(FLUSH_S)
        # What the store has no note of may be in the log.
        left = self._given - self._settled - (self._logged - self._noted)
        if left:
            self._log.warning("audit records lost", count=left, detail=LATE)

    # --- in the writer's ---

    def _work(self) -> None:
        has_ended = False
        try:
            self._write([], self._opening())
            while not (self._is_closing and not self._queue):
                self._wait()
                while self._queue:
                    self._write_batch()
                    self._tidy()
                self._tidy()
            self._write([], [*self._missing(), self._note("closed")])
            self._log_removed()
            self._store.close()
            has_ended = True
        finally:
            if not has_ended:
                self._log.warning("audit ended", detail=ENDED)
                self.failure = StoreFailure(round(time.time(), 3), ENDED)

    def _wait(self) -> None:
        """Until there is something to write, and then for what comes with it."""
        self._is_asleep = True
        # What came before it was said that this sleeps has woken nobody.
        if not self._queue and not self._is_closing and self._refused + self._dropped == self._noted:
            self._woken.wait(TIDY_S)
        self._woken.clear()
        self._is_asleep = False
        self._closing.wait(GATHER_S)

    def _write_batch(self) -> None:
        queue, size, payload_chars = self._queue, 0, 0
        records: list[CallRecord] = []
        while queue and len(records) < BATCH and payload_chars < BATCH_BYTES:
            ended = queue.popleft()
            size += _size_of(ended)
            record = record_of(ended, self._run, self._masker)
            payload_chars += len(record.input or "") + len(record.output or "")
            records.append(record)
        self._taken_bytes += size
        if not self._write(records, self._missing()):
            self._dropped += len(records)

    def _write(self, records: Sequence[CallRecord], notes: Sequence[StoreNote]) -> bool:
        """Whether they are in the store: else the daemon ends."""
        lost = sum(note.count or 0 for note in notes if note.event == "lost")
        removed = self._store.removed
        backoff, has_failed = Backoff(), False
        while True:
            self._log_lost()
            try:
                self._store.write(records, notes)
            except AuditStoreError as error:
                self._fail(error, is_told=has_failed)
                has_failed = True
                if self._closing.wait(backoff.wait_s(0.0, random.random())):  # noqa: S311  # it hides nothing
                    return False
            else:
                self.failure = None
                self._noted += lost
                self._noted_removed = removed
                self._settled += len(records) + lost
                return True

    def _missing(self) -> list[StoreNote]:
        """Notes of what had no room, or no time, since the last one, and of all that was removed."""
        lost, removed = self._refused + self._dropped - self._noted, self._store.removed
        return [
            *([self._note("lost", lost)] if lost else []),
            *([self._note("removed", removed)] if removed > self._noted_removed else []),
        ]

    def _log_lost(self) -> None:
        count = self._refused + self._dropped - self._logged
        if count:
            self._logged += count
            self._log.warning("audit records lost", count=count, detail=LATE)

    def _log_removed(self) -> None:
        count = self._store.removed - self._logged_removed
        if count:
            self._logged_removed += count
            self._log.warning("audit records removed", count=count, detail=FULL)

    def _opening(self) -> list[StoreNote]:
        notes = []
        try:
            for run, pid in self._store.unclosed():
                if not _is_running(pid):
                    self._log.warning("audit store not closed", run=run, detail=UNCLOSED)
                    notes.append(StoreNote(event="unclosed", at=time.time(), run=run, pid=pid))
        except AuditStoreError as error:
            self._fail(error)
        return [*notes, self._note("opened")]

    def _note(self, event: Literal["opened", "closed", "lost", "removed"], count: int | None = None) -> StoreNote:
        return StoreNote(event=event, at=round(time.time(), 3), run=self._run, pid=os.getpid(), count=count)

    def _tidy(self) -> None:
        if time.monotonic() < self._tidied_at + TIDY_S:
            return
        self._tidied_at = time.monotonic()
        self._log_removed()
        try:
            self._store.tidy(time.time())
        except AuditStoreError as error:
            self._fail(error)

    def _fail(self, error: AuditStoreError, *, is_told: bool = False) -> None:
        since = round(time.time(), 3) if self.failure is None else self.failure.since
        self.failure = StoreFailure(since, str(error))
        if not is_told:
            self._log.warning("audit store failed", detail=str(error))


def _size_of(ended: EndedCall) -> int:
    return len(ended.input or b"") + len(ended.content or "") + len(ended.details or b"")


def _is_running(pid: int) -> bool:
    """Whether there is such a process; another one may have its number by now, as this one has in a container."""
    return pid != os.getpid() and Path(f"/proc/{pid}").exists()


@contextmanager
def open_recorder(store: AuditStore, log: AuditLog, *, run: str, masker: Masker, payloads: bool) -> Iterator[Recorder]:
    """Open a recorder; it writes all that it was given when the context ends, within `FLUSH_S`."""
    recorder = Recorder(store, log, run=run, masker=masker, payloads=payloads)
    recorder.start()
    try:
        yield recorder
    finally:
        recorder.close()
