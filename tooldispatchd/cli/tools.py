"""`tooldispatchd tools`: what a profile offers."""

import argparse
import shutil
import sys
from collections.abc import Sequence
from typing import Final

# The forms of PROTOCOL.md; the daemon is asked for what is named here, and knows them itself.
FORMS: Final = ("plain", "anthropic", "openai", "openai_responses", "google", "mcp")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    from tooldispatchd.cli import dialogue

    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = f"{dialogue.SOCKETS}\nThe servers of the profile are started to ask them for their tools."
    parser.add_argument("--json", action="store_true", help="print the tools with their schemas, as `ready` gives them")
    parser.add_argument(
        "--schemas",
        choices=FORMS,
        metavar="FORM",
        help=f"print them, as JSON, in the form that a model's provider takes: {', '.join(FORMS)}",
    )
    dialogue.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """List and print; the exit code."""
    import msgspec

    from tooldispatchd.cli import dialogue
    from tooldispatchd.client.blocking import Client

    def show(client: Client) -> int:
        ready = client.hello(arguments.profile, token=arguments.token, schemas=arguments.schemas)
        for warning in ready.warnings:
            print(f"tooldispatchd: warning: {warning}", file=sys.stderr)
        if arguments.json or arguments.schemas is not None:
            print(msgspec.json.format(msgspec.json.encode(ready.tools)).decode())
        else:
            _print_table([(tool.name, _described(tool.description, tool.unenforced)) for tool in ready.tools])
        return 0

    return dialogue.talk(arguments, show)


def _described(description: str, unenforced: Sequence[str]) -> str:
    """What is said of a tool: first of all what its program is not kept to."""
    return f"[not enforced: {', '.join(unenforced)}] {description}" if unenforced else description


def _print_table(rows: list[tuple[str, str]]) -> None:
    """One line a tool: its name, and as much of its description's first line as the terminal has room for."""
    width = max((len(name) for name, _ in rows), default=0)
    room = max(shutil.get_terminal_size((120, 24)).columns - width - 2, 20)
    for name, description in rows:
        first = description.strip().partition("\n")[0]
        # A server's description is not ours: what is not printable must not reach the terminal.
        shown = "".join(letter if letter.isprintable() else " " for letter in first)
        print(f"{name:<{width}}  {shown if len(shown) <= room else shown[: room - 1] + '…'}".rstrip())
