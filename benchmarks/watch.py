"""An author's loop: from the save of a function, or of what it imports, to the first answer of the new code."""

import contextlib
import time
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from benchmarks.harness import START_S, Agent, Bar, BenchmarkError, Table, run_alone, scratch, start_daemon

CONFIG: Final = """
[tools.add]
python = "adding:add"
"""
FILES: Final = {
    "adding.py": "from helping import MORE\n\ndef add(a: int) -> int:\n    return a + MORE + {}\n",
    "helping.py": "MORE = {}\n",
}
BAR_MS: Final = 300.0
# More than the daemon waits for an editor that has moved a file away.
PAUSE_S: Final = 0.5
# Each is a call, which takes a fork.
POLL_S: Final = 0.01


def measure(quick: bool) -> Table:
    """Medians of some saves of each kind, asked over a channel that is open all the time."""
    rounds = 3 if quick else 15
    with scratch() as folder:
        for name, text in FILES.items():
            (folder / name).write_text(text.format(0))
        config = f"{CONFIG}cwd = {msgspec.json.encode(str(folder)).decode()}\n"
        with start_daemon(config, options=["--watch"]) as daemon, contextlib.closing(Agent(daemon)) as agent:
            saves = {
                "the function, in place": _saved(agent, folder / "adding.py", rounds, is_renamed=False),
                "the function, by rename": _saved(agent, folder / "adding.py", rounds, is_renamed=True),
                "what it imports, in place": _saved(agent, folder / "helping.py", rounds, is_renamed=False),
            }
    longest = max(median(took) for took in saves.values())
    return Table(
        title="From a save to the new answer, with `serve --watch`",
        program="watch",
        columns=("what is saved", "median ms", "longest ms"),
        rows=[(what, f"{median(took):.0f}", f"{max(took):.0f}") for what, took in saves.items()],
        bars=[Bar("from a save to the new answer", f"≤ {BAR_MS:.0f} ms", f"{longest:.0f} ms", longest <= BAR_MS)],
        notes=("The daemon waits 50 ms for an editor's next step; reading and importing are most of the rest.",),
    )


def _sum(agent: Agent) -> int:
    return int(str(agent.call("add", {"a": 0})["content"]))


def _saved(agent: Agent, path: Path, rounds: int, *, is_renamed: bool) -> list[float]:
    """How long each save took to be answered, in ms."""
    took = []
    at_first = _sum(agent)
    for number in range(1, rounds + 1):
        time.sleep(PAUSE_S)
        began = time.perf_counter()
        saved = path.with_suffix(".new") if is_renamed else path
        saved.write_text(FILES[path.name].format(number))
        if is_renamed:
            saved.rename(path)
        while _sum(agent) != at_first + number:
            if time.perf_counter() - began > START_S:
                raise BenchmarkError(f"{path.name} was saved, and no answer came of it")
            time.sleep(POLL_S)
        took.append((time.perf_counter() - began) * 1e3)
    path.write_text(FILES[path.name].format(0))
    while _sum(agent) != at_first:
        time.sleep(POLL_S)
    return took


if __name__ == "__main__":
    run_alone(measure)
