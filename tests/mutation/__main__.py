"""Play every transcript against each mutant of the session machine, and say which mutants none of them notices.

Mutants of `equivalents.py`, which no line of the wire can tell, are left out. First the transcripts are played against
the machine alone, then, where none has failed, against hosts in memory.

Each mutant has a process of its own, forked before anything of the daemon is imported. One that plays every transcript
as it should survives: either no transcript shows what it does wrong, or it does nothing wrong.
"""

import argparse
import importlib.abc
import importlib.util
import os
import signal
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Final

# What a child would else import again.
import jsonschema_rs  # noqa: F401
import pytest  # noqa: F401
import trio
from trio.testing import MockClock

from protocol.conformance.run import FIXTURES, read_transcript, transcripts
from tests.mutation.equivalents import EQUIVALENTS
from tests.mutation.mutants import Mutant, all_of

ROOT: Final = Path(__file__).parents[2]
MODULES: Final = ("tooldispatchd.wire.session", "tooldispatchd.wire.decode")
# Most end in a second, and whoever plays everything in some seconds of the processor's; one that never ends is noticed
# too, but not one that has to wait because others need the machine.
MOST_CPU_S: Final = 60
MOST_S: Final = 900
PATIENCE_S: Final = 40
SURVIVED: Final = 0
KILLED: Final = 1


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives one module another source."""

    def __init__(self, name: str, source: str) -> None:
        self._name, self._source = name, source

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return importlib.util.spec_from_loader(fullname, self) if fullname == self._name else None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._source, self._name, "exec"), module.__dict__)


def is_noticed(name: str, mutant: Mutant) -> bool:
    """Whether a transcript fails with this mutant; in a child."""
    sys.meta_path.insert(0, Finder(name, mutant.source))
    # After the finder stands, or the module would be there already.
    from tests.wire.test_transcripts import marks, play  # noqa: PLC0415

    for path in transcripts():
        if marks(path):
            continue
        try:
            play(read_transcript(path), pieces=1)
        except Exception:  # noqa: BLE001
            return True
    return not all(map(_holds_in_memory, transcripts()))


@cache
def _catalog_of(fixtures: str):  # type: ignore[no-untyped-def]  # a type of the daemon's, which is not there yet
    # As above.
    from tooldispatchd.config.configuration import load_catalog  # noqa: PLC0415

    return load_catalog(FIXTURES / f"{fixtures}.toml", {})


def _holds_in_memory(path: Path) -> bool:
    # As above.
    from tests.agent.fakes import Agent, open_runtime  # noqa: PLC0415
    from tests.agent.test_transcripts import param, play, starts_children  # noqa: PLC0415

    transcript = read_transcript(path)
    # Its tools are real children, and the machine alone has played it.
    is_slow = starts_children(transcript) and transcript.fixtures == "basic"
    if is_slow or param(transcript).marks:
        return True

    async def hold() -> None:
        with trio.fail_after(PATIENCE_S):
            # As a daemon is that was not told to log calls: tools that answer at once take the shorter way.
            catalog = _catalog_of(transcript.fixtures)
            async with open_runtime(catalog, patience_s=PATIENCE_S, logs_calls=False) as runtime:
                await play(transcript, Agent(runtime))

    try:
        trio.run(hold, clock=None if starts_children(transcript) else MockClock(autojump_threshold=0))
    except Exception:  # noqa: BLE001
        return False
    return True


def survives(name: str, mutant: Mutant) -> bool:
    child = os.fork()
    if child == 0:
        signal.setitimer(signal.ITIMER_PROF, MOST_CPU_S)
        signal.alarm(MOST_S)
        code = KILLED
        try:
            sys.stderr = sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115
            code = KILLED if is_noticed(name, mutant) else SURVIVED
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == SURVIVED


def main() -> None:
    """Print each survivor and the share of those that were noticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--line", type=int, action="append", help="only mutants of this line; may be repeated")
    parser.add_argument("module", nargs="*", default=MODULES)
    asked = parser.parse_args()
    total = noticed = 0
    for name in asked.module:
        source = (ROOT / (name.replace(".", "/") + ".py")).read_text(encoding="utf-8")
        equivalent = EQUIVALENTS.get(name, {})
        found = [one for one in all_of(source) if (one.text, one.what) not in equivalent]
        found = [one for one in found if asked.line is None or one.line in asked.line]
        if not survives(name, Mutant(0, "", "nothing", source)):
            sys.exit(f"a transcript fails where nothing is changed in {name}")
        with ThreadPoolExecutor(asked.jobs) as pool:
            survivors = []
            for mutant, survived in zip(found, pool.map(partial(survives, name), found), strict=True):
                if survived:
                    survivors.append(mutant)
                    print(f"{name}:{mutant.line}: {mutant.what}: {mutant.text}", flush=True)
        print(f"{name}: {len(found) - len(survivors)} of {len(found)} noticed")
        total, noticed = total + len(found), noticed + len(found) - len(survivors)
    print(f"{noticed} of {total} noticed: {100 * noticed / (total or 1):.1f} %")


if __name__ == "__main__":
    main()
