"""Examine a configuration: all examiners at once, each within its limit, and all of them within one.

load ─▶ examiners: machine, files, places, servers (in a private daemon), APIs, tools ─▶ diagnoses, in that order
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio

from tooldispatchd.config.configuration import Loaded
from tooldispatchd.doctor.apis import api_examiners
from tooldispatchd.doctor.diagnosis import Diagnosis, Examiner, masked_diagnosis, wrong
from tooldispatchd.doctor.files import file_examiners
from tooldispatchd.doctor.machine import machine_examiners
from tooldispatchd.doctor.places import place_examiners
from tooldispatchd.doctor.programs import tool_examiners
from tooldispatchd.doctor.servers import server_examiners
from tooldispatchd.doctor.trial import open_trial

# Of those that are not servers, which the daemon starts in turns of its own: so many interpreters at once import.
AT_ONCE: Final = 8


ShowProgress = Callable[[int, Iterable[str]], None]
"""Told how many examiners are done, and which ones run."""


async def examine(
    path: Path, loaded: Loaded, environ: Mapping[str, str], show: ShowProgress, within_s: float
) -> list[Diagnosis]:
    """The diagnoses of all that the configuration at `path` names; what is not done by then is wrong."""
    found: dict[int, Diagnosis] = {}
    running: dict[int, str] = {}
    done = 0
    places = trio.Semaphore(AT_ONCE)

    async def run(number: int, examiner: Examiner) -> None:
        nonlocal done
        running[number] = f"{examiner.part} {examiner.name}"
        show(done, running.values())
        found[number] = _late(examiner, within_s)
        with trio.move_on_after(examiner.limit_s) as limit:
            try:
                found[number] = await examiner.run()
            except OSError as error:
                found[number] = examiner.named(wrong(f"it cannot be looked at: {error.strerror or error}"))
        if limit.cancelled_caught:
            found[number] = _late(examiner, examiner.limit_s)
        done += 1
        del running[number]
        show(done, running.values())

    async def run_in_turn(number: int, examiner: Examiner) -> None:
        async with places:
            await run(number, examiner)

    others = list(_others(path, loaded, environ))
    with trio.move_on_after(within_s):
        async with _server_examiners(path, loaded, environ) as servers, trio.open_nursery() as nursery:
            for number, examiner in enumerate(others):
                found[number] = _late(examiner, within_s)
                nursery.start_soon(run_in_turn, number, examiner)
            for number, examiner in enumerate(servers, len(others)):
                nursery.start_soon(run, number, examiner)
    masker = loaded.catalog.masker
    return [masked_diagnosis(found[number], masker) for number in sorted(found)]


def _others(path: Path, loaded: Loaded, environ: Mapping[str, str]) -> Iterator[Examiner]:
    yield from machine_examiners(loaded)
    yield from file_examiners(loaded, environ)
    yield from place_examiners(loaded.catalog, environ)
    yield from api_examiners(loaded, environ)
    yield from tool_examiners(loaded, environ, path.absolute().parent)


@asynccontextmanager
async def _server_examiners(path: Path, loaded: Loaded, environ: Mapping[str, str]) -> AsyncIterator[list[Examiner]]:
    """The examiners of servers, for which a private daemon runs as long as the block does."""
    if not loaded.catalog.servers:
        yield []
        return
    async with open_trial(path, environ) as trial:
        yield list(server_examiners(loaded.catalog, trial))


def _late(examiner: Examiner, limit_s: float) -> Diagnosis:
    return examiner.named(wrong(f"not done within {limit_s:g} s"))
