"""Progress of calls, and what a server is told of where they come from."""

import sys

import msgspec
import pytest
import trio

from tests.providers.mcp.connecting import (
    DEFAULT,
    ECHO,
    SERVERS,
    SOON_S,
    Session,
    Waiting,
    begin,
    connecting,
    misbehaving,
    settled,
)
from tooldispatchd.calls.outcome import Answer, Update
from tooldispatchd.providers.mcp.answers import PendingCall
from tooldispatchd.providers.updates import INTERVAL_S
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import ContentKind

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
# The number of the first call: the handshake takes two.
FIRST = 3


class Followed(Waiting):
    """A call whose updates are wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.updates: list[Update] = []
        self.first = trio.Event()

    def add(self, update: Update) -> None:
        # An update behind the outcome would be a defect.
        assert self.outcomes == []
        self.updates.append(update)
        self.first.set()


def follow(session: Session, **arguments: object) -> tuple[PendingCall, Followed]:
    followed = Followed()
    line = msgspec.json.encode(arguments)
    call = begin(session.connection, ECHO, line, followed.done, update=followed.add)
    assert isinstance(call, PendingCall)
    session.connection.flush()
    return call, followed


async def test_a_call_that_wants_nothing_sends_no_meta() -> None:
    async with settled(misbehaving("progress")) as session:
        assert await session.text() == "null"


async def test_a_traceparent_is_passed_on() -> None:
    async with settled(misbehaving("progress")) as session:
        waiting = Waiting()
        begin(session.connection, ECHO, b"{}", waiting.done, traceparent=TRACEPARENT)
        session.connection.flush()
        assert await waiting.outcome() == Answer(f'{{"traceparent": "{TRACEPARENT}"}}', kind=ContentKind.TEXT)


async def test_a_call_that_wants_updates_gives_its_number_as_the_token() -> None:
    async with settled(misbehaving("progress")) as session:
        call, followed = follow(session)
        assert await followed.outcome() == Answer(f'{{"progressToken": {call.number}}}', kind=ContentKind.TEXT)
        assert followed.updates == []


async def test_both_may_be_given() -> None:
    async with settled(misbehaving("progress")) as session:
        followed = Followed()
        connection = session.connection
        call = begin(connection, ECHO, b"{}", followed.done, traceparent=TRACEPARENT, update=followed.add)
        assert isinstance(call, PendingCall)
        connection.flush()
        answer = Answer(f'{{"progressToken": {call.number}, "traceparent": "{TRACEPARENT}"}}', kind=ContentKind.TEXT)
        assert await followed.outcome() == answer


@pytest.mark.parametrize("token_as", ["number", "string", "float"])
async def test_progress_is_told_while_the_call_runs(token_as: str) -> None:
    async with settled(misbehaving("progress")) as session:
        step = {"progress": 2, "total": 5, "message": "indexing"}
        _, followed = follow(session, before=[step], hold=True, token_as=token_as)
        with trio.fail_after(SOON_S):
            await followed.first.wait()
        assert followed.outcomes == []
        assert followed.updates == [Update(2.0, 5.0, "indexing")]
        assert session.batches == 1
        await session.call()
        assert await followed.outcome() == Answer("held", kind=ContentKind.TEXT)


async def test_the_last_progress_before_the_answer_is_told_before_it() -> None:
    async with settled(misbehaving("progress")) as session:
        _, followed = follow(session, before=[{"progress": 1}, {"progress": 2}, {"progress": 3, "total": 3}])
        await followed.outcome()
        assert followed.updates[-1] == Update(3.0, 3.0)


async def test_progress_soon_after_another_is_told_when_the_interval_is_over_though_nothing_follows() -> None:
    async with settled(misbehaving("progress")) as session:
        _, followed = follow(session, before=[{"progress": 1}], hold=True)
        with trio.fail_after(SOON_S):
            await followed.first.wait()
        _, second = follow(session, before=[{"progress": 2}], hold=True)
        with trio.fail_after(SOON_S):
            await second.first.wait()
        assert second.updates == [Update(2.0)]


async def test_a_flood_of_progress_is_told_at_the_rate_and_the_last_of_it_always() -> None:
    async with settled(misbehaving("chatty")) as session:
        began = trio.current_time()
        _, followed = follow(session)
        await followed.outcome()
        # One at the start, one at the end, and between them one in each interval.
        assert len(followed.updates) <= 2 + (trio.current_time() - began) / INTERVAL_S
        assert followed.updates[-1] == Update(19999.0)
        session.connection.close()
        ended = await session.end()
        assert (ended["skipped_lines"], ended["ignored_answers"]) == (0, 0)


async def test_progress_after_the_answer_is_ignored() -> None:
    async with settled(misbehaving("progress")) as session:
        _, followed = follow(session, after=[{"progress": 9}])
        await followed.outcome()
        # What came after the first answer has been read when the second is here.
        await session.call()
        assert followed.updates == []


async def test_progress_of_a_cancelled_call_is_ignored() -> None:
    async with settled(misbehaving("progress")) as session:
        call, followed = follow(session, hold=True)
        session.connection.cancel(call, "no need")
        await session.call(before=[{"progressToken": call.number, "progress": 1}])
        assert followed.updates == []
        assert followed.outcomes == []


async def test_progress_goes_to_the_call_that_it_names() -> None:
    async with settled(misbehaving("progress")) as session:
        first, one = follow(session, hold=True)
        _, two = follow(session, before=[{"progressToken": first.number, "progress": 1}, {"progress": 2}])
        await one.outcome()
        await two.outcome()
        assert one.updates == [Update(1.0)]
        assert two.updates == [Update(2.0)]


async def test_progress_of_a_call_that_wants_none_is_ignored() -> None:
    async with settled(misbehaving("progress")) as session:
        await session.text(before=[{"progressToken": FIRST, "progress": 1}])
        session.connection.close()
        assert (await session.end())["skipped_lines"] == 0


async def test_a_dying_server_has_its_calls_progress_told_before_the_fault() -> None:
    async with settled(misbehaving("progress")) as session:
        _, followed = follow(session, before=[{"progress": 1}, {"progress": 2}], exit=4)
        outcome = await followed.outcome()
        assert isinstance(outcome, Fault)
        assert outcome.code is Code.CONNECTION_DEAD
        assert followed.updates[-1] == Update(2.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"progress": "1"},
        {"progress": True},
        {"progress": None},
        {"progress": 1, "total": "5"},
        {"progress": 1, "message": 7},
        {"progress": 1, "message": "x" * 65536},
        {"progress": 1, "progressToken": None},
        {"progress": 1, "progressToken": [FIRST]},
        {"total": 5},
        7,
        "text",
    ],
)
async def test_progress_of_another_shape_is_counted_and_harms_no_other(wrong: object) -> None:
    async with settled(misbehaving("progress")) as session:
        _, followed = follow(session, before=[wrong, {"progress": 1}])
        await followed.outcome()
        assert followed.updates == [Update(1.0)]
        session.connection.close()
        assert (await session.end())["skipped_lines"] == 1


@pytest.mark.parametrize("token", [4711, 0, -1, "other", "", "9" * 5000, 1.5, 1e300])
async def test_a_token_that_nobody_gave_is_ignored(token: object) -> None:
    async with settled(misbehaving("progress")) as session:
        _, followed = follow(session, before=[{"progress": 1, "progressToken": token}])
        await followed.outcome()
        assert followed.updates == []


async def test_a_server_written_with_the_sdk_tells_its_progress() -> None:
    server = msgspec.structs.replace(DEFAULT, argv=(sys.executable, str(SERVERS / "sdk_server.py")), handshake_s=20.0)
    async with connecting(server) as session:
        with trio.fail_after(20):
            await session.opened.wait()
        followed = Followed()
        counting = session.connection.offer.tools["count"]
        begin(session.connection, counting, b'{"steps":3}', followed.done, traceparent=TRACEPARENT, update=followed.add)
        session.connection.flush()
        assert await followed.outcome() == Answer("counted", kind=ContentKind.TEXT)
        assert followed.updates[-1] == Update(3.0, 3.0, "step 3")
