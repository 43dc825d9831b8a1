"""What the commands for administrators share: which daemon, as whom, and one line to it."""

import argparse
import sys
from collections.abc import Callable
from typing import Final

from tooldispatchd.cli import dialogue
from tooldispatchd.cli.dialogue import Dialogue, Line

# A daemon answers within milliseconds.
TIMEOUT_S: Final = 5.0
EPILOG: Final = f"""\
{dialogue.SOCKETS}
Who may: agents of a profile with admin = true; where no profile has it, the daemon's own user and root.
exit codes: 0 done; 1 refused, or there is no such thing; 2 usage, or a wrong configuration; 3 the daemon cannot be
reached, or does not answer
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare which daemon, and as whom."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("--socket", metavar="PATH", help="the socket of the daemon")
    parser.add_argument("--profile", metavar="NAME", help="open a session of this profile, which has admin = true")
    parser.add_argument("--token-file", metavar="FILE", help="its token (else $TOOLDISPATCHD_TOKEN)")
    parser.add_argument(
        "--timeout",
        type=dialogue.seconds,
        default=TIMEOUT_S,
        metavar="SECONDS",
        help=f"give up on a daemon that is silent for so long ({TIMEOUT_S:g})",
    )
    parser.add_argument(
        "--color", choices=dialogue.CHOICES, default="auto", help="colours: on a terminal, unless NO_COLOR"
    )
    # No private daemon is worth looking at.
    parser.set_defaults(config=None)


def administer(arguments: argparse.Namespace, act: Callable[[Dialogue], int]) -> int:
    """Run `act` on a channel that may administer, if any may; the exit code."""

    def opened(daemon: Dialogue, hello: Line) -> int:
        # A session starts the servers of its profile: without a profile none is needed.
        if hello["profile"] is not None:
            daemon.say("hello", hello)
            daemon.until("ready")
        return act(daemon)

    return dialogue.talk(arguments, opened)


def act(arguments: argparse.Namespace, ask: str, told: Callable[[Line], str], **fields: object) -> int:
    """Ask for one change, and print what was `told`; the exit code."""

    def once(daemon: Dialogue) -> int:
        print(dialogue.printable(told(daemon.administer(ask, fields))))
        return 0

    return administer(arguments, once)


def usage(why: str) -> None:
    """Say what is wrong with the command line."""
    print(f"tooldispatchd: {why}", file=sys.stderr)
