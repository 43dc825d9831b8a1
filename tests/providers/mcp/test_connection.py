"""The connection against real servers: one that misbehaves in every way, and two that people use."""

import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
import pytest
import trio
import trio.testing

from tooldispatchd.calls.connection import ConnectionState
from tooldispatchd.calls.outcome import Answer, Outcome
from tooldispatchd.children.family import open_family
from tooldispatchd.providers.mcp.connection import Connection
from tooldispatchd.providers.mcp.server import Server
from tooldispatchd.wire.faults import Code, Fault

SERVERS: Final = Path(__file__).parents[2] / "servers"
MIB: Final = 1024 * 1024

# Far above what anything here takes, far below any limit that is not under test.
SOON_S: Final = 5.0


class Log:
    """Keeps how the connection ended, and what it last wrote to stderr."""

    def __init__(self) -> None:
        self.ends: list[dict[str, object]] = []
        self.stderr_tail: object = None

    def debug(self, event: str, **fields: object) -> None:
        self.stderr_tail = fields.get("stderr_tail")

    def info(self, event: str, **fields: object) -> None:
        assert event == "connection ended"
        self.ends.append(fields)


class Waiting:
    """One call that was made; `outcomes` holds what its `done` was given."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self.told = trio.Event()

    def done(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self.told.set()

    async def outcome(self) -> Outcome:
        with trio.fail_after(SOON_S):
            await self.told.wait()
        (outcome,) = self.outcomes
        return outcome


class Session:
    """What the agent layer is to a connection."""

    def __init__(self) -> None:
        self.log = Log()
        self.batches = 0
        self.settled = 0
        self.opened = trio.Event()
        self.ended = trio.Event()
        self.connection: Connection

    def batch_done(self) -> None:
        self.batches += 1

    def settle(self) -> None:
        self.settled += 1
        self.opened.set()

    async def own(self) -> None:
        await self.connection.run(self.settle)
        self.ended.set()

    def start(self, **arguments: object) -> tuple[int, Waiting]:
        tool = next(iter(self.connection.tools))
        waiting = Waiting()
        number = self.connection.call(tool, msgspec.json.encode(arguments), waiting.done)
        assert isinstance(number, int)
        self.connection.flush()
        return number, waiting

    async def call(self, **arguments: object) -> Outcome:
        _, waiting = self.start(**arguments)
        return await waiting.outcome()

    async def text(self, **arguments: object) -> str:
        outcome = await self.call(**arguments)
        assert isinstance(outcome, Answer)
        assert not outcome.is_error
        return outcome.content

    async def end(self) -> dict[str, object]:
        """Wait until the server is gone; the fields of the log line."""
        with trio.fail_after(SOON_S):
            await self.ended.wait()
        assert self.connection.state is ConnectionState.CLOSED
        (fields,) = self.log.ends
        return fields

    def fault(self) -> Fault:
        assert self.connection.fault is not None
        return self.connection.fault


DEFAULT: Final = Server(
    name="odd",
    prefix="odd",
    argv=(),
    max_content_bytes=64 * MIB,
    max_line_bytes=65 * MIB,
    handshake_s=SOON_S,
    polite_s=0.1,
    term_s=0.1,
)


@asynccontextmanager
async def connecting(server: Server) -> AsyncIterator[Session]:
    """A session whose connection has begun to open; closed at the end, and then gone."""
    session = Session()
    async with open_family() as family, trio.open_nursery() as nursery:
        session.connection = Connection(
            server,
            family=family,
            opening=trio.CapacityLimiter(1),
            log=session.log,
            batch_done=session.batch_done,
        )
        nursery.start_soon(session.own)
        yield session
        session.connection.close()
    assert session.settled == 1
    assert session.connection.state is ConnectionState.CLOSED


@asynccontextmanager
async def settled(server: Server) -> AsyncIterator[Session]:
    async with connecting(server) as session:
        with trio.fail_after(SOON_S):
            await session.opened.wait()
        yield session


def misbehaving(mode: str, **settings: object) -> Server:
    argv = (sys.executable, "-I", "-S", str(SERVERS / "misbehaving.py"), mode)
    return msgspec.structs.replace(DEFAULT, argv=argv, **settings)


def open_files() -> set[str]:
    found = set()
    for fd in Path("/proc/self/fd").iterdir():
        # The listing's own descriptor is gone by now.
        with suppress(FileNotFoundError):
            found.add(f"{fd.name} {fd.readlink()}")
    return found


def children() -> set[str]:
    return {pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def gone(pid: int) -> None:
    """Wait until a process that was killed has ended, be it ours or not."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with trio.fail_after(SOON_S):
            await trio.lowlevel.wait_readable(pidfd)
    finally:
        os.close(pidfd)


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    before = open_files(), children()
    yield
    assert (open_files(), children()) == before


# --- opening ---------------------------------------------------------------------------------------------------------


async def test_a_server_that_behaves_is_opened_called_and_closed() -> None:
    async with settled(misbehaving("echo")) as session:
        assert session.connection.state is ConnectionState.OPEN
        assert session.connection.instructions == "Handle with care."
        assert session.connection.warnings == []
        tool = session.connection.tools["echo"]
        assert (tool.description, tool.input_schema) == ("Say it again.", {"type": "object"})
        assert await session.text(text="hello") == "hello"
        assert session.batches == 1
        session.connection.close()
        assert await session.end() == {
            "server": "odd",
            "reason": "its session is over",
            "exit_code": 0,
            "signal": None,
            "calls": 1,
            "skipped_lines": 0,
            "ignored_answers": 0,
        }


async def test_a_server_that_never_answers_initialize_fails_at_the_handshake_limit() -> None:
    # That it takes its time to end afterwards does not keep the session from opening.
    async with settled(misbehaving("silent", handshake_s=0.1)) as session:
        assert session.connection.state is ConnectionState.DEAD
        assert session.fault().code is Code.SERVER_UNAVAILABLE
        assert session.fault().extras == {"server": "odd", "reason": "it did not answer initialize within 0.1 s"}
        assert session.fault().detail == "server odd is not available: it did not answer initialize within 0.1 s"
        assert session.connection.call("echo", b"{}", Waiting().done) == session.fault()
        await session.end()


async def test_a_program_that_does_not_exist_is_unavailable_at_once() -> None:
    async with settled(msgspec.structs.replace(DEFAULT, argv=("/no/such/program",))) as session:
        assert session.fault().code is Code.SERVER_UNAVAILABLE
        assert "/no/such/program" in session.fault().detail
        await session.end()


async def test_a_server_that_dies_before_its_handshake_tells_its_exit_code_and_its_stderr() -> None:
    async with settled(misbehaving("dies_at_start")) as session:
        assert session.fault().code is Code.SERVER_UNAVAILABLE
        assert session.fault().extras["reason"] == "it exited with code 3"
        assert session.fault().extras["stderr_tail"] == "no such module: frobnicate\n"
        await session.end()


async def test_an_unknown_protocol_revision_is_refused_by_name() -> None:
    async with settled(misbehaving("old_revision")) as session:
        assert session.fault().code is Code.SERVER_UNAVAILABLE
        assert "'2023-01-01'" in session.fault().detail


async def test_a_server_that_refuses_initialize_is_unavailable() -> None:
    async with settled(misbehaving("refuses")) as session:
        assert session.fault().code is Code.SERVER_UNAVAILABLE
        assert session.fault().extras["reason"] == "it refused initialize: Too old (code -32022)"


async def test_a_list_of_tools_over_the_line_bound_makes_the_server_unavailable() -> None:
    async with settled(misbehaving("long_list", max_line_bytes=64 * 1024)) as session:
        assert session.fault().code is Code.SERVER_UNAVAILABLE
        assert session.fault().extras["reason"] == "its answer to tools/list is too large"


async def test_a_server_without_the_tools_capability_has_no_tools_and_is_open() -> None:
    async with settled(misbehaving("toolless")) as session:
        assert session.connection.state is ConnectionState.OPEN
        assert session.connection.tools == {}


async def test_the_tools_of_all_pages_are_listed() -> None:
    async with settled(misbehaving("pages")) as session:
        assert list(session.connection.tools) == ["tool0", "tool1", "tool2"]
        assert session.connection.warnings == []


async def test_endless_pages_end_at_the_thousandth_with_a_warning() -> None:
    async with settled(misbehaving("endless_pages")) as session:
        assert len(session.connection.tools) == 1000
        assert session.connection.warnings == ["the list of tools is cut short: it has more than 1000 pages"]


async def test_a_cursor_that_comes_twice_ends_the_list_with_a_warning() -> None:
    async with settled(misbehaving("same_page")) as session:
        assert list(session.connection.tools) == ["echo"]
        assert "the list of tools is cut short: a cursor came twice" in session.connection.warnings


async def test_bad_names_are_left_out_with_a_warning_each() -> None:
    async with settled(misbehaving("bad_names")) as session:
        assert list(session.connection.tools) == ["echo"]
        assert len(session.connection.warnings) == 9


async def test_broken_schemas_disable_their_tools_alone() -> None:
    async with settled(misbehaving("bad_schemas")) as session:
        assert list(session.connection.tools) == ["echo"]
        named = [warning.split()[1] for warning in session.connection.warnings]
        assert named == [
            "'absent'",
            "'word'",
            "'wrong'",
            "'dangling'",
            "'remote'",
            "'deep'",
            "'huge'",
            "'output'",
        ]


async def test_a_whitelist_hides_every_other_tool() -> None:
    async with settled(misbehaving("pages", whitelist=("tool1",))) as session:
        assert list(session.connection.tools) == ["tool1"]


async def test_a_denied_tool_is_not_offered() -> None:
    async with settled(misbehaving("pages", deny=("tool1",))) as session:
        assert list(session.connection.tools) == ["tool0", "tool2"]


async def test_a_missing_whitelisted_tool_refuses_the_connection() -> None:
    async with settled(misbehaving("pages", whitelist=("tool1", "tool7"))) as session:
        assert session.fault().code is Code.MISSING_TOOL
        assert session.fault().extras == {"server": "odd", "tool": "tool7"}
        assert session.connection.tools == {}
        await session.end()


async def test_a_connection_closed_while_it_opens_settles_and_leaves_nothing() -> None:
    async with connecting(misbehaving("silent")) as session:
        await trio.testing.wait_all_tasks_blocked()
        session.connection.close()
        await session.end()
        assert session.settled == 1
        assert session.fault().code is Code.SERVER_UNAVAILABLE


async def test_a_connection_that_is_closed_before_it_runs_never_starts_its_server() -> None:
    async with connecting(misbehaving("echo")) as session:
        session.connection.close()
        assert (await session.end())["exit_code"] is None


async def test_the_handshake_clock_starts_with_the_slot() -> None:
    slots = trio.CapacityLimiter(1)
    session = Session()
    async with open_family() as family, trio.open_nursery() as nursery:
        server = misbehaving("echo", handshake_s=1.0)
        session.connection = Connection(
            server, family=family, opening=slots, log=session.log, batch_done=session.batch_done
        )
        async with slots:
            nursery.start_soon(session.own)
            await trio.sleep(1.1)
            assert session.settled == 0
        with trio.fail_after(SOON_S):
            await session.opened.wait()
        assert session.connection.state is ConnectionState.OPEN
        session.connection.close()


@pytest.mark.parametrize("mode", ["echo", "silent", "stubborn"])
async def test_cancelling_the_owner_leaves_nothing(mode: str) -> None:
    async with open_family() as family, trio.open_nursery() as nursery:
        session = Session()
        session.connection = Connection(
            misbehaving(mode),
            family=family,
            opening=trio.CapacityLimiter(1),
            log=session.log,
            batch_done=session.batch_done,
        )
        nursery.start_soon(session.own)
        with trio.move_on_after(0.2):
            await session.opened.wait()
        nursery.cancel_scope.cancel()
    assert session.settled == 1
    assert session.connection.state is ConnectionState.CLOSED


# --- answers ---------------------------------------------------------------------------------------------------------


async def test_a_late_answer_to_a_cancelled_call_reaches_no_other_call() -> None:
    async with settled(misbehaving("late")) as session:
        number, cancelled = session.start(hold=True)
        session.connection.cancel(number, "no longer needed")
        assert await session.text() == "prompt"
        assert await session.text() == "prompt"
        assert cancelled.outcomes == []
        session.connection.close()
        assert (await session.end())["ignored_answers"] == 1


async def test_a_cancelled_call_is_told_to_the_server() -> None:
    async with settled(misbehaving("witness")) as session:
        number, _ = session.start()
        session.connection.cancel(number, "agent gone")
        session.connection.cancel(number, "agent gone")
        assert json.loads(await session.text())[1:] == [
            {
                "jsonrpc": "2.0",
                "method": "notifications/cancelled",
                "params": {"requestId": number, "reason": "agent gone"},
            }
        ]


async def test_answers_in_any_order_reach_their_calls() -> None:
    async with settled(misbehaving("reversed_order")) as session:
        calls = [session.start(text=text)[1] for text in ("one", "two", "three")]
        assert [await call.outcome() for call in calls] == [Answer("one"), Answer("two"), Answer("three")]


async def test_repeated_and_unasked_answers_are_counted_and_ignored() -> None:
    async with settled(misbehaving("twice")) as session:
        assert await session.text(text="first") == "first"
        assert await session.text(text="second") == "second"
        session.connection.close()
        assert (await session.end())["ignored_answers"] in {3, 4}


async def test_a_number_that_comes_back_as_a_string_is_matched() -> None:
    async with settled(misbehaving("string_id")) as session:
        assert await session.text() == "matched"


async def test_an_answer_with_a_null_id_is_ignored() -> None:
    async with settled(misbehaving("null_id")) as session:
        assert await session.text() == "at last"


async def test_a_batch_is_taken_apart() -> None:
    async with settled(misbehaving("batch")) as session:
        assert await session.text() == "batched"


async def test_lines_that_cannot_be_read_are_skipped_and_counted() -> None:
    async with settled(misbehaving("garbage")) as session:
        assert await session.text() == "clean"
        assert await session.text() == "clean"
        session.connection.close()
        fields = await session.end()
        assert fields["skipped_lines"] == 18


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"id":ID,"result":null}', "its result is not an object"),
        ('{"id":ID,"result":[1]}', "its result is not an object"),
        ('{"id":ID}', "neither a result nor an error"),
        ('{"id":ID,"result":{"content":"text"}}', "its content is not a list"),
        ('{"id":ID,"result":{"resultType":"input_required"}}', "is not complete"),
        ('{"id":ID,"error":{"code":-32602,"message":"Unknown tool"}}', "Unknown tool (code -32602)"),
        ('{"id":ID,"error":"bad"}', "an error that cannot be read"),
        ('{"id":ID,"result":{"content":' + "[" * 3000 + "]" * 3000 + "}}", "nested too deep"),
    ],
)
async def test_a_wrong_answer_fails_its_call_at_once(line: str, words: str) -> None:
    async with settled(misbehaving("raw")) as session:
        outcome = await session.call(line=line)
        assert isinstance(outcome, Fault)
        assert outcome.code is Code.TOOL_FAILED
        assert words in outcome.detail
        assert session.connection.state is ConnectionState.OPEN


async def test_an_answer_in_another_encoding_fails_its_call_at_once() -> None:
    async with settled(misbehaving("raw")) as session:
        line = '{"id":ID,"result":{"content":[{"type":"text","text":"caf\u00e9"}]}}'
        assert await session.text(line=line) == "caf\u00e9"
        outcome = await session.call(line=line, latin1=True)
        assert isinstance(outcome, Fault)
        assert "cannot be decoded" in outcome.detail


async def test_a_servers_ping_is_answered_and_its_other_requests_are_refused() -> None:
    async with settled(misbehaving("curious")) as session:
        assert json.loads(await session.text()) == [
            {"jsonrpc": "2.0", "id": "p-1", "result": {}},
            {"jsonrpc": "2.0", "id": 2, "error": {"code": -32601, "message": "Method not found"}},
        ]


async def test_twenty_thousand_notifications_do_not_keep_an_answer_back() -> None:
    async with settled(misbehaving("chatty")) as session:
        assert await session.text() == "done"


async def test_a_mebibyte_on_stderr_blocks_nothing() -> None:
    async with settled(misbehaving("noisy")) as session:
        assert await session.text() == "done"
        assert await session.text() == "done"


async def test_a_result_of_fifty_megabytes_arrives_while_others_are_served() -> None:
    async with settled(misbehaving("large")) as session, trio.open_nursery() as nursery:
        longest_s = 0.0

        async def watch() -> None:
            nonlocal longest_s
            while True:
                before = trio.current_time()
                await trio.sleep(0.001)
                longest_s = max(longest_s, trio.current_time() - before)

        nursery.start_soon(watch)
        assert len(await session.text(bytes=50_000_000)) == 50_000_000
        nursery.cancel_scope.cancel()
        # The bar is 0.25 s; a loaded machine is given twice that.
        assert longest_s < 0.5


async def test_an_answer_over_the_line_bound_fails_its_call_and_the_connection_lives() -> None:
    server = misbehaving("large", max_content_bytes=64 * 1024, max_line_bytes=128 * 1024)
    async with settled(server) as session:
        outcome = await session.call(bytes=10_000_000)
        assert isinstance(outcome, Fault)
        assert (outcome.code, outcome.extras["limit"]) == (Code.TOOL_FAILED, "content_bytes")
        assert await session.text(bytes=10) == "xxxxxxxxxx"


async def test_content_over_the_content_bound_fails_its_call() -> None:
    server = misbehaving("large", max_content_bytes=64 * 1024, max_line_bytes=128 * 1024)
    async with settled(server) as session:
        assert len(await session.text(bytes=64 * 1024)) == 64 * 1024
        outcome = await session.call(bytes=64 * 1024 + 1)
        assert isinstance(outcome, Fault)
        assert outcome.extras["limit"] == "content_bytes"


async def test_output_that_breaks_its_schema_is_not_delivered() -> None:
    async with settled(misbehaving("typed")) as session:
        assert await session.text(result={"structuredContent": {"n": 5}, "content": []}) == '{"n":5}'
        outcome = await session.call(result={"structuredContent": {"n": "five"}})
        assert isinstance(outcome, Fault)
        assert outcome.code is Code.INVALID_OUTPUT
        assert outcome.extras["violations"]


# --- death -----------------------------------------------------------------------------------------------------------


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
        assert session.connection.call("echo", b"{}", later.done) == session.fault()
        assert later.outcomes == []


async def test_a_server_that_answers_and_dies_has_answered() -> None:
    async with settled(misbehaving("echo")) as session:
        _, first = session.start(text="last words")
        _, second = session.start(exit=0)
        assert await first.outcome() == Answer("last words")
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
        number, expired = session.start()
        _, other = session.start()
        session.connection.expire(number)
        outcome = await other.outcome()
        assert isinstance(outcome, Fault)
        assert outcome.code is Code.CONNECTION_DEAD
        assert outcome.extras["reason"] == "a call took longer than 1.5 s"
        assert expired.outcomes == []
        await session.end()


async def test_a_call_that_expires_is_told_to_the_server_before_its_input_ends() -> None:
    async with settled(misbehaving("tattle")) as session:
        number, _ = session.start()
        session.connection.expire(number)
        await session.end()
        told = json.loads(str(session.log.stderr_tail).splitlines()[-1])
        assert told["method"] == "notifications/cancelled"
        assert told["params"] == {"requestId": number, "reason": "timeout"}


async def test_a_call_that_was_answered_cannot_expire() -> None:
    async with settled(misbehaving("echo")) as session:
        number, call = session.start(text="in time")
        await call.outcome()
        session.connection.expire(number)
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
        assert [await call.outcome() for call in calls] == [Answer("before"), Answer(words), Answer("after")]


async def test_a_call_may_be_made_while_another_is_being_completed() -> None:
    async with settled(misbehaving("echo")) as session:
        second = Waiting()

        def then(outcome: Outcome) -> None:
            session.connection.call("echo", b'{"text":"second"}', second.done)

        session.connection.call("echo", b'{"text":"first"}', then)
        session.connection.flush()
        assert await second.outcome() == Answer("second")


# --- servers that people use -----------------------------------------------------------------------------------------


async def test_mcp_server_time_tells_the_time() -> None:
    server = msgspec.structs.replace(DEFAULT, argv=(sys.executable, "-m", "mcp_server_time"), handshake_s=20.0)
    async with connecting(server) as session:
        with trio.fail_after(20):
            await session.opened.wait()
        assert list(session.connection.tools) == ["get_current_time", "convert_time"]
        told = json.loads(await session.text(timezone="UTC"))
        assert told["timezone"] == "UTC"


async def test_a_server_written_with_the_sdk_adds_says_and_fails() -> None:
    server = msgspec.structs.replace(DEFAULT, argv=(sys.executable, str(SERVERS / "sdk_server.py")), handshake_s=20.0)
    async with connecting(server) as session:
        with trio.fail_after(20):
            await session.opened.wait()
        connection = session.connection
        assert connection.instructions == "Add and say."
        assert connection.tools["add"].output is not None
        calls = [Waiting(), Waiting(), Waiting()]
        connection.call("add", b'{"a":2,"b":3}', calls[0].done)
        connection.call("say", '{"words":"grüß"}'.encode(), calls[1].done)
        connection.call("fail", b'{"why":"because"}', calls[2].done)
        connection.flush()
        added, said, failed = [await call.outcome() for call in calls]
        assert added == Answer('{"result":5}')
        assert said == Answer("grüß")
        assert isinstance(failed, Answer)
        assert failed.is_error
        assert failed.content.startswith("Error executing tool fail")
