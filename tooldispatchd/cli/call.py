"""`tooldispatchd call`: one call, for people and scripts."""

import argparse
import json
import sys
from contextlib import suppress
from functools import partial
from typing import Final

from tooldispatchd.cli import dialogue
from tooldispatchd.cli.callwords import ShellInputError, input_json
from tooldispatchd.cli.dialogue import CommandRefusedError, Dialogue, Line, Paint, printable
from tooldispatchd.cli.jsontext import shown_json

EPILOG: Final = """\
examples:
  tooldispatchd call greet name=Ada
  tooldispatchd call greet '{"name": "Ada"}'
  tooldispatchd call wordcount 'one two three'
  tooldispatchd call echo '"hello"' --raw
  echo '{"timezone": "UTC"}' | tooldispatchd call time:get_current_time -
  tooldispatchd call double input=21 --config tooldispatchd.toml

Only what the tool needs is started: no server but its own. KEY=VALUE is a text where the tool's schema takes one, else
JSON. A tool whose input is a string takes INPUT, or stdin, as it is. The answer's content is printed as it is; a fault
on a terminal as a sentence, with the last words of its program, else as a line of JSON.

exit codes: 0 answered; 1 the answer is an error; 2 usage or configuration; 3 the daemon cannot be reached
"""
# Of a fault, what its program said last, as it was written.
TAILS: Final = ("stdout_tail", "stderr_tail")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.usage = "tooldispatchd call [options] NAME [KEY=VALUE ... | JSON | -]"
    parser.epilog = f"{dialogue.SOCKETS}\n{EPILOG}"
    parser.add_argument("name", metavar="NAME", help="the tool")
    parser.add_argument(
        "input",
        metavar="INPUT",
        nargs="*",
        default=[],
        help="its input as one JSON text, or as KEY=VALUE for each field; - reads it from stdin",
    )
    parser.add_argument(
        "--deadline",
        type=dialogue.seconds,
        metavar="SECONDS",
        help="the most time that it may take, once its server has started",
    )
    parser.add_argument("--json", action="store_true", help="print a fault as JSON on a terminal too")
    parser.add_argument(
        "--raw", action="store_true", help="print it as a model may read it: a text as it is, an image by its size"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--updates", action="store_true", help="say on stderr how far it is")
    how.add_argument(
        "--background",
        action="store_true",
        help="run it as a background job, as an agent may, and wait for its result; it ends with the command",
    )
    dialogue.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    piped = sys.stdin.buffer.read().decode(errors="surrogateescape") if arguments.input == ["-"] else None

    def call(daemon: Dialogue, hello: Line) -> int:
        try:
            ready = dialogue.open_for(daemon, arguments.name, {**hello, "updates": arguments.updates or None})
            answer = _call(arguments, daemon, _input(arguments, daemon, ready, piped))
        except ShellInputError as error:
            dialogue.tell(arguments, str(error))
            return 2
        except CommandRefusedError as refused:
            if dialogue.exit_code(refused) != 1:
                raise
            # The session was opened for this call alone: its refusal is the call's answer.
            print(_shown_fault(arguments, refused.fault) or shown_json(refused.fault))
            return 1
        fault = _fault(answer)
        print(_shown_fault(arguments, fault) or answer.get("content"))
        if fault.get("error") == "invalid_input":
            dialogue.tell(arguments, f"{dialogue.again(arguments, 'tools', arguments.name)} shows what it takes")
        elif fault.get("error") == "unknown_tool" and "did_you_mean" not in fault and ":" not in arguments.name:
            # Servers that are not up yet have not said what they offer.
            listing = dialogue.again(arguments, "tools")
            dialogue.tell(arguments, f"{listing} lists all tools; a server's are called SERVER:TOOL")
        return 1 if answer.get("is_error") else 0

    return dialogue.talk(arguments, call)


def _input(arguments: argparse.Namespace, daemon: Dialogue, ready: Line | None, piped: str | None) -> str | None:
    """The input as JSON. Raises `ShellInputError`."""
    write = partial(dialogue.again, arguments, "call", arguments.name)
    tool = (None if ready is None else dialogue.shown(ready, arguments.name)) or {}
    try:
        return input_json(arguments.input, tool.get("input_schema"), write, piped=piped)
    except ShellInputError:
        if ready is not None:
            raise
    # The schema is waited for only now: a name that the profile does not have is mostly a misspelt one.
    found = dialogue.shown(daemon.open(), arguments.name)
    return None if found is None else input_json(arguments.input, found.get("input_schema"), write, piped=piped)


def _shown_fault(arguments: argparse.Namespace, fault: Line) -> str | None:
    """A fault as people read it: code and sentence, then what the program said last; None where JSON is printed."""
    if not fault or arguments.json or not sys.stdout.isatty():
        return None
    code = Paint(arguments.color, sys.stdout).error(printable(str(fault.get("error"))))
    tails = [str(fault[name]).rstrip().split("\n") for name in TAILS if fault.get(name)]
    lines = (printable(line.expandtabs()).rstrip() for tail in tails for line in tail)
    return "\n".join([f"{code}: {printable(str(fault.get('detail')))}", *lines])


def _call(arguments: argparse.Namespace, daemon: Dialogue, text: str | None) -> Line:
    deadline = None if arguments.deadline is None else arguments.deadline * 1000
    fields: Line = {"id": "1", "name": arguments.name, "deadline_ms": deadline}
    asked: Line = {"background": arguments.background or None, "content": "text" if arguments.raw else None}
    daemon.say("tool_req", {**fields, **asked}, text)
    answer = _answer(arguments, daemon)
    if not arguments.background or answer.get("is_error"):
        return answer
    job = json.loads(str(answer["content"]))["job"]
    print(f"tooldispatchd: waiting for {job}", file=sys.stderr)
    daemon.say("tool_req", {"id": "2", "name": "job_wait", "input": {"job": job}})
    waited = _answer(arguments, daemon)
    return waited if waited.get("is_error") else json.loads(str(waited["content"]))


def _fault(answer: Line) -> Line:
    """The fault; empty where the content is none, or in another form."""
    with suppress(ValueError):
        fault = answer.get("value") or json.loads(str(answer.get("content"))) if answer.get("fault") else None
        return fault if isinstance(fault, dict) else {}
    return {}


def _answer(arguments: argparse.Namespace, daemon: Dialogue) -> Line:
    paint = Paint(arguments.color, sys.stderr)
    while (line := daemon.hear()).get("__port") != "tool_resp":
        if line.get("__port") == "tool_update":
            done, total = line.get("progress"), line.get("total")
            counted = "" if done is None else f"{done:g}" if total is None else f"{done:g}/{total:g}"
            told = printable(" ".join(str(line[key]) for key in ("message", "content") if line.get(key)))
            print(f"{paint.strong(counted)} {told}".strip(), file=sys.stderr)
    return line
