"""How a connection ends; and two servers that people use."""

import json
import sys

import msgspec
import pytest
import trio
import trio.testing

from tests.processes import is_running
from tests.providers.mcp.connecting import (
    DEFAULT,
    ECHO,
    MIB,
    SERVERS,
    Waiting,
    begin,
    connecting,
    gone,
    misbehaving,
    plain,
    settled,
)
from tooldispatchd.calls.connection import ConnectionState
from tooldispatchd.calls.outcome import Answer, Outcome
from tooldispatchd.providers.mcp.answers import PendingCall
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import ContentKind

# Answers `initialize` and `tools/list`, and is gone in the same breath.
LAST_WORDS = """
import json, sys
tool = {"name": "echo", "inputSchema": {"type": "object"}}
hello = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "initialize":
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": hello}), flush=True)
    if asked["method"] == "tools/list":
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {"tools": [tool]}}), flush=True)
        sys.exit(5)
"""


@pytest.mark.parametrize("whitelist", [None, ("other",)])
async def test_a_server_that_lists_its_tools_and_dies_never_came_up_or_died_open(
    whitelist: tuple[str, ...] | None,
) -> None:
    # Whether its end is seen with its last answer or after it is the scheduler's; both are ordinary ends.
    argv = (sys.executable, "-I", "-S", "-c", LAST_WORDS)
    for _ in range(8):
        async with settled(msgspec.structs.replace(DEFAULT, argv=argv, whitelist=whitelist)) as session:
            await session.end()
            assert session.fault().code in {Code.SERVER_UNAVAILABLE, Code.CONNECTION_DEAD, Code.MISSING_TOOL}
            if session.fault().code is not Code.MISSING_TOOL:
                assert session.fault().extras["reason"] == "it exited with code 5"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"exit": 7}, "it exited with code 7"),
        ({"kill": True}, "it was ended by signal 9"),
    ],
)
async def test_a_server_that_dies_in_a_call_fails_all_calls_at_once(arguments: dict[str, object], reason: str) -> None:
    async with settled(misbehaving("echo")) as session:
        _, first = session.start(**arguments)
        _, second = session.start(text="never")
        assert await first.outcome() == await second.outcome() == session.fault()
        assert session.fault().code is Code.CONNECTION_DEAD
        assert session.fault().extras["reason"] == reason
        assert session.batches == 1
        await session.end()
        later = Waiting()
        assert begin(session.connection, ECHO, b"{}", later.done) == session.fault()
        assert later.outcomes == []


async def test_a_server_that_answers_and_dies_has_answered() -> None:
    async with settled(misbehaving("echo")) as session:
        _, first = session.start(text="last words")
        _, second = session.start(exit=0)
        assert await first.outcome() == Answer("last words", kind=ContentKind.TEXT)
        assert isinstance(await second.outcome(), Fault)


async def test_a_server_that_closes_its_output_and_lives_on_is_dead_at_once() -> None:
    async with settled(misbehaving("close_stdout", polite_s=60.0)) as session:
        outcome = await session.call()
        assert isinstance(outcome, Fault)
        assert outcome.extras["reason"] == "it closed its output"
        await session.end()


async def test_a_server_that_closes_its_input_and_lives_on_is_dead_at_once() -> None:
    async with settled(misbehaving("close_stdin")) as session:
        outcome = await session.call()
        assert isinstance(outcome, Fault)
        assert outcome.extras["reason"] == "it closed its input"
        await session.end()


async def test_a_call_that_expires_marks_the_connection_dead_for_all_others() -> None:
    async with settled(misbehaving("silent_calls", call_s=1.5)) as session:
        call, expired = session.start()
        _, other = session.start()
        session.connection.expire(call)
        outcome = await other.outcome()
        assert isinstance(outcome, Fault)
        assert outcome.code is Code.CONNECTION_DEAD
        assert outcome.extras["reason"] == "a call took longer than 1.5 s"
        assert expired.outcomes == []
        await session.end()


async def test_a_call_that_expires_soon_after_its_progress_leaves_the_connection_open() -> None:
    async with settled(misbehaving("progress", call_s=30)) as session:
        told = trio.Event()
        call = begin(
            session.connection,
            ECHO,
            b'{"before":[{"progress":1}],"hold":1}',
            Waiting().done,
            update=lambda _: told.set(),
        )
        assert isinstance(call, PendingCall)
        session.connection.flush()
        await told.wait()
        session.connection.expire(call)
        assert session.connection.state is ConnectionState.OPEN


async def test_the_end_of_a_connection_tells_of_a_line_that_was_no_message() -> None:
    async with settled(misbehaving("raw", call_s=1.5)) as session:
        call, _ = session.start(line="oops", id=0)
        assert await session.text(line='{"id":ID,"result":{}}') == ""
        session.connection.expire(call)
        said = 'it wrote a line that is no message: "oops"'
        assert (call.noise, session.fault().extras["reason"]) == (said, f"a call took longer than 1.5 s; {said}")
        await session.end()


async def test_a_call_that_expires_is_told_to_the_server_before_its_input_ends() -> None:
    async with settled(misbehaving("tattle")) as session:
        call, _ = session.start()
        session.connection.expire(call)
        await session.end()
        told = json.loads(str(session.log.stderr_tail).splitlines()[-1])
        assert told["method"] == "notifications/cancelled"
        assert told["params"] == {"requestId": call.number, "reason": "timeout"}


async def test_a_call_that_was_answered_cannot_expire() -> None:
    async with settled(misbehaving("echo")) as session:
        call, waiting = session.start(text="in time")
        await waiting.outcome()
        session.connection.expire(call)
        assert session.connection.state is ConnectionState.OPEN


async def test_closing_fails_what_still_waits() -> None:
    async with settled(misbehaving("silent_calls")) as session:
        _, call = session.start()
        session.connection.close()
        outcome = await call.outcome()
        assert isinstance(outcome, Fault)
        assert outcome.code is Code.CONNECTION_DEAD


async def test_a_server_that_ignores_the_end_of_input_and_term_is_killed() -> None:
    async with settled(misbehaving("stubborn")) as session:
        assert await session.text() == "still here"
        session.connection.close()
        assert (await session.end())["signal"] == 9


async def test_a_grandchild_that_holds_the_pipes_goes_with_its_server() -> None:
    async with settled(misbehaving("grandchild")) as session:
        pid = int(await session.text())
        assert is_running(pid)
        session.connection.close()
        await session.end()
        await gone(pid)


async def test_a_server_that_dies_is_dead_at_once_though_its_grandchild_holds_the_pipes() -> None:
    async with settled(misbehaving("grandchild")) as session:
        pid = int(await session.text())
        outcome = await session.call(exit=4)
        assert isinstance(outcome, Fault)
        assert outcome.extras["reason"] == "it exited with code 4"
        await session.end()
        await gone(pid)


async def test_a_server_that_reads_nothing_gets_lines_whole_until_it_is_given_up() -> None:
    async with settled(misbehaving("deaf")) as session:
        words = "x" * (8 * MIB)
        calls = [session.start(text=words)[1] for _ in range(9)]
        outcome = await calls[0].outcome()
        assert isinstance(outcome, Fault)
        assert outcome.extras["reason"] == "it does not read its input"
        assert all(call.outcomes == [outcome] for call in calls)
        await session.end()


async def test_a_request_larger_than_a_pipe_arrives_whole_among_others() -> None:
    async with settled(misbehaving("echo")) as session:
        words = "y" * (3 * MIB)
        calls = [session.start(text=text)[1] for text in ("before", words, "after")]
        outcomes = [await call.outcome() for call in calls]
        assert [plain(each.content) for each in outcomes if isinstance(each, Answer)] == ["before", words, "after"]


async def test_a_call_may_be_made_while_another_is_being_completed() -> None:
    async with settled(misbehaving("echo")) as session:
        second = Waiting()

        def then(outcome: Outcome) -> None:
            begin(session.connection, ECHO, b'{"text":"second"}', second.done)

        begin(session.connection, ECHO, b'{"text":"first"}', then)
        session.connection.flush()
        assert await second.outcome() == Answer("second", kind=ContentKind.TEXT)


# --- servers that people use -----------------------------------------------------------------------------------------


async def test_mcp_server_time_tells_the_time() -> None:
    server = msgspec.structs.replace(DEFAULT, argv=(sys.executable, "-m", "mcp_server_time"), handshake_s=20.0)
    async with connecting(server) as session:
        with trio.fail_after(20):
            await session.opened.wait()
        assert list(session.connection.offer.tools) == ["get_current_time", "convert_time"]
        told = json.loads(await session.text(timezone="UTC"))
        assert told["timezone"] == "UTC"


async def test_a_server_written_with_the_sdk_adds_says_and_fails() -> None:
    server = msgspec.structs.replace(DEFAULT, argv=(sys.executable, str(SERVERS / "sdk_server.py")), handshake_s=20.0)
    async with connecting(server) as session:
        with trio.fail_after(20):
            await session.opened.wait()
        connection = session.connection
        assert connection.offer.instructions == "Add and say."
        assert connection.offer.tools["add"].output is not None
        calls = [Waiting(), Waiting(), Waiting()]
        begin(connection, connection.offer.tools["add"], b'{"a":2,"b":3}', calls[0].done)
        begin(connection, connection.offer.tools["say"], '{"words":"grüß"}'.encode(), calls[1].done)
        begin(connection, connection.offer.tools["fail"], b'{"why":"because"}', calls[2].done)
        connection.flush()
        added, said, failed = [await call.outcome() for call in calls]
        assert added == Answer('{"result":5}')
        assert said == Answer("grüß", kind=ContentKind.TEXT)
        assert isinstance(failed, Answer)
        assert failed.is_error
        assert isinstance(failed.content, str)
        assert failed.content.startswith("Error executing tool fail")
