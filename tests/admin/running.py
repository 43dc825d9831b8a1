"""A daemon that runs, as the wing for administrators sees one."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib import import_module

from tests.agent.fakes import Agent, HeldPlan, open_runtime
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.session.administration import LEVELS, Offer, ReadConfiguration
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.specs import Config, LimitsSpec, McpSpec, ProfileSpec
from tooldispatchd.daemon.adminside import WING, AdminDoor
from tooldispatchd.daemon.logs import DaemonLog, LogOutput, LogSink, render_json
from tooldispatchd.wire.faults import Fault

NO_DESCRIPTOR = -1


class Running:
    """It says what it is told to, and writes its log nowhere."""

    def __init__(self) -> None:
        self.started_at = 0.0
        self.began = time.monotonic()
        self.drains_until: float | None = None
        self.listening: tuple[str, ...] = ("unix:/run/dispatch.sock",)
        self.channels = 1
        self.is_stopping = False
        self.longest_turn = (0.0021, "front")
        self.turned_away = self.lost_lines = self.turns_taken = 0
        self.log_output = LogOutput(LogSink(NO_DESCRIPTOR), render_json, level=LEVELS["info"])
        self.log = DaemonLog(self.log_output, {})
        self.configuration: Callable[[], ReadConfiguration] | None = None
        self.reload: Callable[[bool], Awaitable[dict[str, object] | Fault]] | None = None

    def stop(self) -> None:
        self.is_stopping = True

    def offer(self) -> Offer | Fault:
        return Offer([(NO_DESCRIPTOR, "place-0")], self.stop)


@asynccontextmanager
async def administered(
    limits: LimitsSpec | None = None, *plans: HeldPlan, running: Running | None = None
) -> AsyncIterator[tuple[Runtime, Agent]]:
    """A runtime whose default profile administers it, and an agent that has said hello."""
    profiles = {"default": ProfileSpec(admin=True), "other": ProfileSpec()}
    servers = {"unused": McpSpec(command="true")}
    built = build_catalog(Config(limits=limits or LimitsSpec(), agents=profiles, mcp=servers))
    assert isinstance(built, Catalog)
    async with open_runtime(built, *plans) as runtime:
        # Where a thread imports it, the clock of a test runs on.
        import_module(WING)
        runtime.services.admin = AdminDoor(running or Running(), lambda: runtime)
        agent = Agent(runtime)
        await agent.say({"__port": "hello"})
        await agent.hear()
        yield runtime, agent


async def answer_to(agent: Agent, ask: str, **fields: object) -> dict[str, object]:
    """The line that answers; its `id` is `a` unless the fields say another."""
    await agent.say({"__port": "admin_req", "id": "a", "ask": ask, **fields})
    answer = await agent.hear()
    assert isinstance(answer, dict)
    return answer


async def ask(agent: Agent, ask: str, **fields: object) -> dict[str, object]:
    """The value that is answered."""
    answer = await answer_to(agent, ask, **fields)
    assert answer["__port"] == "admin_resp", answer
    value = answer["value"]
    assert isinstance(value, dict)
    return value
