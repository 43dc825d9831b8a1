"""`tooldispatchd call`: one call, for people and scripts."""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Final

from tooldispatchd.cli import dialogue, inputs
from tooldispatchd.cli.dialogue import CommandRefusedError, Dialogue, Line
from tooldispatchd.cli.paint import Paint, printable

EPILOG: Final = """\
examples:
  tooldispatchd call greet name=Ada
  tooldispatchd call greet '{"name": "Ada"}'
  tooldispatchd call echo '"hello"' --raw
  echo '{"timezone": "UTC"}' | tooldispatchd call time:get_current_time -
  tooldispatchd call double input=21 --config tooldispatchd.toml

Only what the tool needs is started: no server but its own. KEY=VALUE is a text where the tool's schema takes one, else
JSON. The answer's content is printed as it is, errors too.

exit codes: 0 answered; 1 the answer is an error; 2 usage or configuration; 3 the daemon cannot be reached
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = f"{dialogue.SOCKETS}\n{EPILOG}"
    parser.add_argument("name", metavar="NAME", help="the tool")
    parser.add_argument(
        "input",
        metavar="INPUT",
        nargs="*",
        help="its input as one JSON text, or as KEY=VALUE for each field; - reads JSON from stdin",
    )
    parser.add_argument(
        "--deadline",
        type=dialogue.seconds,
        metavar="SECONDS",
        help="the most time that it may take, once its server has started",
    )
    parser.add_argument("--raw", action="store_true", help="print a text as text, and not as JSON")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--updates", action="store_true", help="say on stderr how far it is")
    how.add_argument(
        "--background",
        action="store_true",
        help="run it as a background job, as an agent may, and wait for its result; it ends with the command",
    )
    dialogue.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Call and print; the exit code."""
    try:
        given = inputs.named_values(arguments.input)
        text = None if given is not None else inputs.json_text(_words(arguments.input), arguments.name)
    except inputs.ShellInputError as error:
        dialogue.tell(arguments, str(error))
        return 2

    def call(daemon: Dialogue, hello: Line) -> int:
        ready = dialogue.open_for(daemon, arguments.name, {**hello, "updates": arguments.updates or None})
        said = text
        if given is not None:
            # The schema says which of them are texts. A name that the profile does not have is mostly a slip, which is
            # not to wait for every server of it.
            shown = None if ready is None else dialogue.shown(ready, arguments.name)
            said = json.dumps(inputs.typed(given, shown and shown.get("input_schema")))
        return _print(arguments, _call(arguments, daemon, said))

    def call_or_refusal(daemon: Dialogue, hello: Line) -> int:
        try:
            return call(daemon, hello)
        except CommandRefusedError as refused:
            if dialogue.exit_code(refused) != 1:
                raise
            # What refuses the session is the answer to the call for which alone it was opened.
            print(json.dumps(refused.fault, ensure_ascii=False, separators=(",", ":")))
            return 1

    return dialogue.talk(arguments, call_or_refusal)


def _words(given: Sequence[str]) -> list[str]:
    return [sys.stdin.buffer.read().decode(errors="surrogateescape")] if list(given) == ["-"] else list(given)


def _call(arguments: argparse.Namespace, daemon: Dialogue, text: str | None) -> Line:
    """Ask, and wait for the answer."""
    deadline = None if arguments.deadline is None else arguments.deadline * 1000
    fields: Line = {"id": "1", "name": arguments.name, "deadline_ms": deadline}
    daemon.say("tool_req", {**fields, "background": arguments.background or None}, text)
    answer = _answer(arguments, daemon)
    if not arguments.background or answer.get("is_error"):
        return answer
    job = json.loads(str(answer["content"]))["job"]
    print(f"tooldispatchd: waiting for {job}", file=sys.stderr)
    daemon.say("tool_req", {"id": "2", "name": "job_wait", "input": {"job": job}})
    waited = _answer(arguments, daemon)
    return waited if waited.get("is_error") else json.loads(str(waited["content"]))


def _answer(arguments: argparse.Namespace, daemon: Dialogue) -> Line:
    paint = Paint(arguments.color, sys.stderr)
    while (line := daemon.hear()).get("__port") != "tool_resp":
        if line.get("__port") == "tool_update":
            done, total = line.get("progress"), line.get("total")
            counted = "" if done is None else f"{done:g}" if total is None else f"{done:g}/{total:g}"
            told = printable(" ".join(str(line[key]) for key in ("message", "content") if line.get(key)))
            print(f"{paint.strong(counted)} {told}".strip(), file=sys.stderr)
    return line


def _print(arguments: argparse.Namespace, answer: Line) -> int:
    content = str(answer.get("content"))
    if arguments.raw and not answer.get("is_error"):
        try:
            value = json.loads(content)
        except (ValueError, RecursionError):
            value = None  # a server's text is one already
        content = value if isinstance(value, str) else content
    print(content)
    return 1 if answer.get("is_error") else 0
