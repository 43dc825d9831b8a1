"""`tooldispatchd level`: set the level of a running daemon's log."""

import argparse

from tooldispatchd.cli import administering


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("level", choices=("debug", "info", "warning", "error"), help="least level of what is logged")
    administering.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Set it; the exit code."""
    level = arguments.level
    return administering.act(arguments, "level", lambda done: f"{level}; it was {done.get('before')}", level=level)
