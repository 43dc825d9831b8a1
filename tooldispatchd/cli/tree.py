"""`tooldispatchd tree`: which agent calls which tool, and which agent serves that call."""

import argparse
from collections.abc import Iterable

from tooldispatchd.cli import administering
from tooldispatchd.cli.dialogue import Dialogue, Line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    administering.add_screen_arguments(parser, "sessions, calls and those that ended")


def run(arguments: argparse.Namespace) -> int:
    """Look, and draw; the exit code."""
    return administering.show(arguments, _seen_by, _screen)


def _seen_by(daemon: Dialogue) -> Line:
    sessions, calls = (daemon.administer(part, {}) for part in ("sessions", "calls"))
    left_out = [part["left_out"] for part in (sessions, calls) if "left_out" in part]
    return {**sessions, **calls, **({"left_out": sum(map(int, map(str, left_out)))} if left_out else {})}


def _screen(seen: Line, now: float) -> Iterable[object]:
    from tooldispatchd.cli.treescreen import tree_screen

    return tree_screen(seen, now)
