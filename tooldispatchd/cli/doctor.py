"""`tooldispatchd doctor`: try all that a configuration names, and say what is wrong and what to do about it."""

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tooldispatchd.cli.dialogue import CHOICES, Paint, printable, seconds
from tooldispatchd.cli.jsontext import shown_json
from tooldispatchd.cli.starting import is_drawable

if TYPE_CHECKING:
    # Imported when it runs.
    from tooldispatchd.config.configuration import ConfigError
    from tooldispatchd.doctor.diagnosis import Diagnosis
    from tooldispatchd.doctor.examination import ShowProgress

EPILOG: Final = """\
Each MCP server is started, or reached, in a private daemon, as serve would do it, and asked for its tools; each HTTP
API is asked for the head of its host, without credentials; modules of Python tools are imported; programs, files,
directories, places to listen and the machine's limits are looked at. No tool is called, and a running daemon is not
disturbed. Run it as the user of the daemon, with its environment.

exit codes: 0 fine, also with warnings; 1 something is wrong; 2 usage, or a configuration that cannot be used
"""
# A dozen servers that hang until their handshakes are over.
WITHIN_S: Final = 120.0
# The longest health, and a space.
INDENT: Final = 8
LEAST_SHOWN_MS: Final = 50


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("--config", type=Path, metavar="FILE", help="the configuration; by default the one of serve")
    parser.add_argument("--json", action="store_true", help="print one JSON object: ok, problems and findings")
    parser.add_argument("--all", action="store_true", help="also show what is fine with the tools and the machine")
    parser.add_argument(
        "--bundle",
        type=Path,
        metavar="FILE",
        help="write a report for others, as JSON: findings, the masked configuration, versions, the machine; no secret",
    )
    parser.add_argument(
        "--timeout", type=seconds, default=WITHIN_S, metavar="SECONDS", help=f"the most for all checks ({WITHIN_S:g})"
    )
    parser.add_argument(
        "--color", choices=CHOICES, default="auto", help="colours: on a terminal, unless NO_COLOR is set"
    )


def run(arguments: argparse.Namespace) -> int:
    """Examine and print; the exit code."""
    from tooldispatchd.children.descriptors import occupy_standard
    from tooldispatchd.config.configuration import ConfigError, find_configuration, load

    occupy_standard()
    if arguments.bundle is not None and os.path.lexists(arguments.bundle):
        print(f"tooldispatchd: there is a file {arguments.bundle} already, and it is left as it is", file=sys.stderr)
        return 2
    try:
        path: Path = arguments.config or find_configuration(os.environ)
        loaded = load(path, os.environ)
    except ConfigError as error:
        return _refused(arguments, error)

    import trio
    from msgspec import to_builtins

    from tooldispatchd.doctor.bundle import report_of
    from tooldispatchd.doctor.diagnosis import Health, worst
    from tooldispatchd.doctor.examination import examine

    with _progress(arguments) as show:
        found = trio.run(examine, path, loaded, os.environ, show, arguments.timeout)
    if arguments.json:
        _print_json({"ok": worst(found) is not Health.WRONG, "problems": [], "findings": to_builtins(found)})
    else:
        _print(arguments, found)
    if arguments.bundle is not None and not _write(arguments.bundle, report_of(loaded, found)):
        return 2
    return 1 if worst(found) is Health.WRONG else 0


def _refused(arguments: argparse.Namespace, error: "ConfigError") -> int:
    """Tell why the configuration cannot be used: nothing of it can be tried."""
    from tooldispatchd.doctor.machine import machine_facts

    if arguments.json:
        _print_json({"ok": False, "problems": error.fields(), "findings": []})
    else:
        print(error, file=sys.stderr)
    if arguments.bundle is not None:
        _write(arguments.bundle, {"machine": machine_facts(), "problems": error.fields()})
    return 2


def _write(path: Path, report: Mapping[str, object]) -> bool:
    from tooldispatchd.doctor.bundle import write_report

    try:
        write_report(path, report)
    except OSError as error:
        print(f"tooldispatchd: cannot write {path}: {error.strerror}", file=sys.stderr)
        return False
    print(f"tooldispatchd: the report is in {path}; look through it before you send it", file=sys.stderr)
    return True


def _print_json(value: object) -> None:
    print(shown_json(value, indent=2))


def _print(arguments: argparse.Namespace, found: "Sequence[Diagnosis]") -> None:
    """A line for each, and what to do below; of what is fine with tools and the machine only how much it is."""
    paint = Paint(arguments.color, sys.stdout)
    colours = {"fine": paint.strong, "warning": paint.warning, "wrong": paint.error}
    counts = dict.fromkeys(colours, 0)
    for each in found:
        counts[each.health] += 1
        if each.health == "fine" and each.part in {"tool", "machine", "file"} and not arguments.all:
            continue
        first, *more = _lines(each)
        print(f"{colours[each.health](f'{each.health:{INDENT}}')}{first.lstrip()}", *more, sep="\n")
    print(", ".join(f"{count} {health}" for health, count in counts.items() if count))


def _lines(found: "Diagnosis") -> list[str]:
    """A diagnosis as it is printed, indented; in as many lines as a terminal needs, and in a pipe one for each part."""
    import shutil
    import textwrap

    took = f" ({found.took_ms / 1000:.1f} s)" if found.took_ms is not None and found.took_ms >= LEAST_SHOWN_MS else ""
    told = [f"{found.part} {found.name}: {found.said}{took}"]
    if "missing_interpreter" in found.facts:
        told.append(f"  its interpreter is not there: {found.facts['missing_interpreter']}")
    if found.advice:
        told.append(f"  → {found.advice}")
    indent = " " * INDENT
    lines = [indent + printable(each) for each in told]
    if not sys.stdout.isatty():
        return lines
    wrapper = textwrap.TextWrapper(
        shutil.get_terminal_size().columns, subsequent_indent=f"{indent}    ", break_on_hyphens=False
    )
    return [part for line in lines for part in wrapper.wrap(line)]


# --- how far it is ---


@contextmanager
def _progress(arguments: argparse.Namespace) -> "Iterator[ShowProgress]":
    """Keep one line on a terminal: how many are done, and what is waited for."""
    if arguments.json or not is_drawable(sys.stderr):
        yield lambda _done, _running: None
        return

    from rich.console import Console
    from rich.status import Status
    from rich.text import Text

    console = Console(stderr=True)
    with Status("", console=console) as status:

        def draw(done: int, running: Iterable[str]) -> None:
            line = Text(f"{done} done; {', '.join(map(printable, running))}")
            # Beside the spinner, in one line.
            line.truncate(console.width - 2, overflow="ellipsis")
            status.update(line)

        yield draw
