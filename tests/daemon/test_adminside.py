"""The door to the wing for administrators: it is opened once, and what cannot be loaded ends no daemon."""

import sys

import pytest
from trio.testing import MockClock

from tests.admin.running import Running, administered, answer_to, ask
from tooldispatchd.daemon.adminside import AdminDoor
from tooldispatchd.wire.messages import AdminReq


async def test_a_wing_that_cannot_be_loaded_is_an_incident_and_the_next_line_tries_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with administered() as (runtime, agent):
        runtime.services.admin = AdminDoor(Running(), lambda: runtime)
        with monkeypatch.context() as upgraded:
            # As Python notes what must not be imported.
            upgraded.setitem(sys.modules, "tooldispatchd.admin.acts", None)
            await agent.say(*({"__port": "admin_req", "id": name, "ask": "status"} for name in "ab"))
            refused = [await agent.hear(), await agent.hear()]
        assert [(line["id"], line["error"], line["incident"]) for line in refused if isinstance(line, dict)] == [
            ("a", "internal_error", "fake-incident"),
            ("b", "internal_error", "fake-incident"),
        ]
        assert "state" in await ask(agent, "status")
        runtime.setup.log.incidents.clear()  # type: ignore[attr-defined]  # it is a ledger
        await agent.end_input()


async def test_a_channel_that_leaves_meanwhile_has_nothing_loaded_twice(autojump_clock: MockClock) -> None:
    running = Running()
    async with administered(running=running) as (runtime, agent):
        runtime.services.admin = door = AdminDoor(running, lambda: runtime)
        door.take(AdminReq("1", "status"), agent.host, line=1)
        door.forget(agent.host)
        await answer_to(agent, "log", id="s")
        await agent.pause(1)
        assert await ask(agent, "stop", of="s") == {}
        assert running.log_output.wanted == 20
        await agent.end_input()
