"""The children of one tool of one session, all of which are gone when a test is over."""

import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio

from tests.conftest import children, open_descriptors
from tests.providers.process.direct import directly
from tests.unread import settled
from tooldispatchd.children.family import Family
from tooldispatchd.children.spawn import Child
from tooldispatchd.providers.process.reused import IdleChildren, Reused
from tooldispatchd.providers.process.running import ChildStarter, Command, ProgramValue
from tooldispatchd.providers.updates import UpdateLines
from tooldispatchd.wire.faults import Code, Fault

PYTHON: Final = (sys.executable, "-I", "-S", "-u", "-c")

# What every program below begins with: `lines` are its calls, `say` answers, `n` is the call's number from 0 on.
PRELUDE: Final = """
import json, os, signal, sys, time
def say(value): os.write(1, json.dumps(value).encode() + b"\\n")
def lines():
    for n, line in enumerate(iter(sys.stdin.readline, "")): yield n, json.loads(line)
"""
COUNT: Final = "for n, each in lines(): say([os.getpid(), n, each])"


class Bench:
    """The children of one tool of one session, and what became of them."""

    def __init__(self, family: Family, idle: IdleChildren, *, calls: int, launch: ChildStarter | None = None) -> None:
        self.family = family
        self.idle = idle
        self.started: list[Child] = []
        self.pids: list[int] = []
        self.gone: list[int] = []
        self.reused = Reused(idle, calls=calls, gone=self._lose)
        self._went = trio.Event()
        self._launch = launch or directly(family)

    async def launch(self, argv: Sequence[str], /, *, env: Mapping[str, str], with_updates: bool) -> Child:
        child = await self._launch(argv, env=env, with_updates=with_updates)
        self.started.append(child)
        self.pids.append(child.pid)
        return child

    async def call(
        self,
        script: str,
        value: bytes = b"1",
        *,
        max_output_bytes: int = 1 << 20,
        updates: UpdateLines | None = None,
    ) -> ProgramValue | Fault:
        command = program(script, max_output_bytes=max_output_bytes)
        with trio.fail_after(20):
            return settled(await self.reused.run(self.launch, command, value + b"\n", updates=updates), ProgramValue)

    async def until_gone(self, count: int) -> None:
        with trio.fail_after(20):
            while len(self.gone) < count:
                await self._went.wait()

    async def _lose(self, child: Child) -> None:
        self.gone.append(child.pid)
        went, self._went = self._went, trio.Event()
        went.set()


def program(script: str, *, max_output_bytes: int = 1 << 20) -> Command:
    return Command(argv=(*PYTHON, PRELUDE + script), env={}, cwd=None, max_output_bytes=max_output_bytes)


async def until_there(path: Path) -> None:
    with trio.fail_after(20):
        while not path.exists():  # noqa: ASYNC110  # another process tells it
            await trio.sleep(0.002)


def failed(outcome: ProgramValue | Fault) -> Fault:
    assert isinstance(outcome, Fault)
    assert outcome.code is Code.TOOL_FAILED
    return outcome


@asynccontextmanager
async def open_bench(family: Family, *, calls: int = 100, most: int = 64) -> AsyncIterator[Bench]:
    """Whatever happens within, no child and no descriptor is left of it."""
    before = open_descriptors(), children()
    async with trio.open_nursery() as home:
        bench = Bench(family, IdleChildren(home, most=most), calls=calls)
        yield bench
        await bench.reused.close()
        assert sorted(bench.gone) == sorted(bench.pids)
        assert len(bench.idle) == 0
        home.cancel_scope.cancel()
    assert (open_descriptors(), children()) == before
    assert len(family) == 0
