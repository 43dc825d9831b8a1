"""`tooldispatchd tools`: what a profile offers, or one tool of it whole."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import Final

from tooldispatchd.cli import dialogue
from tooldispatchd.cli.callwords import ways
from tooldispatchd.cli.dialogue import CommandRefusedError, Dialogue, Line, Paint, printable
from tooldispatchd.cli.jsontext import shown_json

# The forms of the protocol; the daemon is asked for what is named here, and knows them itself.
FORMS: Final = ("plain", "anthropic", "openai", "openai_responses", "google", "mcp")
BUILT_IN: Final = frozenset({"job_wait", "job_read", "job_list", "job_stop", "info"})
# Of the names in the list, which are the names of nearly all tools.
MAX_WIDTH: Final = 64
EPILOG: Final = """\
The servers of the profile are started to ask them for their tools; for one tool, its own server alone. With --config
a tool is shown with where it was written, how it runs, its limit, and what its program is kept to.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = f"{dialogue.SOCKETS}\n{EPILOG}"
    parser.add_argument("name", metavar="NAME", nargs="?", help="show this tool whole; by default, a line for each")
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
    bounds: list[str] = []

    def show(daemon: Dialogue, hello: Line) -> int:
        if arguments.name is not None:
            return _show_one(arguments, daemon, hello, bounds)
        daemon.say("hello", {**hello, "schemas": arguments.schemas})
        ready = daemon.open()
        _warn(arguments, ready)
        tools = dialogue.listed(ready)
        if arguments.json or arguments.schemas is not None:
            _print_json(tools)
        else:
            _print_table(tools, Paint(arguments.color, sys.stdout))
        return 0

    if arguments.config is not None:
        from pathlib import Path

        from tooldispatchd.catalog.explanation import explain_tool
        from tooldispatchd.config.config_report import printable as masked
        from tooldispatchd.config.configuration import ConfigError, load

        try:
            # The daemon that is started runs its commands.
            loaded = load(Path(arguments.config), os.environ, runs_commands=False)
        except ConfigError as error:
            print(error, file=sys.stderr)
            return 2
        # As `check` does.
        for warning in loaded.catalog.warnings:
            print(f"{arguments.config}: warning: {masked(warning)}", file=sys.stderr)
        if arguments.name is not None:
            bounds += map(masked, explain_tool(loaded.catalog, arguments.name, loaded.where))
    return dialogue.talk(arguments, show)


def _show_one(arguments: argparse.Namespace, daemon: Dialogue, hello: Line, bounds: Sequence[str]) -> int:
    """One tool whole; `bounds` is what the configuration says of it or of its server."""
    narrowed = dialogue.open_for(daemon, arguments.name, hello)
    ready = narrowed or daemon.open()
    _warn(arguments, ready)
    tools = dialogue.listed(ready)
    tool = dialogue.shown(ready, arguments.name)
    if tool is None:
        from difflib import get_close_matches

        near = get_close_matches(arguments.name, [str(each["name"]) for each in tools], 1)
        dialogue.tell(arguments, f"there is no tool {arguments.name}{f', did you mean {near[0]}?' if near else ''}")
        return 1
    daemon.say("tools", {"schemas": arguments.schemas or "mcp"})
    shown = dialogue.listed(daemon.until("tools"))[tools.index(tool)]
    if arguments.json or arguments.schemas is not None:
        _print_json(shown if arguments.schemas else tool)
        return 0
    doc = ""
    # In a session for this tool alone `info` is about it.
    if narrowed is not None and dialogue.shown(ready, "info") is not None:
        daemon.say("tool_req", {"id": "1", "name": "info", "input": {"name": arguments.name}})
        answer = daemon.until("tool_resp")
        doc = "" if answer.get("is_error") else str(json.loads(str(answer["content"])))
    lines = bounds if arguments.config is not None else _defined(daemon, arguments.name)
    _print_tool(tool, shown.get("outputSchema"), doc, Paint(arguments.color, sys.stdout))
    write = partial(dialogue.again, arguments, "call", arguments.name)
    print("\ncalled by", *(f"    {printable(way)}" for way in ways(tool.get("input_schema"), write)), sep="\n")
    if lines:
        print("", *lines, sep="\n")
    return 0


def _defined(daemon: Dialogue, name: str) -> list[str]:
    """What the configuration of a running daemon says of a tool; nothing for who may not administer it."""
    try:
        lines = daemon.administer("config", {"tool": name}).get("lines")
    except CommandRefusedError:
        return []
    return [printable(str(line)) for line in lines] if isinstance(lines, list) else []


def _warn(arguments: argparse.Namespace, ready: Line) -> None:
    warnings = ready.get("warnings")
    prefix = Paint(arguments.color, sys.stderr).warning("tooldispatchd: warning:")
    for warning in warnings if isinstance(warnings, list) else ():
        print(f"{prefix} {printable(str(warning))}", file=sys.stderr)


def _print_json(tools: object) -> None:
    print(shown_json(tools, indent=2))


def _print_tool(tool: Line, output_schema: object, doc: str, paint: Paint) -> None:
    """One tool, all that the daemon says of it."""
    name = printable(str(tool["name"]))
    server, colon, _ = name.partition(":")
    origin = f"a tool of the server {server}" if colon else "built in" if name in BUILT_IN else "a declared tool"
    title = tool.get("title")
    print(f"{paint.strong(name)}{f' ({printable(str(title))})' if title else ''}: {origin}")
    unenforced = _unenforced(tool)
    if unenforced:
        print(paint.warning(f"its program is asked for, and not kept to: {', '.join(unenforced)}"))
    for text in (str(tool.get("description", "")), doc):
        lines = [f"    {printable(line)}".rstrip() for line in text.strip().splitlines()]
        if lines:
            print("", *lines, sep="\n")
    for heading, schema in (("input", tool.get("input_schema")), ("output", output_schema)):
        if schema is None:
            print(f"\n{paint.strong(heading)}\nas the tool gives it: no object with a schema is declared")
        else:
            print(f"\n{paint.strong(heading)}")
            # Escaped: a server's schema is not ours, and must not speak to the terminal.
            print(json.dumps(schema, indent=2))


def _unenforced(tool: Line) -> Sequence[str]:
    keys = tool.get("unenforced")
    return [str(key) for key in keys] if isinstance(keys, list) else []


def _print_table(tools: Sequence[Line], paint: Paint) -> None:
    """One line a tool: its name, and as much of its description's first line as the terminal has room for.

    What its program is not kept to is said first of all.
    """
    import shutil

    names = [printable(str(tool["name"])) for tool in tools]
    # Longer names stand out, so that one does not move all descriptions off the screen.
    width = max((len(name) for name in names if len(name) <= MAX_WIDTH), default=0)
    room = max(shutil.get_terminal_size((120, 24)).columns - width - 2, 20)
    for name, tool in zip(names, tools, strict=True):
        unenforced = _unenforced(tool)
        note = f"[not enforced: {', '.join(unenforced)}] " if unenforced else ""
        first = printable(note + str(tool.get("description", "")).strip().partition("\n")[0])
        told = first if len(first) <= room else first[: room - 1] + "…"
        told = paint.warning(told[: len(note)]) + told[len(note) :]
        print(f"{paint.strong(name)}{' ' * (width - len(name))}  {told}".rstrip())
