import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from tests.client.either import Scripted, answer, hear, say, scripted, wait_for_the_end
from tests.daemon.spawned import Daemon, daemon_on, until
from tooldispatchd.client.blocking import connect, inherit
from tooldispatchd.client.conversation import Call, Verdict
from tooldispatchd.client.errors import ClientError, FaultError
from tooldispatchd.wire.messages import ApproveReq, EventLine

CONFIG = """
[tools.echo]
type = "json -> json"
inline = "id"
[tools.later]
type = "number -> number"
command = ["python3", "-I", "-S", "-c", "import time; x = input(); time.sleep(float(x)); print(x)"]
[tools.stuck]
type = "json -> json"
command = ["sleep", "60"]
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_on(tmp_path_factory.mktemp("blocking"), CONFIG) as daemon:
        yield daemon


def content(found: object) -> object:
    """What a call came to: the value of its answer, or the code of its fault."""
    return found.code if isinstance(found, FaultError) else json.loads(found.content)  # type: ignore[attr-defined]


# --- many calls ---


def test_many_calls_come_back_in_the_order_asked(daemon: Daemon) -> None:
    with connect(str(daemon.path)) as client:
        assert [content(each) for each in client.call_many(Call("echo", n) for n in range(1000))] == [*range(1000)]


def test_a_fault_among_many_calls_is_one_of_their_results(daemon: Daemon) -> None:
    with connect(str(daemon.path)) as client:
        found = client.call_many([Call("echo", 1), Call("none", 2), Call("echo", 3)])
        assert [content(each) for each in found] == [1, "unknown_tool", 3]


def test_no_calls_are_no_results(daemon: Daemon) -> None:
    with connect(str(daemon.path)) as client:
        assert client.call_many([]) == []


def test_calls_come_as_they_end(daemon: Daemon) -> None:
    with connect(str(daemon.path)) as client:
        found = client.as_completed([Call("later", 0.5), Call("echo", "now"), Call("later", 0.1)])
        assert [number for number, _ in found] == [1, 2, 0]


def test_no_more_calls_are_in_flight_than_the_window() -> None:
    def two_at_a_time(played: Scripted) -> None:
        first, second = played.hear(), played.hear()
        played.channel.setblocking(False)
        with pytest.raises(BlockingIOError):
            played.channel.recv(1)
        played.channel.setblocking(True)
        for said in (second, first):
            played.channel.sendall(json.dumps(answer("1") | {"id": said["id"]}).encode() + b"\n")

    with scripted(two_at_a_time, hear("tool_req"), say(answer("3"))) as (played, fds), inherit(*fds) as client:
        assert [content(each) for each in client.call_many([Call("x")] * 3, window=2)] == [1, 1, 3]
    assert played.failed is None


def test_who_leaves_early_cancels_what_still_runs(daemon: Daemon) -> None:
    with connect(str(daemon.path)) as client:
        found = client.as_completed([Call("stuck", 1), Call("echo", "first"), Call("stuck", 2)])
        assert next(found)[0] == 1
        found.close()  # type: ignore[attr-defined]  # it is a generator
        client.ping()
        until(lambda: not daemon.running("60"))


def test_large_calls_in_numbers_do_not_lock_the_two_sides(daemon: Daemon) -> None:
    value = "x" * 200_000
    with connect(str(daemon.path), timeout_s=30) as client:
        found = client.call_many([Call("echo", value)] * 100)
    assert {len(each.content) for each in found if not isinstance(each, FaultError)} == {200_002}


# --- calls that are started ---


def test_started_calls_are_collected_in_any_order(daemon: Daemon) -> None:
    with connect(str(daemon.path)) as client:
        first, second = client.start(Call("later", 0.05)), client.start(Call("echo", 2))
        assert [client.result(second).content, client.result(first).content] == ["2", "0.05"]
        with pytest.raises(ValueError, match="no answer is expected for ticket 1"):
            client.result(first)


def test_a_started_call_can_become_a_job_and_what_waits_can_be_ended(daemon: Daemon) -> None:
    heard: list[EventLine] = []
    with connect(str(daemon.path)) as client:
        client.hello(events=True, order="sequential", on_event=heard.append)
        first, second = client.start(Call("stuck", 1)), client.start(Call("echo", 1))
        client.background(first)
        assert client.result(first).content == '{"job":"job-1"}'
        client.cancel_all(only_waiting=True)
        with pytest.raises(FaultError, match="cancelled"):
            client.result(second)
        assert client.call("job_stop", {"job": "job-1"}).content
    assert [event.kind for event in heard[:2]] == ["tool_started", "tool_finished"]


def test_a_started_call_can_be_cancelled(daemon: Daemon) -> None:
    with connect(str(daemon.path)) as client:
        ticket = client.start(Call("stuck", 1))
        client.cancel(ticket)
        with pytest.raises(FaultError) as raised:
            client.result(ticket)
    assert (raised.value.code, raised.value.ran, raised.value.retryable) == ("cancelled", "maybe", False)


# --- no wait without an end ---


def drip(played: Scripted) -> None:
    """One byte of a line that never ends, again and again."""
    try:
        while True:
            played.channel.sendall(b" ")
            time.sleep(0.01)
    except OSError:
        pass


def flood(played: Scripted) -> None:
    """Updates without an end."""
    played.hear()
    try:
        while True:
            played.channel.sendall(b'{"__port":"tool_update","id":"1"}\n' * 100)
    except OSError:
        pass


@pytest.mark.parametrize("silence", [wait_for_the_end, drip, flood])
def test_a_daemon_that_does_not_answer_is_waited_for_no_longer_than_said(silence: object, nothing_left: None) -> None:
    with scripted(silence) as (_, fds), inherit(*fds, timeout_s=0.2) as client:  # type: ignore[arg-type]
        began = time.monotonic()
        with pytest.raises(ClientError, match=r"the daemon did not answer within 0\.2 s"):
            client.call("slow")
        assert time.monotonic() - began < 5


def test_a_daemon_that_does_not_read_is_waited_for_no_longer_than_said(nothing_left: None) -> None:
    held = threading.Event()
    with scripted(lambda _: held.wait()) as (_, fds), inherit(*fds, timeout_s=0.2) as client:
        with pytest.raises(ClientError, match="did not answer"):
            client.call("slow", "x" * 5_000_000)
        held.set()


def test_an_answer_that_comes_too_late_is_nobodys() -> None:
    late = answer("late") | {"id": "1"}
    script = (hear("tool_req"), hear("tool_cancel", id="1"), hear("tool_req"), say(late, answer("mine")))
    with scripted(*script) as (played, fds), inherit(*fds, timeout_s=0.2) as client:
        with pytest.raises(ClientError):
            client.call("slow")
        assert client.call("fast").content == "mine"
    assert played.failed is None


def test_what_the_daemon_said_before_it_stopped_reading_is_heard() -> None:
    said = b'{"__port":"tool_resp","id":"1","content":"heard","is_error":false}\n'
    answers, requests = os.pipe(), os.pipe()
    os.close(requests[0])
    os.write(answers[1], said)
    os.close(answers[1])
    with inherit(answers[0], requests[1]) as client:
        assert client.call("x").content == "heard"
        with pytest.raises(ClientError, match="cannot write to the daemon: Broken pipe"):
            client.call("x")


def test_a_closed_client_says_so() -> None:
    with scripted(wait_for_the_end) as (_, fds):
        client = inherit(*fds)
        client.close()
        client.close()
        with pytest.raises(ClientError, match="the channel is closed"):
            client.ping()


# --- callbacks ---

READY = {"__port": "ready", "profile": "p", "protocol": 1, "tools": [], "warnings": []}
APPROVE = {"__port": "approve_req", "id": "q1", "name": "shell", "input": {}, "reason": "asks"}


def test_a_callback_that_raises_has_approved_nothing() -> None:
    def approve(asked: ApproveReq) -> Verdict:
        raise ZeroDivisionError(asked.name)

    script = (
        *(hear("hello"), say(READY), hear("tool_req"), say(APPROVE), hear("approve_resp", allow=False)),
        *(hear("tool_cancel", id="2"), hear("ping"), say({"__port": "pong", "t": 3})),
    )
    with scripted(*script) as (played, fds), inherit(*fds) as client:
        client.hello(on_approve=approve)
        with pytest.raises(ZeroDivisionError):
            client.call("shell")
        client.ping()
    assert played.failed is None


def test_a_callback_may_call_a_tool_itself() -> None:
    script = (
        *(hear("hello"), say(READY), hear("tool_req", name="shell"), say(APPROVE), hear("tool_req", name="ask")),
        *(say(answer("yes")), hear("approve_resp", allow=True), say(answer("done") | {"id": "2"})),
    )
    with scripted(*script) as (played, fds), inherit(*fds) as client:
        client.hello(on_approve=lambda _: Verdict(allow=client.call("ask").content == "yes"))
        assert client.call("shell").content == "done"
    assert played.failed is None


# --- what it stands on ---


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("blocking", ("trio", "jsonschema_rs", "httpx2", "asyncio", "tooldispatchd.catalog")),
        ("concurrent", ("jsonschema_rs", "httpx2", "tooldispatchd.catalog", "tooldispatchd.front")),
    ],
)
def test_a_client_imports_no_more_than_it_says(module: str, unwanted: tuple[str, ...]) -> None:
    code = f"import sys, tooldispatchd.client.{module}; print([name for name in {unwanted!r} if name in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True)
    assert ended.stdout == "[]\n"
