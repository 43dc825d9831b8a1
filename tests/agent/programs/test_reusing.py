"""Children that serve several calls of a session: what each has to itself, and when the next call may have it."""

import os
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest
import trio

from tests.agent.agents_below import PRELUDE, World, agents_catalog, open_world, until
from tests.agent.fakes import Agent, HeldPlan, code_of
from tests.fuzz.plans import READ_ANYTHING
from tooldispatchd.agent.calls.plans import CommandPlan
from tooldispatchd.agent.programs.programs import Program
from tooldispatchd.catalog.offered import Offered
from tooldispatchd.catalog.schemas import ACCEPT
from tooldispatchd.providers.process.running import Command

pytestmark = pytest.mark.usefixtures("nothing_left")

# For the input 1 it asks for what takes long and does not wait for it; it answers with its own number.
LEAVES: Final = """
while IFS= read -r line; do
  if [ "$line" = 1 ]; then
    printf '%s\\n' '{"id":"long","name":"held"}' >&4
    ask '{"id":"short","name":"echo","input":5}'
  fi
  echo $$
done
"""


def reused_agent(world: World, name: str, script: str) -> CommandPlan:
    """A tool whose agents, which `script` is, each serve several calls under the profile of its name."""
    command = Command(argv=("sh", "-c", PRELUDE + script), env={}, cwd=None, max_output_bytes=1000)
    return CommandPlan(
        world.runtime,
        Offered(name=name, input_schema={}),
        Program(command, profile=name, reuse=9),
        read=READ_ANYTHING,
        output=ACCEPT,
        limit_s=20.0,
        place=world.runtime.state.agent_place,
    )


@asynccontextmanager
async def reusing() -> AsyncIterator[tuple[World, Agent]]:
    """Who is left calls no more; then all that was theirs must be gone, but for the daemon's watch of idle children."""
    async with open_world(agents_catalog("one")) as world:
        runtime = world.runtime
        world.offer("default", reused_agent(world, "one", LEAVES))
        root = Agent(runtime)
        yield world, root
        await root.end_input()
        await until(lambda: not runtime.state.open_sessions.total)
        assert len(runtime.services.family) == 0
        runtime.services.home.cancel_scope.cancel()


@asynccontextmanager
async def midway() -> AsyncIterator[tuple[World, Agent, HeldPlan]]:
    """The call `a` has its answer, but what its agent asked for has been told to end and has not ended yet."""
    async with reusing() as (world, root):
        held = HeldPlan(lingers=True)
        world.offer("one", held)
        await root.call("a", "one", input=1)
        await until(lambda: bool(held.halted))
        yield world, root, held


def pid_in(line: object, call_id: str) -> int:
    assert isinstance(line, dict)
    assert (line["id"], line["is_error"]) == (call_id, False), line
    return int(line["content"])


async def test_a_child_serves_no_other_call_before_all_that_it_asked_for_has_ended() -> None:
    async with midway() as (_, root, held):
        await root.call("b", "one", input=2)
        with trio.fail_after(10):
            other = pid_in(await root.hear(), "b")
        held.finish("long")
        first = pid_in(await root.hear(), "a")
        assert first != other


async def test_a_child_serves_the_next_call_once_all_that_it_asked_for_has_ended() -> None:
    async with midway() as (_, root, held):
        held.finish("long")
        first = pid_in(await root.hear(), "a")
        await root.call("b", "one", input=2)
        assert pid_in(await root.hear(), "b") == first


async def test_a_session_that_is_gone_waits_for_what_its_child_asked_for() -> None:
    async with midway() as (world, root, held):
        root.host.gone("the test says so")
        assert world.runtime.state.open_sessions.total == 2
        held.finish("long")
        await until(lambda: not world.runtime.state.open_sessions.total)


async def test_where_descriptors_are_lacking_every_call_is_told_and_no_channel_is_left() -> None:
    async with reusing() as (world, root):
        # Its guardians, which come with the first child, stay.
        await world.runtime.services.family.spawn(("true",)).kill()
        await root.call("warm", "echo", input=1)
        await root.hear()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        before = world.held()
        codes = []
        for spare in range(40):
            lowest = os.dup(0)
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + spare, hard))
            os.close(lowest)
            try:
                await root.call(f"c{spare}", "one", input=2)
                line = await root.hear()
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert isinstance(line, dict)
            if not line["is_error"]:
                break
            codes.append(code_of(line))
            await until(lambda: world.held() == before)
        assert set(codes) == {"tool_failed"}
        assert len(codes) > 5
