"""`tooldispatchd restart`: end the connections of a running daemon to a server, and open others at once."""

import argparse

from tooldispatchd.cli import administering
from tooldispatchd.cli.dialogue import Line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("server", metavar="SERVER", help="the name of its table")
    parser.add_argument("--session", type=int, metavar="NUMBER", help="in this session alone; by default in all")
    administering.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Restart it; the exit code."""

    def told(done: Line) -> str:
        if not done.get("restarted") and not done.get("left"):
            return f"there is no connection to {arguments.server} now"
        left = f"; {done['left']} had ended for good" if done.get("left") else ""
        return f"connections to {arguments.server} opened anew: {done.get('restarted')}{left}"

    return administering.act(arguments, "restart", told, server=arguments.server, session=arguments.session)
