"""The door to the wing for administrators: it is opened once, and whatever fails behind it ends no daemon."""

import sys

import pytest
import trio
from trio.testing import MockClock

from tests.admin.running import Running, administered, answer_to, ask
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.daemon.adminside import WING, AdminDoor
from tooldispatchd.wire.messages import AdminReq


def incidents(runtime: Runtime) -> list[object]:
    """The defects that were logged, which are then forgotten."""
    ledger: list[object] = runtime.setup.log.incidents  # type: ignore[attr-defined]  # it is a ledger
    found = [*ledger]
    ledger.clear()
    return found


async def test_a_wing_that_cannot_be_loaded_is_an_incident_and_the_next_line_tries_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with administered() as (runtime, agent):
        with monkeypatch.context() as upgraded:
            # As Python notes what must not be imported.
            upgraded.setitem(sys.modules, WING, None)
            await agent.say(*({"__port": "admin_req", "id": name, "ask": "status"} for name in "ab"))
            refused = [await agent.hear(), await agent.hear()]
        assert sorted((line["id"], line["error"], line["incident"]) for line in refused if isinstance(line, dict)) == [
            ("a", "internal_error", "fake-incident"),
            ("b", "internal_error", "fake-incident"),
        ]
        assert "state" in await ask(agent, "status")
        assert len(incidents(runtime)) == 2
        await agent.end_input()


async def test_a_channel_that_leaves_meanwhile_is_forgotten(autojump_clock: MockClock) -> None:
    running = Running()
    async with administered(running=running) as (runtime, agent):
        door = runtime.services.admin
        assert isinstance(door, AdminDoor)
        door.take(AdminReq("1", "log", level="debug"), agent.host, line=1)
        door.forget(agent.host)
        await answer_to(agent, "log", id="s")
        await agent.pause(1)
        assert await ask(agent, "stop", of="s") == {}
        await agent.pause(1)
        assert running.log_output.wanted == 20
        await agent.end_input()


async def test_the_time_that_it_is_up_is_not_the_machines_clock(autojump_clock: MockClock) -> None:
    async with administered(running=Running()) as (_runtime, agent):
        status = await ask(agent, "status")
        assert status["started_at"] == 0.0
        assert float(str(status["uptime_s"])) < 60
        await agent.end_input()


async def test_a_request_that_fails_is_a_fault_and_an_incident(autojump_clock: MockClock) -> None:
    running = Running()
    async with administered(running=running) as (runtime, agent):
        del running.started_at
        refused = await answer_to(agent, "status")
        assert (refused["error"], len(incidents(runtime))) == ("internal_error", 1)
        assert await ask(agent, "sessions") != {}
        await agent.end_input()


class Unsayable:
    """A channel that cannot be answered."""

    may_administer = True
    is_closed = is_behind = False
    administrators = ()

    def crowding(self, size: int) -> None: ...
    def say(self, line: object) -> None: ...
    def answered(self) -> None:
        raise LookupError("a defect of the channel")


async def test_an_answer_that_cannot_be_sent_is_an_incident_and_ends_nothing_else(autojump_clock: MockClock) -> None:
    async with administered() as (runtime, agent):
        door = runtime.services.admin
        assert isinstance(door, AdminDoor)
        broken = Unsayable()
        for name in ("sessions", "log"):
            door.take(AdminReq(name, name), broken, line=1)  # type: ignore[arg-type]  # as much as it uses
        await trio.sleep(1)
        assert (len(incidents(runtime)), door.owes(broken)) == (2, False)  # type: ignore[arg-type]  # as above
        assert await ask(agent, "status") != {}
        await agent.end_input()
