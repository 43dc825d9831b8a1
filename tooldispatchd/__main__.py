"""The command line: which command, and nothing that only a command needs.

Each command is a module of `cli` with `add_arguments(parser)` and `run(arguments)`, imported when it is called, so
that `--help` and the client commands stay quick.
"""

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Final, NoReturn

COMMANDS: Final = {
    "serve": "run the daemon",
    "check": "validate a configuration and start nothing",
    "doctor": "try all that a configuration names, and say what is wrong",
    "explain": "say what a fault means, and who can do what about it",
    "tools": "list what a profile offers",
    "call": "call one tool and print its answer",
    "status": "show what a running daemon does",
    "top": "watch agents, servers and tools of a running daemon",
    "tree": "show the agents of a running daemon, and their calls",
    "logs": "follow the log of a running daemon",
    "reload": "have a running daemon read its configuration anew",
    "end": "end a session, a call or a job of a running daemon",
    "restart": "open the connections to a server anew",
    "metrics": "print what a running daemon has counted, for Prometheus",
    "drain": "have a running daemon end when what runs has ended",
    "level": "set the level of a running daemon's log",
    "run": "run an agent with a tool channel of its own",
    "mcp": "serve an MCP client, or install the entry",
    "audit": "show which calls there were, from the store of the audit",
    "login": "log in at a server that wants OAuth",
    "openapi": "show the tools that a document of OpenAPI makes, or fetch it",
    "init": "write a commented example configuration",
    "conformance": "hold a daemon, or an agent, to the protocol",
    "demo": "show a scripted agent at work with a daemon of its own",
}

# Their options may stand between their words, too.
WITH_MANY_WORDS: Final = frozenset({"call"})
# What a shell gives for a signal's end, beside the signal's number.
SIGNALLED: Final = 128


class CommandParser(argparse.ArgumentParser):
    """Fails where help cannot be written, with which argparse alone would end as if it were."""

    def print_help(self, file: object = None) -> None:  # noqa: ARG002  # nobody names one
        """Print the help; raises OSError."""
        print(self.format_help(), end="", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` names; returns its exit code (docs/command.md, "Exit codes")."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] in COMMANDS:
        # Without the parsers of all others, which would take as long as a call does.
        module = import_module(f"tooldispatchd.cli.{words[0]}")
        summary = COMMANDS[words[0]]
        description = f"{summary[0].upper()}{summary[1:]}."
        parser = CommandParser(f"tooldispatchd {words[0]}", description=description)
        module.add_arguments(parser)
        parse = parser.parse_intermixed_args if words[0] in WITH_MANY_WORDS else parser.parse_args
        code: int = module.run(parse(words[1:]))
        return code
    if words and not words[0].startswith("-"):
        print(f"tooldispatchd: there is no command {words[0]}{_near(words[0])}", file=sys.stderr)
        return 2
    parser = CommandParser(
        prog="tooldispatchd",
        description="One daemon through which many LLM agents call their tools: JSON lines in, exactly one answer out.",
        epilog="tooldispatchd COMMAND --help tells more of a command.",
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    for name, summary in COMMANDS.items():
        commands.add_parser(name, help=summary)
    if parser.parse_args(words).version:
        from importlib.metadata import version

        print(f"tooldispatchd {version('tooldispatchd')}")
        return 0
    parser.print_help()
    return 2


def _near(word: str) -> str:
    """The command that may be meant, or where all of them are told."""
    from difflib import get_close_matches

    near = get_close_matches(word, COMMANDS, 1)
    return f", did you mean {near[0]}?" if near else "; tooldispatchd --help lists them"


def program() -> NoReturn:
    """As `main`, for a process of its own: Ctrl-C, and a reader who has gone, end it without a word."""
    try:
        code = main()
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        code = SIGNALLED + 13
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        print(f"tooldispatchd: cannot write the output: {error.strerror}", file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        code = SIGNALLED + 2
    except BaseExceptionGroup as group:
        # So trio gives it.
        if group.split(KeyboardInterrupt)[1] is not None:
            raise
        code = SIGNALLED + 2
    if sys.stderr is not None:
        with suppress(OSError):
            sys.stderr.flush()
    # Without the interpreter's own end: a thread in which a name is still being looked up would die of that, and what
    # waits for a reader who has gone could not be written.
    os._exit(code)


if __name__ == "__main__":
    program()
