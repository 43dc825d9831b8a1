"""Agents that a call starts: what they may call, whose it is, and that nothing of them is left when the call ends."""

import json
import os
import resource
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from tests.agent.agents_below import World, agents_catalog, open_world, until
from tests.agent.fakes import Agent, HeldPlan, answer, code_of, fault_of
from tests.processes import is_running
from tooldispatchd.calls.stages import Reason
from tooldispatchd.catalog.specs import LimitsSpec, McpSpec

pytestmark = pytest.mark.usefixtures("nothing_left")

# What a call has that is to end by itself; long enough for its agents to have started on a busy machine.
TIGHT_MS: Final = 1500
ECHO: Final = """ask '{"id":"1","name":"echo","input":5}'\n"""
ANSWER: Final = """printf '%s' "$answer"\n"""


def content_of(line: object) -> object:
    """The value that an answer bears, which must be no fault."""
    assert isinstance(line, dict)
    assert not line["is_error"], line
    return json.loads(line["content"])


async def until_started(plan: HeldPlan) -> None:
    await until(lambda: bool(plan.started))


async def test_an_agent_that_is_called_calls_tools_of_its_own_profile() -> None:
    async with open_world(agents_catalog("one")) as world:
        world.offer("default", world.agent("one", ECHO + ANSWER))
        root = Agent(world.runtime)
        await root.call("outer", "one")
        assert content_of(await root.hear()) == answer("1", "5")
        await root.end_input()


async def test_the_clients_of_the_project_work_in_an_agent_below_as_under_run() -> None:
    program = """
import json, os
from tooldispatchd.client.blocking import inherit
with inherit() as agent:
    ready = agent.hello(meta=True)
    first = agent.call("echo", 1).content
    second = agent.call("two", "x")
    channel = os.environ["TOOLDISPATCHD_CHANNEL"]
    print(json.dumps([ready.profile, first, second.content, second.meta.child, channel]))
"""
    async with open_world(agents_catalog("one", "two", limits=LimitsSpec(agent_depth=2))) as world:
        world.offer("default", world.python("one", program))
        world.offer("one", world.agent("two", ECHO + "printf 7"))
        root = Agent(world.runtime)
        await root.call("outer", "one")
        assert content_of(await root.hear()) == ["one", "1", "7", 3, "4,5"]
        await root.end_input()


async def test_meta_names_the_session_of_the_agent_as_the_log_does() -> None:
    """[M148]"""
    async with open_world(agents_catalog("one")) as world:
        world.offer("default", world.agent("one", "printf 1"))
        root = Agent(world.runtime)
        await root.say({"__port": "hello", "meta": True})
        await root.hear()
        await root.call("outer", "one")
        heard = await root.hear()
        assert isinstance(heard, dict)
        opened = world.diary.about("session opened")
        assert opened[1]["profile"] == "one"
        assert heard["meta"]["child"] == opened[1]["session"]
        assert (opened[1]["root"], opened[1]["parent"], opened[1]["depth"]) == (opened[0]["session"],) * 2 + (1,)
        await root.end_input()


async def test_an_agent_at_the_last_level_calls_tools_and_no_agents() -> None:
    """[M149]"""
    script = """ask '{"id":"1","name":"two"}'\n""" + ANSWER
    async with open_world(agents_catalog("one", "two")) as world:
        below = world.agent("two", "printf 2")
        world.offer("default", world.agent("one", script))
        world.offer("one", below)
        root = Agent(world.runtime)
        await root.call("outer", "one")
        fault = fault_of(content_of(await root.hear()))
        assert (fault["error"], fault["limit"], fault["depth"]) == ("not_allowed", "agent_depth", 2)
        assert below.pids == []
        await root.end_input()


async def test_where_agents_may_not_call_at_all_they_run_without_a_channel() -> None:
    script = 'printf \'"%s"\' "${TOOLDISPATCHD_CHANNEL-none}"; { true <&5; } 2>/dev/null && exit 9; true'
    async with open_world(agents_catalog("one", limits=LimitsSpec(agent_depth=0))) as world:
        world.offer("default", world.agent("one", script))
        root = Agent(world.runtime)
        await root.call("outer", "one")
        assert content_of(await root.hear()) == "none"
        assert world.runtime.state.open_sessions.total == 1
        await root.end_input()


@asynccontextmanager
async def midway(
    *, lingers: bool = False, deadline_ms: int = 20_000
) -> AsyncIterator[tuple[World, Agent, HeldPlan, list[int]]]:
    """A root whose agent `one` waits for a call that a test ends, and for an agent `two` of its own, which sleeps.

    The last is the pids of both; leaving sees to it that nothing of them is left, but the root's own session.
    """
    script = """printf '%s\\n' '{"id":"1","name":"held"}' '{"id":"2","name":"two"}' >&4; IFS= read -r answer; """
    async with open_world(agents_catalog("one", "two", limits=LimitsSpec(agent_depth=2))) as world:
        held = HeldPlan(lingers=lingers)
        one, two = world.agent("one", script + "sleep 100"), world.agent("two", "sleep 100")
        world.offer("default", one, world.agent("warm", "true", profile="one"))
        world.offer("one", held, two)
        root = Agent(world.runtime)
        # The first child brings what all children share.
        await root.call("warm", "warm")
        await root.hear()
        _, *before = world.held()
        await root.call("outer", "one", deadline_ms=deadline_ms)
        await until(lambda: bool(held.started and two.pids))
        assert world.runtime.state.open_sessions.total == 3
        pids = one.pids + two.pids
        yield world, root, held, pids
        sessions, *others = world.held()
        assert sessions <= 1
        assert others == before
        assert not any(map(is_running, pids))
        await root.end_input()


@pytest.mark.parametrize("end", ["tool_cancel", "kill", "deadline"])
async def test_however_a_call_ends_nothing_of_its_agent_is_left_when_it_is_answered(end: str) -> None:
    """[M150]"""
    async with midway(deadline_ms=TIGHT_MS if end == "deadline" else 20_000) as (_, root, held, pids):
        if end == "tool_cancel":
            await root.say({"__port": "tool_cancel", "id": "outer"})
        elif end == "kill":
            os.killpg(pids[0], signal.SIGKILL)
        code = {"tool_cancel": "cancelled", "kill": "tool_failed", "deadline": "timeout"}[end]
        assert code_of(await root.hear()) == code
        assert held.halted == [("1", Reason.CANCELLED)]


async def test_an_agent_that_is_gone_takes_all_agents_below_it_along() -> None:
    async with midway() as (world, root, _, _):
        root.host.gone("the test says so")
        await until(lambda: not world.runtime.state.open_sessions.total)


async def test_a_call_is_not_answered_before_the_last_call_of_its_agent_has_ended() -> None:
    async with midway(lingers=True) as (_, root, held, _):
        await root.say({"__port": "tool_cancel", "id": "outer"})
        await until(lambda: bool(held.halted))
        await root.call("2", "echo", input=2)
        assert await root.hear() == answer("2", "2")
        held.finish("1")
        assert code_of(await root.hear()) == "cancelled"


async def test_an_inner_call_has_no_longer_than_the_outer_one_has_left() -> None:
    """[M151]"""
    async with open_world(agents_catalog("one")) as world:
        held = HeldPlan(lingers=True)
        world.offer("default", world.agent("one", """ask '{"id":"1","name":"held","deadline_ms":60000}'"""))
        world.offer("one", held)
        root = Agent(world.runtime)
        await root.call("outer", "one", deadline_ms=200)
        await until_started(held)
        inner = held.running["1"]
        assert inner.ends_at <= inner.started_at + 0.2
        await until(lambda: bool(held.halted))
        assert held.halted == [("1", Reason.CANCELLED)]
        held.finish("1")
        assert code_of(await root.hear()) == "timeout"
        await root.end_input()


async def test_what_agents_below_do_is_in_the_books_of_their_root() -> None:
    script = ECHO + """ask '{"id":"2","name":"nothing"}'; ask '{"id":"3","name":"two"}'; printf 1"""
    async with open_world(agents_catalog("one", "two", limits=LimitsSpec(agent_depth=2))) as world:
        world.offer("default", world.agent("one", script))
        world.offer("one", world.agent("two", ECHO + "printf 2"))
        root = Agent(world.runtime)
        await root.call("outer", "one")
        await root.hear()
        await root.end_input()
        await root.hear()
        closed = {line["profile"]: line for line in world.diary.about("session closed")}
        figures = {name: (line["answered"], line["faults"]) for name, line in closed.items()}
        assert figures == {"two": (1, 0), "one": (3, 1), "default": (5, 1)}


async def test_bytes_in_flight_below_count_as_the_root_s() -> None:
    large = "x" * 3000
    script = f"""printf '{{"id":"1","name":"held"}}\\n' >&4; ask '{{"id":"2","name":"held","input":"{large}"}}'\n"""
    async with open_world(agents_catalog("one", limits=LimitsSpec(in_flight_bytes=4096))) as world:
        held = HeldPlan()
        world.offer("default", world.agent("one", script + ANSWER), held)
        world.offer("one", held)
        root = Agent(world.runtime)
        await root.call("mine", "held", input=large)
        await root.call("outer", "one")
        fault = fault_of(content_of(await root.hear()))
        assert (fault["error"], fault["what"]) == ("too_many", "in_flight_bytes")
        held.finish("mine")
        await root.hear()
        assert world.runtime.state.memory.held == root.share.held == 0
        await root.end_input()


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ('{"__port":"hello","profile":"default"}', "not_authenticated"),
        ('{"__port":"hello","agent":"a"}', "not_allowed"),
        ('{"__port":"hello","spec":{}}', "invalid_request"),
        ('{"__port":"hello","schemas":"runes"}', "invalid_request"),
    ],
)
async def test_a_hello_for_anything_but_its_own_profile_is_refused_and_harms_nothing(line: str, code: str) -> None:
    """[M152]"""
    async with open_world(agents_catalog("one")) as world:
        script = f"""ask '{line}'; said=$answer; {ECHO} printf '[%s,%s]' "$said" "$answer" """
        world.offer("default", world.agent("one", script))
        root = Agent(world.runtime)
        await root.call("outer", "one")
        heard = content_of(await root.hear())
        assert isinstance(heard, list)
        refused, echoed = heard
        assert (code_of(refused), echoed) == (code, answer("1", "5"))
        await root.end_input()


async def test_an_agent_finds_its_tools_in_a_file_that_is_gone_after_it(tmp_path: Path) -> None:
    script = """printf '[%s,%s]' "$(cat "$TOOLDISPATCHD_TOOLS")" "$(cat "$PLUMB_MCP_TOOLS")" """
    async with open_world(agents_catalog("one"), directory=tmp_path) as world:
        world.offer("default", world.agent("one", script))
        root = Agent(world.runtime)
        await root.call("outer", "one")
        said = content_of(await root.hear())
        assert isinstance(said, list)
        tools, of_servers = said
        assert tools[0]["name"] == "echo"
        assert of_servers == []
        assert list(tmp_path.iterdir()) == []
        await root.end_input()


async def test_an_agent_that_reads_no_answers_any_more_is_heard_no_more() -> None:
    script = """trap '' PIPE; printf '{"id":"1","name":"held"}\\n' >&4; exec 5<&-
while printf '{"id":"2","name":"echo"}\\n' >&4; do :; done 2>/dev/null; printf 1"""
    async with open_world(agents_catalog("one")) as world:
        held = HeldPlan()
        world.offer("default", world.agent("one", script))
        world.offer("one", held)
        root = Agent(world.runtime)
        await root.call("outer", "one")
        assert content_of(await root.hear()) == 1
        assert held.halted in ([], [("1", Reason.CANCELLED)])
        assert world.runtime.state.open_sessions.total == 1
        await root.end_input()


async def test_an_agent_that_asks_no_more_still_gets_its_answers() -> None:
    script = """printf '{"id":"1","name":"held"}\\n' >&4; exec 4>&-; IFS= read -r answer <&5; cat <&5\n""" + ANSWER
    async with open_world(agents_catalog("one")) as world:
        held = HeldPlan()
        world.offer("default", world.agent("one", script))
        world.offer("one", held)
        root = Agent(world.runtime)
        await root.call("outer", "one")
        await until_started(held)
        held.finish("1")
        assert content_of(await root.hear()) == answer("1")
        await root.end_input()


async def test_an_agent_that_says_bye_is_told_when_its_session_has_ended() -> None:
    async with open_world(agents_catalog("one")) as world:
        world.offer("default", world.agent("one", """printf '{"__port":"bye"}\\n' >&4; cat <&5"""))
        root = Agent(world.runtime)
        await root.call("outer", "one")
        assert content_of(await root.hear()) == {"__port": "bye"}
        await root.end_input()


async def test_a_daemon_that_drains_serves_the_agents_of_calls_that_were_let_in() -> None:
    async with open_world(agents_catalog("one")) as world:
        world.offer("default", world.agent("one", ECHO + ANSWER))
        root = Agent(world.runtime)
        await root.call("0", "echo", input=1)
        await root.hear()
        world.runtime.state.is_draining = True
        await root.call("outer", "one")
        assert content_of(await root.hear()) == answer("1", "5")
        await root.end_input()


async def test_an_agent_that_floods_its_channel_harms_nobody_and_ends_with_its_call() -> None:
    lines = r"""{"id":"1","name":"echo","input":[1,2,3]}\n{"__port":"hello"}\nrubbish\n"""
    flood = f"while :; do printf '{lines}'; done >&4"
    async with open_world(agents_catalog("one")) as world:
        one = world.agent("one", flood)
        world.offer("default", one)
        root, bystander = Agent(world.runtime), Agent(world.runtime)
        await root.call("outer", "one", deadline_ms=400)
        await until(lambda: bool(one.pids))
        for number in range(20):
            await bystander.call(str(number), "echo", input=number)
            assert await bystander.hear() == answer(str(number), str(number))
        assert code_of(await root.hear()) == "timeout"
        assert world.runtime.state.memory.held == 0
        await root.end_input()
        await bystander.end_input()


async def test_without_room_for_a_session_nothing_is_started() -> None:
    async with open_world(agents_catalog("one", limits=LimitsSpec(sessions=1))) as world:
        one = world.agent("one", "printf 1")
        world.offer("default", one)
        root = Agent(world.runtime)
        await root.call("outer", "one")
        assert code_of(await root.hear()) == "too_many"
        assert one.pids == []
        await root.end_input()


async def test_without_descriptors_for_a_channel_nothing_is_started() -> None:
    async with open_world(agents_catalog("one")) as world:
        one = world.agent("one", "printf 1")
        world.offer("default", one)
        root = Agent(world.runtime)
        with nearly_every_descriptor_taken():
            await root.call("outer", "one")
            fault = fault_of(await root.hear())
        assert (fault["error"], one.pids, world.runtime.state.open_sessions.total) == ("tool_failed", [], 1)
        await root.end_input()


@contextmanager
def nearly_every_descriptor_taken() -> Iterator[None]:
    """Leave so few that one pipe can be opened, and not two."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    spare = []
    try:
        with suppress(OSError):
            while True:
                spare.append(os.dup(0))
        for _ in range(3):
            os.close(spare.pop())
        yield
    finally:
        for fd in spare:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    ("server", "code"),
    [
        # It answers nothing, and ends with its input.
        (McpSpec(command="sh", args=("-c", "cat >/dev/null")), "timeout"),
        (McpSpec(command="false", tools=("search",)), "server_unavailable"),
    ],
    ids=["still starting", "refused"],
)
async def test_an_agent_whose_servers_do_not_come_up_is_not_started(server: McpSpec, code: str) -> None:
    async with open_world(agents_catalog("one", mcp=(server,))) as world:
        one = world.agent("one", "printf 1")
        world.offer("default", one)
        root = Agent(world.runtime)
        await root.call("outer", "one", deadline_ms=400)
        assert code_of(await root.hear()) == code
        assert (one.pids, world.runtime.state.open_sessions.total, len(world.runtime.services.family)) == ([], 1, 0)
        await root.end_input()


def told(lines: list[object]) -> list[tuple[object, ...]]:
    """The kind of each event, and whose it is: its id, its child, its parent and its depth."""
    fields = ("kind", "id", "child", "parent", "depth")
    return [tuple(line.get(field) for field in fields) for line in lines if isinstance(line, dict)]


async def test_the_root_is_told_what_its_agents_do_down_to_the_last_level() -> None:
    script = """ask '{"id":"b","name":"two"}'\n"""
    async with open_world(agents_catalog("one", "two", limits=LimitsSpec(agent_depth=2))) as world:
        world.offer("default", world.agent("one", script + "printf 1"))
        world.offer("one", world.agent("two", ECHO + "printf 2"))
        root = Agent(world.runtime)
        await root.say({"__port": "hello", "events": True})
        await root.hear()
        await root.call("a", "one")
        heard = [await root.hear() for _ in range(11)]
        assert told(heard) == [
            ("tool_started", "a", None, None, None),
            ("child_started", "a", 2, 1, 1),
            ("tool_started", "b", 2, 1, 1),
            ("child_started", "b", 3, 2, 2),
            ("tool_started", "1", 3, 2, 2),
            ("tool_finished", "1", 3, 2, 2),
            ("child_finished", "b", 3, 2, 2),
            ("tool_finished", "b", 2, 1, 1),
            ("child_finished", "a", 2, 1, 1),
            ("tool_finished", "a", None, None, None),
            (None, "a", None, None, None),
        ]
        assert {line["root"] for line in heard[1:9] if isinstance(line, dict)} == {1}
        await root.end_input()


async def test_an_agent_below_hears_of_its_own_calls_alone_and_only_if_it_asked() -> None:
    script = """ask '{"__port":"hello","events":["tool_started"]}'
ask '{"id":"1","name":"echo","input":5}'
IFS= read -r next <&5
"""
    async with open_world(agents_catalog("one")) as world:
        world.offer("default", world.agent("one", script + ANSWER))
        root = Agent(world.runtime)
        await root.call("outer", "one")
        own = content_of(await root.hear())
        assert isinstance(own, dict)
        assert (own["kind"], own["id"], own.get("child")) == ("tool_started", "1", None)
        await root.end_input()


async def test_the_calls_of_an_agent_go_on_in_the_trace_of_the_call_that_started_it() -> None:
    """[M226]"""
    of_root = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    of_agent = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb-01"
    script = f"""ask '{{"id":"1","name":"held"}}'
ask '{{"id":"2","name":"held","traceparent":"{of_agent}"}}'
"""
    async with open_world(agents_catalog("one")) as world:
        held = HeldPlan()
        world.offer("default", world.agent("one", script + "printf 1"))
        world.offer("one", held)
        root = Agent(world.runtime)
        await root.call("outer", "one", traceparent=of_root)
        await until_started(held)
        assert held.running["1"].traceparent == of_root
        held.finish("1")
        await until(lambda: "2" in held.running)
        assert held.running["2"].traceparent == of_agent
        held.finish("2")
        await root.hear()
        await root.end_input()


async def test_the_end_of_all_calls_ends_agents_and_what_they_wait_for() -> None:
    async with midway() as (_, root, held, pids):
        await root.say({"__port": "tool_cancel", "all": True})
        assert code_of(await root.hear()) == "cancelled"
        assert [reason for _, reason in held.halted] == [Reason.CANCELLED]
        assert not any(map(is_running, pids))
