"""What the commands for administrators share: which daemon, as whom, and one line to it."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable
from typing import Final

from tooldispatchd.cli import dialogue
from tooldispatchd.cli.dialogue import CommandRefusedError, Dialogue, Line
from tooldispatchd.cli.jsontext import escaped

# A daemon answers within milliseconds.
TIMEOUT_S: Final = 5.0
# Between two looks; each costs the daemon some milliseconds.
WATCH_S: Final = 2.0
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
        help=f"give up on an answer that takes longer ({TIMEOUT_S:g})",
    )
    parser.add_argument(
        "--color", choices=dialogue.CHOICES, default="auto", help="colours: on a terminal, unless NO_COLOR"
    )
    # No private daemon is worth looking at.
    parser.set_defaults(config=None)


def add_screen_arguments(parser: argparse.ArgumentParser, members: str) -> None:
    """Declare how a screen is shown, beside which daemon it is of."""
    parser.add_argument("--json", action="store_true", help=f"print an object: {members}")
    parser.add_argument(
        "--watch",
        type=dialogue.seconds,
        nargs="?",
        const=WATCH_S,
        metavar="SECONDS",
        help=f"draw it again and again, every so many seconds ({WATCH_S:g}), until Ctrl-C",
    )
    add_arguments(parser)


def show(
    arguments: argparse.Namespace,
    look: Callable[[Dialogue], Line],
    screen: Callable[[Line, float], Iterable[object]],
) -> int:
    """Look once or again and again, and draw the pieces of the `screen`; the exit code."""

    def watch(daemon: Dialogue) -> int:
        while True:
            seen = look(daemon)
            if arguments.json:
                print(escaped(json.dumps(seen, ensure_ascii=False)), flush=True)
            else:
                _draw(arguments, screen(seen, time.time()))
            if arguments.watch is None:
                return 0
            time.sleep(arguments.watch)

    return administer(arguments, watch)


def _draw(arguments: argparse.Namespace, pieces: Iterable[object]) -> None:
    from rich.console import Console

    is_forced = None if arguments.color == "auto" else arguments.color == "always"
    console = Console(file=sys.stdout, force_terminal=is_forced, no_color=True if is_forced is False else None)
    # Written by rich a pipe whose reader has gone would end with an exit code of its own.
    with console.capture() as drawn:
        if arguments.watch is not None:
            console.clear()
        for piece in pieces:
            console.print(piece)
    # A table fills its lines up with blanks, which a narrower window and who copies them would have.
    print("\n".join(line.rstrip(" ") for line in drawn.get().split("\n")), end="", flush=True)


def administer(arguments: argparse.Namespace, act: Callable[[Dialogue], int]) -> int:
    """Run `act` on a channel that may administer, if any may; the exit code."""

    def opened(daemon: Dialogue, hello: Line) -> int:
        # A session starts the servers of its profile: without a profile none is needed.
        if hello["profile"] is not None:
            daemon.say("hello", hello)
            try:
                daemon.open()
            except CommandRefusedError as refused:
                # It opens no session any more, and still knows who administers it.
                if refused.code != "draining":
                    raise
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
