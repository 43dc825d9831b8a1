"""`tooldispatchd status`: one screen of what a running daemon does."""

import argparse
from collections.abc import Iterable

from tooldispatchd.cli import administering
from tooldispatchd.cli.dialogue import Dialogue, Line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    administering.add_screen_arguments(parser, "status, sessions and servers")


def run(arguments: argparse.Namespace) -> int:
    """Look, and draw; the exit code."""
    return administering.show(arguments, seen_by, _screen)


def seen_by(daemon: Dialogue) -> Line:
    """What is drawn."""
    seen: Line = {"status": daemon.administer("status", {})}
    for part in ("sessions", "servers"):
        seen |= daemon.administer(part, {})
    return seen


def _screen(seen: Line, now: float) -> Iterable[object]:
    from tooldispatchd.cli.screens import status_screen

    return status_screen(seen, now)
