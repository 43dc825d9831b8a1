"""`tooldispatchd end`: end a session of a running daemon, or one call or job of it."""

import argparse

from tooldispatchd.cli import administering


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.usage = "%(prog)s session NUMBER | call NUMBER ID | job NUMBER ID [options]"
    parser.add_argument("what", choices=("session", "call", "job"), help="what to end")
    parser.add_argument(
        "session", type=int, metavar="NUMBER", help="the session, by its number in the log and in status"
    )
    parser.add_argument("of", metavar="ID", nargs="?", help="the call by its id, or the job")
    administering.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """End it; the exit code."""
    what, of = arguments.what, arguments.of
    if (of is None) is not (what == "session"):
        administering.usage(f"end {what} takes {'a number alone' if what == 'session' else 'a number and an id'}")
        return 2
    fields = {} if what == "session" else {what: of}
    named = f"{what} {of} of session {arguments.session}" if of else f"session {arguments.session}"
    return administering.act(arguments, "end", lambda _: f"{named} is ended", session=arguments.session, **fields)
