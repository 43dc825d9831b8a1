"""`tooldispatchd reload`: have a running daemon read its configuration again."""

import argparse

from tooldispatchd.cli import administering, dialogue
from tooldispatchd.cli.dialogue import Dialogue

# It is read whole, and may wait for a vault's command line.
TIMEOUT_S = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument(
        "--apply",
        action="store_true",
        help="have sessions that are open go on under it too; a call that runs ends as it began",
    )
    administering.add_arguments(parser)
    parser.set_defaults(timeout=TIMEOUT_S)


def run(arguments: argparse.Namespace) -> int:
    """Have it read, and print what has changed and what takes a restart; the exit code."""

    def once(daemon: Dialogue) -> int:
        value = daemon.administer("reload", {"apply": arguments.apply})
        changed, warnings = strings(value.get("changed")), strings(value.get("warnings"))
        print("the configuration was read" if changed else "the configuration was read: nothing has changed")
        print(*(f"    {each}\n" for each in changed), *(f"warning: {each}\n" for each in warnings), sep="", end="")
        return 0

    return administering.administer(arguments, once)


def strings(value: object) -> list[str]:
    """The texts of a list, without what would steer the terminal."""
    return [dialogue.printable(each) for each in value if isinstance(each, str)] if isinstance(value, list) else []
