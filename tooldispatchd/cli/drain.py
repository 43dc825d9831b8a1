"""`tooldispatchd drain`: have a running daemon take no more requests, and end when what runs has ended."""

import argparse

from tooldispatchd.cli import administering


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    administering.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Have it drain; the exit code."""
    return administering.act(arguments, "drain", lambda _: "the daemon drains")
