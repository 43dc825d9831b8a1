"""Who may administer the daemon: everybody else gets one and the same fault, and the right ends with its session."""

import os
import time

import msgspec
import pytest
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.agent.fakes import ANYONE, OWN_USER, Agent, code_of, open_runtime
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.session.administration import AdminChannel, is_owner
from tooldispatchd.agent.session.entrance import Visitor
from tooldispatchd.agent.session.host import ChannelHost
from tooldispatchd.agent.session.lineage import Lineage, RootUsage
from tooldispatchd.agent.session.session import Session
from tooldispatchd.agent.setup import Setup
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.specs import Config, ProfileSpec
from tooldispatchd.wire.messages import AdminReq, AdminResp
from tooldispatchd.wire.session import State


class Recorded:
    """An admin side that answers each line with nothing, and knows which channels lost it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.dismissed: list[AdminChannel] = []
        self.forgotten: list[AdminChannel] = []

    def take(self, asked: AdminReq, channel: AdminChannel, *, line: int) -> None:
        self.asked.append(asked.ask)
        channel.say(AdminResp(asked.id, msgspec.Raw(b"{}")))

    def owes(self, channel: AdminChannel) -> bool:
        return False

    def dismiss(self, channel: AdminChannel) -> None:
        self.dismissed.append(channel)

    def forget(self, channel: AdminChannel) -> None:
        self.forgotten.append(channel)


def catalog(**profiles: ProfileSpec) -> Catalog:
    built = build_catalog(Config(agents={"default": ProfileSpec(), **profiles}))
    assert isinstance(built, Catalog)
    return built


def administered(runtime: Runtime) -> Recorded:
    side = runtime.services.admin = Recorded()
    return side


def request(ask: str, **fields: object) -> dict[str, object]:
    return {"__port": "admin_req", "id": "1", "ask": ask, **fields}


def refusal(line: int) -> dict[str, object]:
    detail = "this channel does not administer the daemon"
    told = {"__port": "fault", "error": "not_allowed", "category": "denied", "detail": detail}
    return {**told, "line": line, "id": "1"}


ASKED = [request("status"), request("level", level="debug"), request("end", session=1), request("dance")]


@pytest.mark.parametrize("profiles", [{}, {"operator": ProfileSpec(admin=True)}])
async def test_whatever_is_asked_for_by_others_gets_the_same_fault(
    autojump_clock: MockClock, profiles: dict[str, ProfileSpec]
) -> None:
    async with open_runtime(catalog(**profiles)) as runtime:
        side = administered(runtime)
        agent = Agent(runtime)
        await agent.say(*ASKED)
        await agent.end_input()
        assert await agent.hear_all() == [refusal(line) for line in (1, 2, 3, 4)]
    assert side.asked == []


async def test_without_anything_that_answers_nobody_administers_the_daemon(autojump_clock: MockClock) -> None:
    async with open_runtime(catalog(operator=ProfileSpec(admin=True))) as runtime:
        agent = Agent(runtime)
        await agent.say({"__port": "hello", "profile": "operator"}, request("status"))
        await agent.end_input()
        ready, refused = await agent.hear_all()
    assert isinstance(ready, dict)
    assert ready["capabilities"]["admin"] is False
    assert refused == refusal(2)


async def test_an_open_session_of_the_whole_profile_has_the_right_and_it_ends_with_that(
    autojump_clock: MockClock,
) -> None:
    async with open_runtime(catalog(operator=ProfileSpec(admin=True))) as runtime:
        side = administered(runtime)
        agent = Agent(runtime)
        hello = {"__port": "hello", "profile": "operator"}
        await agent.say({**hello, "agent": "part", "spec": {"tools": []}}, request("status"))
        ready = await agent.hear()
        assert isinstance(ready, dict)
        assert ready["capabilities"]["admin"] is False
        assert await agent.hear() == refusal(2)
        await agent.say({**hello, "agent": "whole"}, request("status"))
        ready = await agent.hear()
        assert isinstance(ready, dict)
        assert ready["capabilities"]["admin"] is True
        assert await agent.hear() == {"__port": "admin_resp", "id": "1", "value": {}}
        assert side.dismissed == []
        await agent.say({"__port": "bye", "agent": "whole"}, request("status"))
        assert await agent.hear() == {"__port": "bye", "agent": "whole"}
        assert await agent.hear() == refusal(6)
        assert side.dismissed == [agent.host]
        await agent.end_input()
        assert await agent.hear() == "the end"
    assert side.forgotten == [agent.host]


async def test_where_a_profile_has_the_right_the_daemons_own_user_has_it_no_more(autojump_clock: MockClock) -> None:
    parent = Visitor(os.geteuid(), os.getegid(), os.getppid(), accepted_at=time.clock_gettime(time.CLOCK_BOOTTIME))
    assert is_owner(parent, own_uid=os.geteuid())
    async with open_runtime(catalog(operator=ProfileSpec(admin=True))) as runtime:
        administered(runtime)
        agent = Agent(runtime, entrance=ANYONE, visitor=msgspec.structs.replace(parent, uid=0))
        await agent.say(request("status"))
        await agent.end_input()
        assert await agent.hear_all() == [refusal(1)]


async def test_a_called_agent_never_administers_the_daemon(autojump_clock: MockClock) -> None:
    built = catalog(operator=ProfileSpec(admin=True))
    async with open_runtime(built) as runtime:
        administered(runtime)
        caller = Agent(runtime)
        lineage = Lineage(RootUsage(object(), 1, caller.share), 1).below()
        # The channel is nobody's: nothing is said on it.
        called = ChannelHost(
            lambda: runtime,
            caller.channel,
            lambda _host: None,
            entrance=ANYONE,
            visitor=OWN_USER,
            lineage=lineage,
        )
        assert isinstance(called.open_called(built.profiles["operator"]), Session)
        assert called.administrators == ("operator",)
        assert not called.may_administer
        called.gone("it ended")
        await caller.end_input()


async def test_a_right_that_the_latest_configuration_has_not_is_none(autojump_clock: MockClock) -> None:
    async with open_runtime(catalog(operator=ProfileSpec(admin=True))) as runtime:
        administered(runtime)
        setup = Setup(catalog(operator=ProfileSpec(), other=ProfileSpec(admin=True)), runtime.setup.log, uid=1000)
        latest = [runtime]
        agent = Agent(runtime)
        host = ChannelHost(lambda: latest[-1], agent.channel, lambda _host: None, entrance=ANYONE, visitor=OWN_USER)
        host.received(b'{"__port":"hello","profile":"operator"}\n')
        rights = [host.may_administer]
        latest.append(Runtime(setup, runtime.services, runtime.state))
        rights.append(host.may_administer)
        assert rights == [True, False]
        host.gone("it ended")
        await agent.end_input()


def test_an_owner_is_the_daemons_user_or_root_at_a_listening_socket_and_no_process_below_the_daemon() -> None:
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    parent = Visitor(1000, 1000, os.getppid(), accepted_at=now)
    found = {
        "own": is_owner(parent, own_uid=1000),
        "root": is_owner(msgspec.structs.replace(parent, uid=0), own_uid=1000),
        "another": is_owner(parent, own_uid=1001),
        "nobody over HTTP": is_owner(Visitor(-1, -1), own_uid=1000),
        "not accepted": is_owner(msgspec.structs.replace(parent, accepted_at=None), own_uid=1000),
        "unseen": is_owner(msgspec.structs.replace(parent, pid=None), own_uid=1000),
        "below": is_owner(msgspec.structs.replace(parent, pid=os.getpid()), own_uid=1000),
        "gone": is_owner(msgspec.structs.replace(parent, accepted_at=now - 1e9), own_uid=1000),
        "a pair": is_owner(OWN_USER, own_uid=1000),
    }
    assert [who for who, may in found.items() if may] == ["own", "root"]


async def test_an_administrator_looks_on_while_the_daemon_drains_and_an_agent_does_not(
    autojump_clock: MockClock,
) -> None:
    async with open_runtime(catalog(operator=ProfileSpec(admin=True))) as runtime:
        side = administered(runtime)
        before, other = Agent(runtime), Agent(runtime)
        hello = {"__port": "hello", "profile": "operator"}
        await before.say(hello, request("status"))
        assert [port(await before.hear()) for _ in range(2)] == ["ready", "admin_resp"]
        await other.say(hello)
        assert port(await other.hear()) == "ready"
        runtime.state.is_draining = True
        for each in (before, other):
            each.host.drain()
        await wait_all_tasks_blocked()
        # Its session has ended; and nothing is kept for one that has never asked.
        assert (before.host.sessions[0].machine.state, before.host.is_staying) == (State.CLOSED, True)
        assert await other.hear_all() == []
        await before.say(request("calls"))
        assert port(await before.hear()) == "admin_resp"
        after, agent = Agent(runtime), Agent(runtime)
        await after.say(hello, request("sessions"))
        assert [code_of(await after.hear()), port(await after.hear())] == ["draining", "admin_resp"]
        await agent.say({"__port": "hello"}, request("sessions"))
        assert [code_of(line) for line in await agent.hear_all()] == ["draining", "not_allowed"]
        for each in (before, after):
            each.host.abort()
            assert await each.hear_all() == []
    assert side.asked == ["status", "calls", "sessions"]


def port(line: object) -> object:
    assert isinstance(line, dict)
    return line["__port"]
