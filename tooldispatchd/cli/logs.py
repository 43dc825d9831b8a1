"""`tooldispatchd logs`: follow the log of a running daemon, whatever level it is at."""

import argparse
import sys
from collections.abc import Callable
from datetime import datetime
from typing import Final

from tooldispatchd.cli import administering
from tooldispatchd.cli.dialogue import Dialogue, Line, Paint
from tooldispatchd.cli.jsontext import shown_json

# Beside what they are called, a line's time, level and event.
_HEAD: Final = ("time", "level", "event")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    levels = ("debug", "info", "warning", "error")
    parser.add_argument("--level", choices=levels, default="info", help="least level of what is shown (info)")
    parser.add_argument("--session", type=int, metavar="NUMBER", help="lines of this session alone")
    parser.add_argument("--agent", metavar="NAME", help="lines of this agent alone")
    parser.add_argument("--tool", metavar="NAME", help="lines of this tool alone")
    parser.add_argument("--server", metavar="NAME", help="lines of this server alone")
    parser.add_argument("--json", action="store_true", help="print the lines in JSON, as the log of a service has them")
    administering.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print lines as they come, until Ctrl-C; the exit code."""
    shown = shown_json if arguments.json else _text(is_coloured=Paint(arguments.color, sys.stdout).is_on)
    fields = {name: getattr(arguments, name) for name in ("level", "session", "agent", "tool", "server")}

    def follow(daemon: Dialogue) -> int:
        for line, dropped in daemon.follow("log", fields):
            if dropped:
                lost = {"time": line.get("time"), "level": "warning", "event": "log lines dropped", "count": dropped}
                print(shown(lost))
            print(shown(line), flush=True)
        return 0

    return administering.administer(arguments, follow)


def _text(*, is_coloured: bool) -> Callable[[Line], str]:
    from tooldispatchd.daemon.logs import readable

    def shown(line: Line) -> str:
        at = datetime.fromisoformat(str(line["time"])).timestamp()
        fields = {name: value for name, value in line.items() if name not in _HEAD}
        return readable(at, str(line["level"]), str(line["event"]), fields, is_coloured=is_coloured)

    return shown
