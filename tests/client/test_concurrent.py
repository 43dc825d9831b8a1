import json
import os
from collections.abc import Callable, Iterator

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MemoryReceiveStream, MemorySendStream, memory_stream_pair, wait_all_tasks_blocked

from tests.daemon.spawned import PATIENCE_S, Daemon, daemon_on
from tooldispatchd.client.concurrent import Client, connect, converse, inherit
from tooldispatchd.client.conversation import Verdict
from tooldispatchd.client.errors import ClientError, FaultError
from tooldispatchd.client.exchange import MAX_UNSENT_BYTES
from tooldispatchd.wire.messages import ApproveReq, EventLine

CONFIG = """
[tools.echo]
type = "json -> json"
inline = "id"
[tools.stuck]
type = "json -> json"
command = ["sleep", "60"]
"""

READY = b'{"__port":"ready","profile":"p","protocol":1,"tools":[],"warnings":[]}\n'
APPROVE = b'{"__port":"approve_req","id":"q","name":"n","input":{},"reason":"r"}\n'
Stapled = trio.StapledStream[MemorySendStream, MemoryReceiveStream]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_on(tmp_path_factory.mktemp("concurrent"), CONFIG) as daemon:
        yield daemon


async def eventually(is_true: Callable[[], bool]) -> None:
    """Wait until it is so; a thread that waits would outlive the test by some seconds."""
    with trio.fail_after(PATIENCE_S):
        while not is_true():
            await trio.sleep(0.01)


async def heard(stream: Stapled) -> list[dict[str, object]]:
    """All that the client has said until now, and nothing is on its way any more."""
    await wait_all_tasks_blocked()
    return [json.loads(line) for line in (await stream.receive_some()).splitlines()]


def resp(call_id: object, content: str = "done") -> bytes:
    said = {"__port": "tool_resp", "id": str(call_id), "content": content, "is_error": False}
    return json.dumps(said).encode() + b"\n"


# --- with a daemon ---


async def test_a_call_that_an_event_names_becomes_a_job_and_then_all_is_ended(
    daemon: Daemon, nothing_left: None
) -> None:
    heard: list[EventLine] = []
    async with connect(str(daemon.path)) as client, trio.open_nursery() as nursery:
        await client.hello(events=["tool_started", "job_done"], order="sequential", on_event=heard.append)
        said: list[str] = []

        async def call_stuck() -> None:
            said.append((await client.call("stuck", 1)).content)

        nursery.start_soon(call_stuck)
        await eventually(lambda: len(heard) == 1)
        assert (heard[0].kind, heard[0].tool) == ("tool_started", "stuck")
        await client.background(heard[0].id or "")
        await eventually(lambda: said == ['{"job":"job-1"}'])
        await client.cancel_all()
        await eventually(lambda: len(heard) == 2)
        assert (heard[1].kind, heard[1].job, heard[1].code) == ("job_done", "job-1", "cancelled")


async def test_calls_of_many_tasks_share_the_channel_and_none_gets_anothers_answer(
    daemon: Daemon, nothing_left: None
) -> None:
    found: dict[int, str] = {}

    async def call(client: Client, number: int) -> None:
        found[number] = (await client.call("echo", number)).content

    async with connect(str(daemon.path)) as client, trio.open_nursery() as nursery:
        for number in range(500):
            nursery.start_soon(call, client, number)
    assert found == {number: str(number) for number in range(500)}


async def test_cancelling_the_task_that_awaits_a_call_cancels_it_in_the_daemon(daemon: Daemon) -> None:
    async with connect(str(daemon.path)) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call, "stuck", 1)
            await eventually(lambda: bool(daemon.running("60")))
            nursery.cancel_scope.cancel()
        await client.ping()
        await eventually(lambda: not daemon.running("60"))
        assert (await client.call("echo", 1)).content == "1"


async def test_a_fault_leaves_the_channel_as_it_was_raised(daemon: Daemon) -> None:
    with pytest.raises(FaultError, match="unknown_tool"):
        async with connect(str(daemon.path)) as client:
            await client.call("none")


# --- over memory ---


async def test_who_is_cancelled_says_so_and_its_late_answer_is_nobodys() -> None:
    ours, theirs = memory_stream_pair()
    async with converse(ours) as client:
        with trio.move_on_after(0.01) as scope:
            await client.call("slow")
        assert scope.cancelled_caught
        assert [said["__port"] for said in await heard(theirs)] == ["tool_req", "tool_cancel"]
        await theirs.send_all(resp(1, "late"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(theirs.send_all, resp(2, "mine"))
            assert (await client.call("fast")).content == "mine"


async def test_the_end_of_the_channel_fails_every_call_that_waits_at_once() -> None:
    failed: list[str] = []

    async def call(client: Client) -> None:
        with pytest.raises(ClientError) as raised:
            await client.call("slow")
        failed.append(str(raised.value))

    ours, theirs = memory_stream_pair()
    async with converse(ours) as client:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(call, client)
            await heard(theirs)
            await theirs.aclose()
        await call(client)
    assert failed == [
        *["the daemon closed the channel; the call may have run, and is not sent again"] * 5,
        "the daemon closed the channel",
    ]


async def test_a_client_that_has_been_left_says_so() -> None:
    ours, _theirs = memory_stream_pair()
    async with converse(ours) as client:
        pass
    with pytest.raises(ClientError, match="the channel is closed"):
        await client.ping()


async def test_what_a_callback_raises_ends_the_channel() -> None:
    async def approve(asked: ApproveReq) -> Verdict:
        raise ZeroDivisionError(asked.name)

    ours, theirs = memory_stream_pair()

    async def hello_and_call() -> None:
        async with converse(ours) as client, trio.open_nursery() as nursery:
            nursery.start_soon(_say_when_asked, theirs, READY + APPROVE)
            await client.hello(on_approve=approve)
            nursery.start_soon(client.call, "slow")

    with pytest.raises(ZeroDivisionError):
        await hello_and_call()


async def _say_when_asked(stream: Stapled, lines: bytes) -> None:
    await stream.receive_some()
    await stream.send_all(lines)


async def test_a_person_who_thinks_holds_up_nobody() -> None:
    thought = trio.Event()

    async def approve(asked: ApproveReq) -> Verdict:
        await thought.wait()
        return Verdict(allow=True)

    ours, theirs = memory_stream_pair()
    async with converse(ours) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_say_when_asked, theirs, READY + APPROVE)
            await client.hello(on_approve=approve)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(theirs.send_all, resp(2, "meanwhile"))
            assert (await client.call("fast")).content == "meanwhile"
        thought.set()
        assert [said["__port"] for said in await heard(theirs)] == ["tool_req", "approve_resp"]


async def test_a_daemon_that_does_not_read_holds_up_who_speaks_and_not_the_memory() -> None:
    read_fd, write_fd = os.pipe()
    answers = os.pipe()
    async with inherit(answers[0], write_fd) as client, trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(client.call, "x", "y" * 100_000)
        await wait_all_tasks_blocked(0.05)
        assert client._renewal.exchange.conversation.unsent_bytes <= MAX_UNSENT_BYTES + 200_000
        nursery.cancel_scope.cancel()
    for fd in (read_fd, answers[1]):
        os.close(fd)


async def test_what_the_daemon_said_before_it_stopped_reading_is_heard(nothing_left: None) -> None:
    answers, requests = os.pipe(), os.pipe()
    os.close(requests[0])
    async with inherit(answers[0], requests[1]) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_answer_and_end, answers[1])
            assert (await client.call("x")).content == "heard"
        with pytest.raises(ClientError, match="cannot write to the daemon: Broken pipe"):
            await client.call("x")


async def _answer_and_end(fd: int) -> None:
    await wait_all_tasks_blocked(0.01)
    os.write(fd, resp(1, "heard"))
    os.close(fd)


# --- any schedule ---


@given(st.random_module(), st.lists(st.sampled_from(["answer", "cancel", "both"]), min_size=1, max_size=8))
def test_whatever_the_schedule_every_call_ends_once(schedule: object, ends: list[str]) -> None:
    found: dict[int, str] = {}

    async def call(client: Client, number: int, scope: trio.CancelScope) -> None:
        found[number] = "cancelled"
        with scope:
            found[number] = (await client.call("x", number)).content

    async def answer(stream: Stapled, call_id: object, number: int) -> None:
        await trio.lowlevel.checkpoint()
        stream.receive_stream.put_data(resp(call_id, f"answer {number}"))

    async def cancel(scope: trio.CancelScope) -> None:
        await trio.lowlevel.checkpoint()
        scope.cancel()

    async def play() -> None:
        ours, theirs = memory_stream_pair()
        async with converse(ours) as client, trio.open_nursery() as nursery:
            scopes = [trio.CancelScope() for _ in ends]
            for number, scope in enumerate(scopes):
                nursery.start_soon(call, client, number, scope)
            asked = {said["input"]: said["id"] for said in await heard(theirs)}
            for number, end in enumerate(ends):
                if end != "cancel":
                    nursery.start_soon(answer, ours, asked[number], number)
                if end != "answer":
                    nursery.start_soon(cancel, scopes[number])

    trio.run(play)
    for number, end in enumerate(ends):
        assert (
            found[number]
            in {
                "answer": {f"answer {number}"},
                "cancel": {"cancelled"},
                "both": {f"answer {number}", "cancelled"},
            }[end]
        )
