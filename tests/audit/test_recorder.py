"""Calls are written by one thread, in batches; what has no room is counted, and the end is waited for only so long."""

import os
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Final

from tests.audit.test_record import ended
from tooldispatchd.audit.record import AuditStoreError, CallRecord, StoreNote
from tooldispatchd.audit.recorder import MAX_QUEUED, MAX_QUEUED_BYTES, Recorder, open_recorder
from tooldispatchd.catalog.masker import NO_SECRETS

SOON_S: Final = 10.0


class Shelf:
    """A store in memory, which a test may close for a while."""

    def __init__(self, *, left: Sequence[tuple[str, int]] = ()) -> None:
        self.batches: list[list[CallRecord]] = []
        self.notes: list[StoreNote] = []
        self.is_broken = False
        self.has_room = True
        self.free = threading.Event()
        self.free.set()
        self.written = threading.Event()
        self.is_closed = False
        self.removed = 0
        self._left = list(left)

    def write(self, records: Sequence[CallRecord], notes: Sequence[StoreNote]) -> None:
        self.free.wait(SOON_S)
        if self.is_broken or (records and not self.has_room):
            raise AuditStoreError("cannot write to it: no space")
        self.notes += notes
        if records:
            self.batches.append(list(records))
            self.written.set()

    def unclosed(self) -> list[tuple[str, int]]:
        return self._left

    def tidy(self, now: float) -> None:
        """Nothing is old."""

    def close(self) -> None:
        self.is_closed = True

    @property
    def records(self) -> list[CallRecord]:
        return [record for batch in self.batches for record in batch]


class Warnings:
    def __init__(self) -> None:
        self.said: list[tuple[str, object]] = []

    def warning(self, event: str, **fields: object) -> None:
        self.said.append((event, fields.get("count")))


def recording(shelf: Shelf, log: Warnings) -> AbstractContextManager[Recorder]:
    return open_recorder(shelf, log, run="run", masker=NO_SECRETS, payloads=False)


def told(shelf: Shelf) -> list[tuple[str, int | None]]:
    return [(note.event, note.count) for note in shelf.notes]


def test_all_that_is_put_is_written_by_the_end() -> None:
    shelf, log = Shelf(), Warnings()
    with recording(shelf, log) as recorder:
        for number in range(10_000):
            recorder.put(ended(id=str(number)))
    assert [record.call for record in shelf.records] == [str(number) for number in range(10_000)]
    assert len(shelf.batches) < 20
    assert told(shelf) == [("opened", None), ("closed", None)]
    assert shelf.is_closed
    assert log.said == []


def test_a_call_is_written_soon_though_nothing_follows() -> None:
    shelf = Shelf()
    with recording(shelf, Warnings()) as recorder:
        for _ in range(3):
            recorder.put(ended())
            assert shelf.written.wait(SOON_S)
            shelf.written.clear()


def test_what_has_no_room_is_counted_in_the_log_and_in_the_store() -> None:
    shelf, log = Shelf(), Warnings()
    with recording(shelf, log) as recorder:
        recorder.put(ended())
        assert shelf.written.wait(SOON_S)
        shelf.free.clear()
        one = ended()
        for _ in range(MAX_QUEUED + 4_096 + 10):
            recorder.put(one)
        shelf.free.set()
        while recorder.waiting:
            time.sleep(0.01)
    lost = 1 + MAX_QUEUED + 4_096 + 10 - len(shelf.records)
    # The writer may have had a batch in its hand.
    assert 10 <= lost <= 4_096 + 10
    assert ("lost", lost) in told(shelf)
    assert ("audit records lost", lost) in log.said


def test_inputs_that_wait_have_a_bound_together() -> None:
    shelf, log = Shelf(), Warnings()
    large = ended(input=b'"' + b"x" * (MAX_QUEUED_BYTES // 4) + b'"')
    shelf.free.clear()
    with recording(shelf, log) as recorder:
        for _ in range(5):
            recorder.put(large)
        shelf.free.set()
    assert len(shelf.records) == 3
    assert ("lost", 2) in told(shelf)


def test_a_store_that_fails_is_tried_again_and_told_once() -> None:
    shelf, log = Shelf(), Warnings()
    with recording(shelf, log) as recorder:
        recorder.put(ended())
        assert shelf.written.wait(SOON_S)
        shelf.is_broken = True
        recorder.put(ended(id="late"))
        while not log.said:
            threading.Event().wait(0.01)
        failure, waiting = recorder.failure, recorder.waiting
        assert failure is not None
        shelf.is_broken = False
        shelf.written.clear()
        assert shelf.written.wait(SOON_S)
        while recorder.waiting:
            threading.Event().wait(0.01)
        assert recorder.failure is None
    assert [record.call for record in shelf.records] == ["1", "late"]
    assert (failure.why, waiting) == ("cannot write to it: no space", 1)
    assert abs(time.time() - failure.since) < SOON_S
    assert log.said == [("audit store failed", None)]


def test_at_the_end_a_store_that_fails_costs_what_is_left_and_the_log_says_so() -> None:
    shelf, log = Shelf(), Warnings()
    with recording(shelf, log) as recorder:
        shelf.is_broken = True
        recorder.put(ended())
    assert ("audit records lost", 1) in log.said
    # It knows nothing of its end, and the next run tells it.
    assert told(shelf) == [("opened", None)]


def test_what_was_given_up_at_the_end_is_noted_where_that_can_be() -> None:
    shelf, log = Shelf(), Warnings()
    with recording(shelf, log) as recorder:
        shelf.has_room = False
        recorder.put(ended())
    assert told(shelf) == [("opened", None), ("lost", 1), ("closed", None)]
    assert log.said == [("audit store failed", None), ("audit records lost", 1)]


def test_a_run_that_was_not_closed_is_told_of_once_its_process_is_gone() -> None:
    gone, parent = 2**22 + 1, os.getppid()
    shelf, log = Shelf(left=[("dead", gone), ("alive", parent), ("elsewhere", gone)]), Warnings()
    with recording(shelf, log):
        pass
    assert [(note.event, note.run, note.count) for note in shelf.notes] == [
        ("unclosed", "dead", None),
        ("unclosed", "elsewhere", None),
        ("opened", "run", None),
        ("closed", "run", None),
    ]
    assert log.said == [("audit store not closed", None), ("audit store not closed", None)]


def test_what_the_store_removes_is_told_in_the_log_and_in_the_store() -> None:
    shelf, log = Shelf(), Warnings()
    with recording(shelf, log) as recorder:
        shelf.removed = 7
        recorder.put(ended())
        assert shelf.written.wait(SOON_S)
        shelf.removed = 12
    assert told(shelf) == [("opened", None), ("removed", 7), ("removed", 12), ("closed", None)]
    assert sum(count for event, count in log.said if event == "audit records removed") == 12  # type: ignore[misc]


def test_large_payloads_make_a_batch_of_fewer_records() -> None:
    shelf = Shelf()
    payload = '"' + "x" * 16_000 + '"'
    with recording(shelf, Warnings()) as recorder:
        for _ in range(200):
            recorder.put(ended(content=payload, input=payload.encode()))
    assert len(shelf.records) == 200
    assert max(map(len, shelf.batches)) < 50
