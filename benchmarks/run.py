"""Run every benchmark and write RESULTS.md: first what was promised and what was found, then a table for each."""

import argparse
import importlib.metadata
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks import (
    audit,
    calls,
    expressions,
    front,
    hostile,
    mcp_face,
    mcp_http,
    mcp_stdio,
    memory,
    metrics,
    policy,
    pool,
    process,
    rest,
    soak,
    spare,
    start,
    toolbox,
    watch,
)
from benchmarks.harness import Bar, BenchmarkError, Table, as_text, verdict

RESULTS: Final = Path(__file__).with_name("RESULTS.md")
BENCHMARKS: Final[dict[str, Callable[[bool], Table]]] = {
    "front": front.measure,
    "expressions": expressions.measure,
    "calls": calls.measure,
    "mcp_stdio": mcp_stdio.measure,
    "mcp_http": mcp_http.measure,
    "mcp_face": mcp_face.measure,
    "policy": policy.measure,
    "audit": audit.measure,
    "metrics": metrics.measure,
    "pool": pool.measure,
    "process": process.measure,
    "rest": rest.measure,
    "memory": memory.measure,
    "start": start.measure,
    "spare": spare.measure,
    "watch": watch.measure,
    "hostile": hostile.measure,
    "toolbox": toolbox.measure,
    "soak": soak.measure,
}
LIBRARIES: Final = ("trio", "msgspec", "jsonschema-rs", "cel-expr-python", "mcp")
INTRODUCTION: Final = """# What the daemon costs

Written by `make bench` (`python -m benchmarks.run`). Each table names the program that gives it alone; `--quick` is a
smoke run. Contenders take turns within one run, and figures are medians over the rounds: read them as ratios, for
times belong to the machine."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a smoke run of some seconds; leaves RESULTS.md as it is")
    parser.add_argument("only", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.only if name not in BENCHMARKS]:
        parser.error(f"cannot run {', '.join(unknown)}: choose from {', '.join(BENCHMARKS)}")
    names = arguments.only or list(BENCHMARKS)
    tables = [table for name in names if (table := _run(name, arguments.quick)) is not None]
    # Part of the results, or those of a smoke run, would replace the whole.
    if not arguments.quick and not arguments.only and len(tables) == len(BENCHMARKS):
        RESULTS.write_text(as_markdown(tables))
    sys.exit(len(tables) < len(names))


def _run(name: str, quick: bool) -> Table | None:
    begun = time.monotonic()
    try:
        table = BENCHMARKS[name](quick)
    except BenchmarkError as error:
        print(f"{name} could not be run: {error}\n", file=sys.stderr)
        return None
    print(f"{as_text(table)}\n  ({name} took {time.monotonic() - begun:.0f} s)\n", flush=True)
    return table


def as_markdown(tables: list[Table]) -> str:
    """RESULTS.md; it names the machine's kind and versions, and neither a date nor a path."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES)
    machine = f"{os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}, {versions}."
    bars = [bar for table in tables for bar in table.bars]
    met = sum(bar.is_met for bar in bars)
    head = [
        INTRODUCTION,
        machine,
        f"## Bars: {met} of {len(bars)} met",
        _grid(("what", "bar", "measured", ""), _cells(bars)),
    ]
    return "\n\n".join([*head, *(_section(table) for table in tables)]) + "\n"


def _cells(bars: list[Bar]) -> list[tuple[str, ...]]:
    return [(each.what, each.bar, each.measured, verdict(each)) for each in bars]


def _section(table: Table) -> str:
    parts = [f"## {table.title}", f"`python -m benchmarks.{table.program}`", _grid(table.columns, table.rows)]
    return "\n\n".join([*parts, *table.notes])


def _grid(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    # Figures stand under one another: every column but the first is set to the right.
    rule = ("---", *("--:" for _ in columns[1:]))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, rule, *rows))


if __name__ == "__main__":
    main()
