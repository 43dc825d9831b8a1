"""`tooldispatchd reload`: have a running daemon read its configuration anew."""

import argparse
import sys

from tooldispatchd.cli import administering
from tooldispatchd.cli.dialogue import CommandRefusedError, Dialogue, Line, printable
from tooldispatchd.cli.jsontext import shown_json

# It is read whole, and may wait for a vault's command line.
TIMEOUT_S = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument(
        "--apply", action="store_true", help="open sessions go on under it too, and not only those that come"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print an object: ok, problems and warnings, as check prints them, and what has changed",
    )
    administering.add_arguments(parser)
    parser.set_defaults(timeout=TIMEOUT_S)


def run(arguments: argparse.Namespace) -> int:
    """Have it read, and print what has changed, or what is wrong; the exit code."""

    def reload(daemon: Dialogue) -> int:
        try:
            done = daemon.administer("reload", {"apply": arguments.apply or None})
        except CommandRefusedError as refused:
            if "problems" not in refused.fault:
                raise
            _tell_problems(arguments, refused.fault)
            return 2
        _tell_changes(arguments, done)
        return 0

    return administering.administer(arguments, reload)


def _tell_problems(arguments: argparse.Namespace, fault: Line) -> None:
    if arguments.json:
        _print_json(_list(fault, "problems"), {})
        return
    for line in str(fault.get("detail")).splitlines():
        print(printable(line), file=sys.stderr)


def _tell_changes(arguments: argparse.Namespace, done: Line) -> None:
    if arguments.json:
        _print_json([], done)
        return
    for warning in _list(done, "warnings"):
        print(f"warning: {printable(str(warning))}", file=sys.stderr)
    for change in _list(done, "changed") or ["nothing has changed"]:
        print(printable(str(change)))


def _print_json(problems: list[object], done: Line) -> None:
    found = {"ok": not problems, "problems": problems, "warnings": _list(done, "warnings")}
    print(shown_json({**found, "changed": _list(done, "changed")}, indent=2))


def _list(line: Line, name: str) -> list[object]:
    found = line.get(name)
    return found if isinstance(found, list) else []
