"""Jobs: what is kept, what is forgotten, and who is told."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.calls.jobs import JOB_COST_BYTES, Job, Jobs
from tooldispatchd.calls.memory import Memory
from tooldispatchd.calls.outcome import Answer, Update
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import Beside, ContentKind, QuotedText
from tooldispatchd.wire.session import beside_fault

SHARE = Memory(1 << 40).share(0)


def kept(max_jobs: int = 10, room: int = 1000) -> Jobs:
    return Jobs(SHARE, max_jobs=max_jobs, max_bytes=max_jobs * JOB_COST_BYTES + room)


def opened(jobs: Jobs, name: str = "search") -> Job:
    job = jobs.open(name)
    assert job is not None
    return job


def test_a_job_is_running_until_it_is_done() -> None:
    jobs = kept()
    job = opened(jobs)
    assert jobs.show(job) == {"job": "job-1", "name": "search", "state": "running"}
    jobs.finish(job, Answer("found", is_error=False))
    assert jobs.list() == [
        {"job": "job-1", "name": "search", "state": "done", "is_error": False, "is_read": False},
    ]
    assert jobs.show(job)["content"] == "found"


def test_a_running_job_tells_the_last_thing_that_it_said() -> None:
    jobs = kept()
    job = opened(jobs)
    job.update = Update(progress=3, message="counting")
    assert jobs.show(job) == {
        "job": "job-1",
        "name": "search",
        "state": "running",
        "progress": 3,
        "message": "counting",
    }


def test_who_waits_is_told_once() -> None:
    jobs = kept()
    job = opened(jobs)
    told: list[str] = []
    job.waiters.append(lambda: told.append(job.id))
    jobs.finish(job, Answer(""))
    assert told == ["job-1"]
    assert job.waiters == []


def test_a_fault_is_a_result_too() -> None:
    jobs = kept()
    job = opened(jobs)
    jobs.finish(job, Fault(Code.CANCELLED, "stopped"))
    read = jobs.show(job)
    assert (read["is_error"], read["fault"]) == (True, True)
    assert read["content"] == '{"error":"cancelled","category":"unavailable","detail":"stopped"}'


def test_a_fault_of_a_job_whose_agent_wants_texts_is_one() -> None:
    jobs = kept(max_jobs=1, room=10)
    fault = Fault(Code.CANCELLED, "stopped")
    job = opened(jobs)
    jobs.finish(job, fault, beside_fault(fault, ContentKind.TEXT, None))
    read = jobs.show(job)
    assert (read["content"], read["kind"]) == ("cancelled: stopped", "text")
    assert read["value"] == msgspec.Raw(fault.content().encode())
    job.is_read = True
    jobs.finish(job := opened(jobs), Answer("x" * 20), Beside(kind=ContentKind.TEXT))
    assert str(jobs.show(job)["content"]).startswith("tool_failed: the result does not fit")


def test_an_unread_result_is_never_dropped_and_a_new_job_is_refused_instead() -> None:
    jobs = kept(max_jobs=1)
    job = opened(jobs)
    jobs.finish(job, Answer("unread"))
    assert jobs.open("search") is None
    job.is_read = True
    assert opened(jobs).id == "job-2"
    assert jobs.get("job-1") is None


def test_results_that_were_read_make_room_oldest_first() -> None:
    jobs = kept(room=1000)
    first, second = opened(jobs), opened(jobs)
    for job in (first, second):
        jobs.finish(job, Answer("x" * 400))
        job.is_read = True
    third = opened(jobs)
    # What the places of jobs that are not open leave is room too.
    jobs.finish(third, Answer("x" * (1000 + 7 * JOB_COST_BYTES - 700)))
    assert (jobs.get("job-1"), jobs.get("job-2")) == (None, second)


def test_a_result_without_room_is_a_fault_that_says_so() -> None:
    jobs = kept(max_jobs=1, room=10)
    job = opened(jobs)
    jobs.finish(job, Answer("é" * 6))
    assert isinstance(job.outcome, Fault)
    assert job.outcome.extras == {"limit": "job_bytes", "ran": "maybe"}


def test_what_a_result_holds_is_let_go_of_however_its_job_ends() -> None:
    let_go: list[object] = []
    share = Memory(1 << 40, let_go=let_go.append).share(0)
    jobs = Jobs(share, max_jobs=2, max_bytes=1 << 20)
    read, unread, failed = opened(jobs), opened(jobs), Fault(Code.CANCELLED, "stopped")
    jobs.finish(read, Answer("s" * 5000, value="5" * 6000))
    jobs.finish(unread, Answer(QuotedText(b'"long"' * 1000, 4), blocks=QuotedText(b"[{}]" * 2000, 4)))
    read.is_read = True
    jobs.finish(opened(jobs), failed)
    assert let_go == ["s" * 5000, "5" * 6000]
    jobs.close()
    assert let_go == ["s" * 5000, "5" * 6000, b'"long"' * 1000, b"[{}]" * 2000]
    assert (len(jobs), share.held) == (0, 0)


def test_however_many_tiny_results_are_forgotten_none_waits_to_be_freed() -> None:
    let_go: list[object] = []
    jobs = Jobs(Memory(1 << 40, let_go=let_go.append).share(0), max_jobs=2, max_bytes=1 << 20)
    for _ in range(10_000):
        job = opened(jobs)
        jobs.finish(job, Answer("", value='"x"'))
        job.is_read = True
    assert let_go == []


@given(st.lists(st.tuples(st.sampled_from(["open", "finish", "read"]), st.integers(0, 300)), max_size=60))
def test_what_is_kept_stays_within_its_bounds_and_unread_results_stay(steps: list[tuple[str, int]]) -> None:
    jobs = Jobs(SHARE, max_jobs=5, max_bytes=5 * JOB_COST_BYTES + 500)
    unread: list[Job] = []
    running: list[Job] = []
    for step, size in steps:
        if step == "open":
            job = jobs.open("t")
            running += [] if job is None else [job]
        elif step == "finish" and running:
            job = running.pop(0)
            jobs.finish(job, Answer("x" * size))
            unread.append(job)
        elif step == "read" and unread:
            unread.pop(size % len(unread)).is_read = True
        assert len(list(jobs)) <= 5
        assert sum(job.size for job in jobs) <= 5 * JOB_COST_BYTES + 500
        assert all(jobs.get(job.id) is job for job in [*running, *unread])
