"""From a way to a server to its tools, over as many links as it takes; and lists that change later."""

import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec
import pytest
import trio
from msgspec import Raw

from tests.providers.mcp.connecting import DEFAULT, SERVERS, SOON_S, Session, Waiting, begin
from tests.providers.mcp.linking import SHARE
from tooldispatchd.calls.connection import ConnectionState
from tooldispatchd.calls.outcome import Answer, Outcome
from tooldispatchd.checkers.pool import IN_PLACE
from tooldispatchd.children.family import open_family
from tooldispatchd.providers.mcp.answers import PendingCall
from tooldispatchd.providers.mcp.asking import NOBODY, AgentSide
from tooldispatchd.providers.mcp.connection import Connection
from tooldispatchd.providers.mcp.remembered import Era, Eras
from tooldispatchd.providers.mcp.server import Server
from tooldispatchd.providers.mcp.stdio import StdioWay
from tooldispatchd.wire.faults import Fault
from tooldispatchd.wire.messages import AskResp, ContentKind
from tooldispatchd.wire.questions import Question


def speaking(era: str, protocol: str = "auto") -> Server:
    argv = (sys.executable, "-I", "-S", str(SERVERS / "eras.py"), era)
    return msgspec.structs.replace(DEFAULT, argv=argv, protocol=protocol)


class Person:
    """An agent that answers every elicitation with its name."""

    roots: tuple[str, ...] = ()
    answers = frozenset({"elicitation"})

    def ask(self, server: str, asked: Sequence[Question], origin: object = None) -> list[str]:
        answer = AskResp("q1", result=Raw(b'{"action":"accept","content":{"name":"Ada"}}'))
        trio.lowlevel.current_trio_token().run_sync_soon(asked[0].told, answer)
        return ["q1"]

    def withdraw(self, question: str) -> None:
        raise AssertionError(question)

    def hears(self, server: str) -> bool:
        return False

    def note(self, server: str, method: str, params: Raw) -> None:
        raise AssertionError("it hears nothing")


class Changing(Session):
    """A session that is told when the tools have changed."""

    def __init__(self) -> None:
        super().__init__()
        self.changed = trio.Event()

    async def named(self, name: str) -> Outcome:
        waiting = Waiting()
        call = begin(self.connection, self.connection.offer.tools[name], b"{}", waiting.done)
        assert isinstance(call, PendingCall)
        self.connection.flush()
        return await waiting.outcome()


@asynccontextmanager
async def opened(server: Server, eras: Eras, agent: AgentSide = NOBODY) -> AsyncIterator[Changing]:
    session = Changing()
    async with open_family() as family, trio.open_nursery() as nursery:
        session.connection = Connection(
            server,
            share=SHARE,
            way=StdioWay(server, family),
            eras=eras,
            opening=trio.CapacityLimiter(1),
            checkers=IN_PLACE,
            log=session.log,
            batch_done=session.batch_done,
            changed=session.changed.set,
            agent=agent,
        )
        nursery.start_soon(session.own)
        with trio.fail_after(2 * server.handshake_s):
            await session.opened.wait()
        yield session
        session.connection.close()
    assert session.connection.state is ConnectionState.CLOSED


async def test_a_server_that_refuses_the_probe_is_greeted_and_the_next_one_is_not_probed() -> None:
    eras = Eras()
    server = speaking("refuses")
    async with opened(server, eras) as session:
        assert await session.named("seen") == Answer(
            "server/discover initialize notifications/initialized tools/list tools/call",
            kind=ContentKind.TEXT,
        )
    async with opened(server, eras) as session:
        assert await session.named("seen") == Answer(
            "initialize notifications/initialized tools/list tools/call",
            kind=ContentKind.TEXT,
        )


async def test_a_server_that_exits_on_the_probe_is_started_again() -> None:
    eras = Eras()
    server = speaking("exits")
    async with opened(server, eras) as session:
        assert await session.named("seen") == Answer(
            "initialize notifications/initialized tools/list tools/call",
            kind=ContentKind.TEXT,
        )
    assert eras.get(StdioWay(server, None).origin) is Era.LEGACY  # type: ignore[arg-type]


async def test_half_a_line_of_a_server_that_exits_on_the_probe_does_not_spoil_what_the_next_one_says() -> None:
    async with opened(speaking("moans"), Eras()) as session:
        assert await session.named("seen") == Answer(
            "initialize notifications/initialized tools/list tools/call",
            kind=ContentKind.TEXT,
        )


async def test_a_server_that_ignores_the_probe_is_greeted_after_it() -> None:
    # The probe alone takes 3 s of the handshake.
    silent = msgspec.structs.replace(speaking("silent"), handshake_s=30.0)
    async with opened(silent, Eras()) as session:
        assert await session.named("seen") == Answer(
            "server/discover initialize notifications/initialized tools/list tools/call",
            kind=ContentKind.TEXT,
        )


async def test_a_modern_server_gets_no_handshake_and_all_that_it_needs_in_each_request() -> None:
    async with opened(speaking("modern"), Eras()) as session:
        assert session.connection.offer.instructions == "Read."
        outcome = await session.named("meta")
        assert isinstance(outcome, Answer)
        assert isinstance(outcome.content, str)
        assert json.loads(outcome.content)["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
        seen = await session.named("seen")
        assert isinstance(seen, Answer)
        assert isinstance(seen.content, str)
        assert seen.content.split()[:2] == ["server/discover", "tools/list"]


async def test_a_pinned_revision_is_not_probed_for() -> None:
    async with opened(speaking("exits", protocol="2025-06-18"), Eras()) as session:
        assert await session.named("seen") == Answer(
            "initialize notifications/initialized tools/list tools/call",
            kind=ContentKind.TEXT,
        )


async def test_a_modern_server_that_is_pinned_to_an_old_revision_is_unavailable() -> None:
    async with opened(speaking("modern", protocol="2025-06-18"), Eras()) as session:
        assert "2026-07-28" in str(session.fault().extras["reason"])


async def test_a_remembered_era_that_proved_wrong_is_found_anew() -> None:
    eras = Eras()
    server = speaking("modern")
    eras.keep(StdioWay(server, None).origin, Era.LEGACY)  # type: ignore[arg-type]
    async with opened(server, eras) as session:
        assert "meta" in session.connection.offer.tools
    assert eras.get(StdioWay(server, None).origin) is Era.MODERN  # type: ignore[arg-type]


@pytest.mark.parametrize("era", ["refuses", "modern"])
async def test_tools_that_change_are_listed_again(era: str) -> None:
    async with opened(speaking(era), Eras()) as session:
        before = set(session.connection.offer.tools)
        await session.named("change")
        with trio.fail_after(SOON_S):
            await session.changed.wait()
        (added,) = set(session.connection.offer.tools) - before
        assert added in session.connection.offer.listed
        assert isinstance(await session.named(added), Answer)


async def test_what_a_modern_server_asks_is_answered_by_the_agent_in_a_second_request() -> None:
    async with opened(speaking("modern"), Eras(), Person()) as session:
        outcome = await session.named("ask")
        assert isinstance(outcome, Answer)
        assert isinstance(outcome.content, str)
        responses, state = json.loads(outcome.content)
        assert responses == {"who": {"action": "accept", "content": {"name": "Ada"}}}
        assert state == "s1"


async def test_what_no_agent_answers_fails_the_call_and_not_the_connection() -> None:
    async with opened(speaking("modern"), Eras()) as session:
        outcome = await session.named("ask")
        assert isinstance(outcome, Fault)
        assert "a person's answer (elicitation)" in outcome.detail
        assert isinstance(await session.named("meta"), Answer)


class Silent(Person):
    """An agent that never answers."""

    def __init__(self) -> None:
        self.withdrawn: list[str] = []
        self.asked = trio.Event()

    def ask(self, server: str, asked: Sequence[Question], origin: object = None) -> list[str]:
        self.asked.set()
        return ["q1"]

    def withdraw(self, question: str) -> None:
        self.withdrawn.append(question)


@pytest.mark.parametrize("end", ["cancel", "expire", "close"])
async def test_a_call_that_waits_for_its_agent_can_end_in_every_way(end: str) -> None:
    agent = Silent()
    async with opened(speaking("modern"), Eras(), agent) as session:
        waiting = Waiting()
        connection = session.connection
        call = begin(connection, connection.offer.tools["ask"], b"{}", waiting.done)
        assert isinstance(call, PendingCall)
        connection.flush()
        with trio.fail_after(SOON_S):
            await agent.asked.wait()
        if end == "cancel":
            connection.cancel(call, "no need")
        elif end == "expire":
            connection.expire(call)
        else:
            connection.close()
        assert agent.withdrawn == ["q1"]
        assert len(waiting.outcomes) == (1 if end == "close" else 0)
        if end != "close":
            assert connection.state is ConnectionState.OPEN
            assert isinstance(await session.named("meta"), Answer)


async def test_a_traced_server_is_logged_by_kind_and_size_and_never_by_what_is_said() -> None:
    server = msgspec.structs.replace(speaking("refuses", protocol="2025-11-25"), traced=True)
    async with opened(server, Eras()) as session:
        await session.named("seen")
    said = [(event, fields["method"], fields["number"]) for event, fields in session.log.said]
    assert said == [
        ("message sent", "initialize", 1),
        ("message received", None, 1),
        ("message sent", "notifications/initialized", None),
        ("message sent", "tools/list", 2),
        ("message received", None, 2),
        ("message sent", "tools/call", 3),
        ("message received", None, 3),
    ]
    assert all(set(fields) == {"method", "number", "bytes"} for _, fields in session.log.said)
