"""What a connection makes of what its server says."""

import json
import time

import pytest
import trio
import trio.testing

from tests.providers.mcp.connecting import (
    misbehaving,
    settled,
)
from tooldispatchd.calls.connection import ConnectionState
from tooldispatchd.calls.outcome import Answer
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import ContentKind


async def test_a_late_answer_to_a_cancelled_call_reaches_no_other_call() -> None:
    async with settled(misbehaving("late")) as session:
        call, cancelled = session.start(hold=True)
        session.connection.cancel(call, "no longer needed")
        assert await session.text() == "prompt"
        assert await session.text() == "prompt"
        assert cancelled.outcomes == []
        session.connection.close()
        assert (await session.end())["ignored_answers"] == 1


async def test_a_cancelled_call_is_told_to_the_server() -> None:
    async with settled(misbehaving("witness")) as session:
        call, _ = session.start()
        session.connection.cancel(call, "agent gone")
        session.connection.cancel(call, "agent gone")
        assert json.loads(await session.text())[1:] == [
            {
                "jsonrpc": "2.0",
                "method": "notifications/cancelled",
                "params": {"requestId": call.number, "reason": "agent gone"},
            }
        ]


async def test_answers_in_any_order_reach_their_calls() -> None:
    async with settled(misbehaving("reversed_order")) as session:
        calls = [session.start(text=text)[1] for text in ("one", "two", "three")]
        assert [await call.outcome() for call in calls] == [
            Answer("one", kind=ContentKind.TEXT),
            Answer("two", kind=ContentKind.TEXT),
            Answer("three", kind=ContentKind.TEXT),
        ]


async def test_repeated_and_unasked_answers_are_counted_and_ignored() -> None:
    async with settled(misbehaving("twice")) as session:
        assert await session.text(text="first") == "first"
        assert await session.text(text="second") == "second"
        session.connection.close()
        assert (await session.end())["ignored_answers"] == 4


async def test_a_number_that_comes_back_as_a_string_is_matched() -> None:
    async with settled(misbehaving("string_id")) as session:
        assert await session.text() == "matched"


async def test_an_error_without_an_id_is_the_answer_of_the_only_call() -> None:
    async with settled(misbehaving("null_id")) as session:
        outcome = await session.call()
        assert isinstance(outcome, Fault)
        assert (outcome.code, outcome.extras["rpc_code"]) == (Code.TOOL_FAILED, -32700)


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
        ('{"id":ID,"result":{"structuredContent":{"mean":NaN}}}', 'a line that is no message: "{"id":'),
        ('{"result":{"structuredContent":{"mean":NaN}},"id":ID}', "a line that is no message"),
        ('{"id":ID,"result":{"resultType":"input_required"}}', "cannot be read"),
        ('{"id":ID,"error":{"code":-32602,"message":"Unknown tool"}}', "Unknown tool (code -32602)"),
        ('{"id":ID,"error":"bad"}', 'an error that cannot be read: "bad"'),
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
                before = time.thread_time()
                await trio.sleep(0.001)
                longest_s = max(longest_s, time.thread_time() - before)

        nursery.start_soon(watch)
        assert len(await session.text(bytes=50_000_000)) == 50_000_000
        nursery.cancel_scope.cancel()
        # Processor time, of which other programs' load takes nothing; of the clock the bar is 0.25 s.
        assert longest_s < 0.1


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
