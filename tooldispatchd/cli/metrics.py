"""`tooldispatchd metrics`: what a running daemon has counted, in Prometheus' format."""

import argparse
import sys

from tooldispatchd.cli import administering
from tooldispatchd.cli.dialogue import Dialogue


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    administering.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print them; the exit code."""

    def show(daemon: Dialogue) -> int:
        sys.stdout.write(str(daemon.administer("metrics", {})["text"]))
        return 0

    return administering.administer(arguments, show)
