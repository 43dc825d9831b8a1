"""`tooldispatchd explain`: what a fault means, and who can do what about it."""

import argparse
import json
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping
from typing import Final

from tooldispatchd.cli.faultpages import FaultPage, read_pages

EPILOG: Final = """\
CODE is a fault's code, or the fault itself as it was seen: a line of the protocol, the content of an answer, or "-"
for one on stdin. Without it every code is listed. The same pages are in docs/faults.md.

exit codes: 0 shown; 2 there is no such code
"""
MAX_WIDTH: Final = 100
# A fault with the tails of its program has some KiB.
MAX_CHARS: Final = 16 * 1024 * 1024
# Those that say where it belongs, and not what happened.
_ENVELOPE: Final = frozenset({"__port", "agent", "line", "id", "error", "category", "detail"})


# On stderr, as in "tooldispatchd: unknown_target: there is no such job".
_TOLD: Final = re.compile(r"\s*(?:tooldispatchd: )?(?P<error>[a-z_]+): (?P<detail>.*\S)", re.DOTALL)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("code", metavar="CODE", nargs="?", help="what to explain; by default all codes are listed")


def run(arguments: argparse.Namespace) -> int:
    """Print the page, or the list; the exit code."""
    pages = read_pages()
    if arguments.code is None:
        width = max(map(len, pages))
        print(*(f"{page.code:{width}}  {page.when}" for page in pages.values()), sep="\n")
        return 0
    said = sys.stdin.read(MAX_CHARS) if arguments.code == "-" else arguments.code
    fault = fault_of(said)
    code = said.strip() if fault is None else str(fault["error"])
    page = pages.get(code) or pages.get(code.lower().replace("-", "_").replace(" ", "_"))
    if page is None:
        print(f"tooldispatchd: {_unknown(code, pages)}", file=sys.stderr)
        return 2
    print(*_lines(page, fault or {}), sep="\n")
    return 0


def fault_of(text: str) -> dict[str, object] | None:
    """The fault that a text holds: as JSON in a `fault` line, in an answer's `content` or alone; or as commands say it.

    None where it holds none.
    """
    try:
        said: object = json.loads(text)
        if isinstance(said, dict) and "error" not in said and isinstance(said.get("content"), str):
            said = json.loads(said["content"])
    except (ValueError, RecursionError):
        told = _TOLD.match(text)
        return None if told is None else told.groupdict()
    return said if isinstance(said, dict) and isinstance(said.get("error"), str) else None


def _unknown(code: str, pages: Mapping[str, FaultPage]) -> str:
    from difflib import get_close_matches

    shown = "".join(letter if letter.isprintable() else " " for letter in code[:80])
    if "{" in code:
        return "this holds no fault; paste its whole line, in quotes, or give it on stdin after -"
    if near := get_close_matches(code.lower(), pages, 1):
        return f"there is no fault {shown}, did you mean {near[0]}?"
    first, second, third = get_close_matches(code.lower(), pages, 3, 0.0)
    return f"there is no fault {shown}; the nearest are {first}, {second} and {third}"


def _lines(page: FaultPage, fault: Mapping[str, object]) -> Iterator[str]:
    yield from (f"{page.code}: {page.when}", page.facts.replace("`", ""), "")
    yield from _wrapped(page.cause)
    for reader, text in page.remedies.items():
        yield from ("", f"{reader}:", *_wrapped(text, "    "))
    if page.extras:
        yield from ("", f"fields: {', '.join(page.extras)}")
    if fault:
        yield from ("", "this one:", *_wrapped(str(fault.get("detail", "")), "    "))
        told = ((name, value) for name, value in fault.items() if name not in _ENVELOPE)
        # Escaped: what a tool has said must not speak to the terminal.
        yield from (f"    {name}: {json.dumps(value)}" for name, value in told)


def _wrapped(text: str, indent: str = "") -> list[str]:
    width = min(MAX_WIDTH, shutil.get_terminal_size((MAX_WIDTH, 24)).columns)
    shown = "".join(letter if letter.isprintable() else " " for letter in text.replace("`", ""))
    return textwrap.wrap(shown, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
