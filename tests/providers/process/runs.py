"""Calls of programs, each bounded, after which nothing of the call may be left."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
import trio

from tests.conftest import children, open_descriptors
from tests.providers.process.direct import directly
from tests.unread import settled
from tooldispatchd.catalog.arguments import Feed, parse_template
from tooldispatchd.catalog.outputs import Output
from tooldispatchd.children.endings import NO_LIMITS, Limits
from tooldispatchd.children.family import Family
from tooldispatchd.providers.process.running import Command, ProgramValue, run_command
from tooldispatchd.wire.faults import Fault

LINE: Final = b'{"n":1}\n'
PYTHON: Final = (sys.executable, "-I", "-S", "-c")
MAX_OUTPUT_BYTES: Final = 1 << 20


@contextmanager
def nothing_held(family: Family) -> Iterator[None]:
    """Whatever the call came to, its child is reaped and its descriptors are closed when it is over."""
    before = open_descriptors(), children()
    yield
    assert (open_descriptors(), children()) == before
    assert len(family) == 0


def command(
    *argv: str,
    cwd: str | None = None,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
    limits: Limits = NO_LIMITS,
    output: Output = Output.JSON,
) -> Command:
    return Command(argv, env={}, cwd=cwd, max_output_bytes=max_output_bytes, limits=limits, output=output)


def sh(
    script: str,
    *,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
    limits: Limits = NO_LIMITS,
    output: Output = Output.JSON,
) -> Command:
    return command("sh", "-c", script, max_output_bytes=max_output_bytes, limits=limits, output=output)


def args(*templates: str, is_record: bool = True) -> Feed:
    """What takes its input in its arguments."""
    return Feed("args", templates=tuple(map(parse_template, templates)), is_record=is_record)


def fed(command: Command, feed: Feed) -> Command:
    return msgspec.structs.replace(command, feed=feed)


async def run(
    family: Family, command: Command, line: bytes = LINE, *, passed: Callable[[], str | None] | None = None
) -> ProgramValue | Fault:
    """One call, bounded, after which nothing of it is left."""
    with nothing_held(family), trio.fail_after(20):
        return settled(await run_command(directly(family, command.cwd), command, line, passed=passed), ProgramValue)


async def until_written(path: Path) -> None:
    with trio.fail_after(10):
        while not (path.exists() and path.read_text().endswith("\n")):  # noqa: ASYNC110  # another process writes it
            await trio.sleep(0.005)
