"""Opening a connection to real servers, of which one misbehaves in every way."""

import itertools
import sys
from typing import Final

import msgspec
import pytest
import trio
import trio.testing

from tests.providers.mcp.connecting import (
    DEFAULT,
    ECHO,
    SOON_S,
    Session,
    Waiting,
    begin,
    connecting,
    misbehaving,
    settled,
)
from tests.providers.mcp.linking import SHARE
from tooldispatchd.calls.connection import ConnectionState
from tooldispatchd.calls.outcome import Outcome
from tooldispatchd.checkers.pool import IN_PLACE
from tooldispatchd.children.family import open_family
from tooldispatchd.providers.mcp.answers import PendingCall
from tooldispatchd.providers.mcp.connection import Connection
from tooldispatchd.providers.mcp.remembered import Eras
from tooldispatchd.providers.mcp.server import Server
from tooldispatchd.providers.mcp.stdio import StdioWay
from tooldispatchd.wire.faults import Code


async def test_a_server_that_behaves_is_opened_called_and_closed() -> None:
    async with settled(misbehaving("echo")) as session:
        assert session.connection.state is ConnectionState.OPEN
        assert session.connection.offer.instructions == "Handle with care."
        assert session.connection.offer.warnings == ()
        tool = session.connection.offer.tools["echo"]
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
        assert begin(session.connection, ECHO, b"{}", Waiting().done) == session.fault()
        await session.end()


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (("yes",), 'it speaks no JSON-RPC: 10,000 lines that are no message, the first is "y"'),
        (
            ("sh", "-c", "echo At port 80; exec sleep 9"),
            'it did not answer initialize within 0.5 s; it wrote 1 line that is no message, the first is "At port 80"',
        ),
    ],
)
async def test_a_program_that_is_no_server_is_told_of_with_what_it_wrote(argv: tuple[str, ...], why: str) -> None:
    handshake_s = 30 if argv == ("yes",) else 0.5
    async with settled(msgspec.structs.replace(DEFAULT, argv=argv, handshake_s=handshake_s)) as session:
        assert session.fault().extras["reason"] == why
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


async def test_a_server_that_fails_is_warned_of_and_one_that_ends_when_asked_is_not() -> None:
    async with settled(misbehaving("dies_at_start")) as failed:
        await failed.end()
    async with settled(misbehaving("echo")) as served:
        served.connection.close()
        await served.end()
    assert (failed.log.warnings, served.log.warnings) == (["connection ended"], [])
    assert failed.log.stderr_tail == "no such module: frobnicate\n"


async def test_a_server_that_exits_with_a_code_when_it_is_asked_to_end_is_warned_of() -> None:
    argv = ("sh", "-c", '"$@"; exit 4', "sh", *misbehaving("echo").argv)
    async with settled(msgspec.structs.replace(DEFAULT, argv=argv, polite_s=SOON_S)) as session:
        session.connection.close()
        fields = await session.end()
    assert (fields["exit_code"], session.log.warnings) == (4, ["connection ended"])


async def test_a_call_that_takes_too_long_is_warned_of_where_the_server_lives_on() -> None:
    async with settled(misbehaving("silent_calls", dies_of_timeouts=False)) as session:
        call, _ = session.start()
        session.connection.expire(call)
        assert session.log.warnings == ["call timed out"]


async def test_of_much_stderr_the_beginning_and_the_end_are_told_and_the_line_that_complains() -> None:
    script = "import sys; print('Error: no key', *['    at x'] * 2000, 'end', sep='\\n', file=sys.stderr); sys.exit(1)"
    argv = (sys.executable, "-I", "-S", "-c", script)
    async with settled(msgspec.structs.replace(DEFAULT, argv=argv)) as session:
        fault = session.fault()
    tail = str(fault.extras["stderr_tail"])
    assert fault.detail == "server odd is not available: it exited with code 1 (Error: no key)"
    assert tail.startswith("Error: no key\n    at x\n")
    assert "bytes are left out]" in tail
    assert tail.endswith("    at x\nend\n")


async def test_an_unknown_protocol_revision_is_refused_by_name() -> None:
    async with settled(misbehaving("old_revision")) as session:
        assert session.fault().code is Code.SERVER_UNAVAILABLE
        assert "'2023-01-01'" in session.fault().detail


async def test_a_server_that_refuses_initialize_is_unavailable() -> None:
    async with settled(misbehaving("refuses")) as session:
        assert session.fault().code is Code.SERVER_UNAVAILABLE
        why = "it refused initialize: it speaks other revisions of the protocol: Too old (code -32022)"
        assert session.fault().extras["reason"] == why


NO_JSON_LIST = """
import json, sys
for line in sys.stdin:
    number = json.loads(line).get("id")
    if '"initialize"' in line:
        print('{"id":%d,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}}' % number, flush=True)
    if '"tools/list"' in line:
        print('{"id":%d,"result":{"tools":[],"_meta":{"mean":NaN}}}' % number, flush=True)
"""


async def test_a_list_of_tools_that_is_no_json_is_told_with_its_beginning() -> None:
    argv = (sys.executable, "-I", "-S", "-c", NO_JSON_LIST)
    async with settled(msgspec.structs.replace(DEFAULT, argv=argv, protocol="2025-11-25")) as session:
        assert 'a line that is no message: "{"id":2,"result":{"tools":' in str(session.fault().extras["reason"])


async def test_a_list_of_tools_over_the_line_bound_makes_the_server_unavailable() -> None:
    async with settled(misbehaving("long_list", max_line_bytes=64 * 1024)) as session:
        assert session.fault().code is Code.SERVER_UNAVAILABLE
        assert session.fault().extras["reason"] == "its answer to tools/list is too large"


async def test_a_server_without_the_tools_capability_has_no_tools_and_is_open() -> None:
    async with settled(misbehaving("toolless", protocol="2024-11-05")) as session:
        assert session.connection.state is ConnectionState.OPEN
        assert (session.connection.offer.tools, session.connection.offer.warnings) == ({}, ())


async def test_a_server_that_declares_no_tools_is_asked_for_them_all_the_same() -> None:
    async with settled(misbehaving("undeclared", protocol="2024-11-05")) as session:
        assert (list(session.connection.offer.tools), session.connection.offer.warnings) == (["echo"], ())


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("undeclared_hangs", "was asked for them all the same: it did not answer tools/list in time"),
        ("undeclared_ends", "ended when it was asked for them: it exited with code 1"),
    ],
)
async def test_a_server_that_declares_no_tools_and_cannot_be_asked_is_open(mode: str, why: str) -> None:
    async with settled(misbehaving(mode, protocol="2024-11-05", handshake_s=3.0)) as session:
        assert session.connection.state is ConnectionState.OPEN
        assert session.connection.offer.warnings == (f"it declares no tools, and {why}",)


async def test_the_tools_of_all_pages_are_listed() -> None:
    async with settled(misbehaving("pages")) as session:
        assert list(session.connection.offer.tools) == ["tool0", "tool1", "tool2"]
        assert session.connection.offer.warnings == ()


async def test_endless_pages_end_at_the_thousandth_with_a_warning() -> None:
    async with settled(misbehaving("endless_pages")) as session:
        assert len(session.connection.offer.tools) == 1000
        assert session.connection.offer.warnings == ("the list of tools is cut short: it has more than 1000 pages",)


async def test_a_cursor_that_comes_twice_ends_the_list_with_a_warning() -> None:
    async with settled(misbehaving("same_page")) as session:
        assert list(session.connection.offer.tools) == ["echo"]
        assert "the list of tools is cut short: a cursor came twice" in session.connection.offer.warnings


async def test_bad_names_are_left_out_with_a_warning_each() -> None:
    async with settled(misbehaving("bad_names")) as session:
        assert list(session.connection.offer.tools) == ["echo"]
        assert len(session.connection.offer.warnings) == 5


# Schemas are read by checkers, which stand back behind whatever else the machine does: so long on one that is busy.
READ_S: Final = 120.0


async def test_schemas_that_nobody_can_use_disable_their_tools_alone() -> None:
    async with settled(misbehaving("bad_schemas", handshake_s=READ_S)) as session:
        assert list(session.connection.offer.tools) == ["echo", "absent", "wrong", "dangling", "output"]
        named = [warning.split()[1] for warning in session.connection.offer.warnings]
        assert named == [
            "'word'",
            "'remote'",
            "'deep'",
            "'huge'",
            "'wrong':",
            "'dangling':",
            "'output':",
        ]


async def test_a_whitelist_hides_every_other_tool() -> None:
    async with settled(misbehaving("pages", whitelist=("tool1",))) as session:
        assert list(session.connection.offer.tools) == ["tool1"]


async def test_a_denied_tool_is_not_offered() -> None:
    async with settled(misbehaving("pages", deny=("tool1",))) as session:
        assert list(session.connection.offer.tools) == ["tool0", "tool2"]


async def test_a_missing_whitelisted_tool_refuses_the_connection() -> None:
    async with settled(misbehaving("pages", whitelist=("tool1", "tool7"))) as session:
        assert session.fault().code is Code.MISSING_TOOL
        assert session.fault().extras == {"server": "odd", "tool": "tool7"}
        assert session.connection.offer.tools == {}
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
            server,
            share=SHARE,
            way=StdioWay(server, family),
            eras=Eras(),
            opening=slots,
            checkers=IN_PLACE,
            log=session.log,
            batch_done=session.batch_done,
        )
        async with slots:
            nursery.start_soon(session.own)
            await trio.sleep(1.1)
            assert session.settled == 0
        with trio.fail_after(SOON_S):
            await session.opened.wait()
        assert session.connection.state is ConnectionState.OPEN
        session.connection.close()


# Tools, each with a schema of its own that takes long to compile.
HEAVY_LIST = """
import json, sys
tools, size = int(sys.argv[1]), int(sys.argv[2])
def tool(number):
    properties = {f"p{number}_{index}": {"type": "string"} for index in range(size)}
    return {"name": f"t{number}", "inputSchema": {"type": "object", "properties": properties}}
hello = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "initialize":
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": hello}), flush=True)
    if asked["method"] == "tools/list":
        page = {"tools": [tool(number) for number in range(tools)]}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": page}), flush=True)
"""


def heavy(tools: int, properties: int, handshake_s: float) -> Server:
    argv = (sys.executable, "-I", "-S", "-c", HEAVY_LIST, str(tools), str(properties))
    return msgspec.structs.replace(DEFAULT, argv=argv, handshake_s=handshake_s)


class Endless:
    """Checkers that never come to an end."""

    async def run(self, *_: object, turns: object) -> tuple[bytes, bytearray, bytearray]:  # `Running`'s
        await trio.sleep_forever()
        raise AssertionError


async def test_the_handshake_limit_holds_while_a_heavy_list_is_read() -> None:
    async with connecting(heavy(100, 1000, handshake_s=0.8), Endless()) as session:
        with trio.fail_after(SOON_S):
            await session.opened.wait()
        assert session.fault().extras["reason"] == "it did not answer tools/list within 0.8 s"
        await session.end()


async def test_a_page_of_tools_over_the_bound_is_told_as_such() -> None:
    async with settled(heavy(300, 1000, handshake_s=READ_S)) as session:
        assert session.fault().extras["reason"] == "a page of its list of tools is larger than 4194304 bytes"
        await session.end()


async def test_others_have_their_turns_while_a_few_heavy_tools_are_read() -> None:
    began = trio.current_time()
    turns = [began]
    async with connecting(heavy(6, 4000, handshake_s=READ_S)) as session:
        with trio.fail_after(READ_S):
            while not session.opened.is_set():
                await trio.sleep(0.001)
                turns.append(trio.current_time())
        assert len(session.connection.offer.tools) == 6
    longest = max(later - earlier for earlier, later in itertools.pairwise(turns))
    assert longest < (turns[-1] - began) / 3


@pytest.mark.parametrize("mode", ["echo", "silent", "stubborn"])
async def test_cancelling_the_owner_leaves_nothing(mode: str) -> None:
    async with open_family() as family, trio.open_nursery() as nursery:
        session = Session()
        server = misbehaving(mode)
        session.connection = Connection(
            server,
            share=SHARE,
            way=StdioWay(server, family),
            eras=Eras(),
            opening=trio.CapacityLimiter(1),
            checkers=IN_PLACE,
            log=session.log,
            batch_done=session.batch_done,
        )
        nursery.start_soon(session.own)
        with trio.move_on_after(0.2):
            await session.opened.wait()
        nursery.cancel_scope.cancel()
    assert session.settled == 1
    assert session.connection.state is ConnectionState.CLOSED


async def test_a_defect_in_what_an_answer_leads_to_ends_the_connection_and_leaves_nothing() -> None:
    async with settled(misbehaving("echo")) as session:
        tool = next(iter(session.connection.offer.tools.values()))

        def fail(_outcome: Outcome) -> None:
            raise ZeroDivisionError

        assert isinstance(begin(session.connection, tool, b"{}", fail), PendingCall)
        session.connection.flush()
        ended = await session.end()
        assert ended["reason"] == "internal error, incident 7"
        assert [type(fields["error"]) for event, fields in session.log.said if event == "channel failed"] == [
            ZeroDivisionError
        ]
