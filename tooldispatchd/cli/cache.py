"""`tooldispatchd cache`: the answers that a configuration's `cache.store` has, by tool; and taking them away."""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tooldispatchd.agent.answerstore import AnswerFile, AnswerFileError, KeptTool, path_of
from tooldispatchd.catalog.globs import NameList
from tooldispatchd.cli.jsontext import escaped
from tooldispatchd.config.config_report import printable
from tooldispatchd.config.configuration import ConfigError, find_configuration, load_catalog

EPILOG = """\
The file is that of cache.store in the configuration. Its answers are not shown, and the inputs that they belong to are
not in it. A daemon that runs drops what is cleared within a second; what it keeps in memory alone ends with it.

exit codes: 0 done; 1 the file cannot be used; 2 usage, configuration, or no file is named
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("tools", metavar="TOOL", nargs="*", help="only these tools, by name or pattern ('github:*')")
    parser.add_argument("--clear", action="store_true", help="take their answers away")
    parser.add_argument("--json", action="store_true", help="print an array of objects, one for each tool")
    parser.add_argument("--config", type=Path, metavar="FILE", help="the configuration; by default the one of serve")


def run(arguments: argparse.Namespace) -> int:
    """List, or clear; the exit code."""
    try:
        config = load_catalog(arguments.config or find_configuration(os.environ), os.environ).config
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    path = path_of(config.cache.store)
    if path is None:
        _say("the configuration keeps answers in memory alone: cache.store names no file")
        return 2
    if not path.exists():
        # No daemon has been here, and this makes none.
        return _show([], arguments)
    wanted = NameList(arguments.tools or ["*"])
    try:
        file = AnswerFile(path)
        try:
            found = [each for each in file.tools(time.time()) if wanted.admits(each.tool)]
            if arguments.clear:
                file.clear(each.tool for each in found)
        finally:
            file.close()
    except AnswerFileError as error:
        _say(f"cannot use {path}: {error}")
        return 1
    return _show(found, arguments)


def _show(found: Sequence[KeptTool], arguments: argparse.Namespace) -> int:
    """Print what there is, or was before it was cleared; the exit code."""
    if arguments.json:
        print(escaped(msgspec.json.encode(found).decode()))
        return 0
    now = time.time()
    width = max((len(each.tool) for each in found), default=0)
    for each in found:
        ages = f"newest {now - each.newest_at:.0f} s old, good for {each.until - now:.0f} s"
        print(printable(f"{each.tool:{width}}  {each.answers} answers, {each.bytes} bytes; {ages}"))
    count = sum(each.answers for each in found)
    _say(f"{count} answers {'cleared' if arguments.clear else 'kept'}")
    return 0


def _say(text: str) -> None:
    print(f"tooldispatchd: {printable(text)}", file=sys.stderr)
