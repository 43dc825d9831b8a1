"""The command line: which command, and nothing that only a command needs.

Each command is a module of `cli` with `add_arguments(parser)` and `run(arguments)`, imported when it is called, so
that `--help` and the client commands stay quick.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

COMMANDS: Final = {
    "serve": "run the daemon",
    "check": "validate a configuration and start nothing",
    "tools": "list what a profile offers",
    "call": "call one tool and print its answer",
    "run": "run an agent with a tool channel of its own",
    "login": "log in at a server that wants OAuth",
    "init": "write a commented example configuration",
    "demo": "show a scripted agent at work with a daemon of its own",
}


def _parser(command: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tooldispatchd",
        description="One daemon through which many LLM agents call their tools: JSON lines in, exactly one answer out.",
        epilog="tooldispatchd COMMAND --help tells more of a command.",
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, summary in COMMANDS.items():
        chosen = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        if name == command:
            import_module(f"tooldispatchd.cli.{name}").add_arguments(chosen)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` names; returns its exit code (PROTOCOL.md, "Exit codes")."""
    words = list(sys.argv[1:] if argv is None else argv)
    command = next((word for word in words if not word.startswith("-")), None)
    parser = _parser(command)
    arguments = parser.parse_args(words)
    if arguments.version:
        from importlib.metadata import version

        print(f"tooldispatchd {version('tooldispatchd')}")
        return 0
    if arguments.command is None:
        parser.print_help()
        return 2
    code: int = import_module(f"tooldispatchd.cli.{arguments.command}").run(arguments)
    return code


if __name__ == "__main__":
    sys.exit(main())
