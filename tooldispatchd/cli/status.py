"""`tooldispatchd status`: one screen of what a running daemon does."""

import argparse
import json
import sys
import time
from typing import Final

from tooldispatchd.cli import administering, dialogue
from tooldispatchd.cli.dialogue import Dialogue, Line

# Between two looks; each costs the daemon some milliseconds.
WATCH_S: Final = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--json", action="store_true", help="print an object: status, sessions and servers")
    parser.add_argument(
        "--watch",
        type=dialogue.seconds,
        nargs="?",
        const=WATCH_S,
        metavar="SECONDS",
        help=f"draw it again and again, every so many seconds ({WATCH_S:g}), until Ctrl-C",
    )
    administering.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Look, and draw; the exit code."""

    def look(daemon: Dialogue) -> int:
        while True:
            _draw(arguments, seen_by(daemon))
            if arguments.watch is None:
                return 0
            time.sleep(arguments.watch)

    return administering.administer(arguments, look)


def seen_by(daemon: Dialogue) -> Line:
    """What is drawn."""
    seen: Line = {"status": daemon.administer("status", {})}
    for part in ("sessions", "servers"):
        seen |= daemon.administer(part, {})
    return seen


def _draw(arguments: argparse.Namespace, seen: Line) -> None:
    if arguments.json:
        print(json.dumps(seen, ensure_ascii=False), flush=True)
        return
    from rich.console import Console

    from tooldispatchd.cli.screens import status_screen

    is_forced = None if arguments.color == "auto" else arguments.color == "always"
    console = Console(file=sys.stdout, force_terminal=is_forced, no_color=True if is_forced is False else None)
    if arguments.watch is not None:
        console.clear()
    for piece in status_screen(seen, time.time()):
        console.print(piece)
