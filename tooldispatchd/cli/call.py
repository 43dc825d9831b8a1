"""`tooldispatchd call`: one call, for people and scripts."""

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from tooldispatchd.cli import dialogue
from tooldispatchd.cli.dialogue import CommandRefusedError, Dialogue, Line, Paint, printable
from tooldispatchd.cli.jsontext import shown_json

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
NAMED: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*)=(.*)", re.DOTALL)
# A reference leads to a definition, which may be one again; schemas of servers may go in a circle.
MAX_REFERENCES: Final = 8


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
        help="its input as one JSON text, or as KEY=VALUE for each field; - reads JSON from stdin",
    )
    parser.add_argument(
        "--deadline",
        type=dialogue.seconds,
        metavar="SECONDS",
        help="the most time that it may take, once its server has started",
    )
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
    try:
        given = named_values(arguments.input)
        words = arguments.input
        if words == ["-"]:
            words = [sys.stdin.buffer.read().decode(errors="surrogateescape")]
        text = None if given is not None else json_text(words, arguments.name)
    except ShellInputError as error:
        dialogue.tell(arguments, str(error))
        return 2

    def call(daemon: Dialogue, hello: Line) -> int:
        try:
            ready = dialogue.open_for(daemon, arguments.name, {**hello, "updates": arguments.updates or None})
            said = text
            if given is not None:
                # The schema says which of them are texts. It is not waited for where the profile does not name the
                # tool: that is mostly a misspelt name.
                shown = None if ready is None else dialogue.shown(ready, arguments.name)
                said = json.dumps(typed(given, shown and shown.get("input_schema")))
            answer = _call(arguments, daemon, said)
        except CommandRefusedError as refused:
            if dialogue.exit_code(refused) != 1:
                raise
            # The session was opened for this call alone: its refusal is the call's answer.
            print(shown_json(refused.fault))
            return 1
        print(answer.get("content"))
        fault = _fault(answer)
        if fault.get("error") == "invalid_input":
            dialogue.tell(arguments, f"{_shown_by(arguments, arguments.name)} shows what it takes")
        elif fault.get("error") == "unknown_tool" and "did_you_mean" not in fault and ":" not in arguments.name:
            # Servers that are not up yet have not said what they offer.
            dialogue.tell(arguments, f"{_shown_by(arguments)} lists all tools; a server's are called SERVER:TOOL")
        return 1 if answer.get("is_error") else 0

    return dialogue.talk(arguments, call)


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


def _shown_by(arguments: argparse.Namespace, *tools: str) -> str:
    """The command that shows these tools whole, or lists all."""
    import shlex

    of = [] if arguments.config is None else ["--config", arguments.config]
    return shlex.join(["tooldispatchd", "tools", *tools, *of])


def _answer(arguments: argparse.Namespace, daemon: Dialogue) -> Line:
    paint = Paint(arguments.color, sys.stderr)
    while (line := daemon.hear()).get("__port") != "tool_resp":
        if line.get("__port") == "tool_update":
            done, total = line.get("progress"), line.get("total")
            counted = "" if done is None else f"{done:g}" if total is None else f"{done:g}/{total:g}"
            told = printable(" ".join(str(line[key]) for key in ("message", "content") if line.get(key)))
            print(f"{paint.strong(counted)} {told}".strip(), file=sys.stderr)
    return line


class ShellInputError(Exception):
    """The words of the command line are no input."""


def named_values(words: Sequence[str]) -> dict[str, str] | None:
    """The words as texts by their keys; None where they are not of this kind. Raises `ShellInputError`."""
    matches = [NAMED.fullmatch(word) for word in words]
    if not words or not all(matches):
        return None
    values: dict[str, str] = {}
    for key, value in (match.groups() for match in matches if match):
        if key in values:
            raise ShellInputError(f"{key} is given twice; a list is JSON: '{key}=[1, 2]'")
        values[key] = value
    return values


def json_text(words: Sequence[str], tool: str) -> str | None:
    """The one JSON text that the words are; None where there are none. Raises `ShellInputError`, with an example."""
    if not words or not "".join(words).strip():
        return None
    why = "the shell made several words of it"
    try:
        _parse(words[0])
    except (ValueError, RecursionError) as error:
        why = why if len(words) > 1 else str(error)
    else:
        if len(words) == 1:
            return words[0]
    import shlex

    # How it could have been meant: the quotes of JSON have to pass the shell.
    call = f"tooldispatchd call {tool}"
    if words[0].startswith(("{", "[")):
        quoted = f"""{call} '{{"name": "Ada"}}'"""
        example = f"in a shell JSON stands in single quotes: {quoted}, or for short: {call} name=Ada"
    elif NAMED.fullmatch(words[0]):
        example = f"a value with blanks stands in quotes: {call} {shlex.join(_whole_fields(words))}"
    else:
        meant = shlex.quote(json.dumps(" ".join(words), ensure_ascii=False))
        example = f"a text is JSON in quotes of its own, which the shell must leave: {call} {meant}"
        if NAMED.fullmatch(f"{words[0]}="):
            example += f"; a field has its value after a =: {call} {words[0]}=VALUE"
    raise ShellInputError(f"the input is not JSON: {why}\n{example}")


def _whole_fields(words: Sequence[str]) -> list[str]:
    """Fields of which the shell made several words, the first of which is KEY=VALUE, put together again."""
    fields: list[str] = []
    for word in words:
        if NAMED.fullmatch(word):
            fields.append(word)
        else:
            fields[-1] += f" {word}"
    return fields


def typed(values: Mapping[str, str], schema: object) -> dict[str, object]:
    """The values as the properties of `schema` want them: a text stays one where a string will do."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    found: dict[str, object] = dict(values)
    for key, text in values.items():
        wanted = _kinds(properties.get(key) if isinstance(properties, dict) else None, schema, MAX_REFERENCES)
        if "string" in wanted:
            continue
        with suppress(ValueError, RecursionError):
            value = _parse(text)
            if not wanted or _kind(value) in wanted:
                found[key] = value
    return found


def _kinds(node: object, root: object, references: int) -> set[str]:
    """The types that a part of a schema names, "number" for every number; nothing where it does not say."""
    if not isinstance(node, dict) or not isinstance(root, dict):
        return set()
    named = node.get("type")
    kinds = {named} if isinstance(named, str) else {kind for kind in named or () if isinstance(kind, str)}
    reference = node.get("$ref")
    if isinstance(reference, str) and references:
        where, _, name = reference.rpartition("/")
        definitions = root.get(where.removeprefix("#/"))
        if isinstance(definitions, dict):
            kinds |= _kinds(definitions.get(name), root, references - 1)
    for option in [*(node.get("anyOf") or ()), *(node.get("oneOf") or ())]:
        kinds |= _kinds(option, root, references - 1) if references else set()
    kinds |= {_kind(value) for value in [*(node.get("enum") or ()), *([node["const"]] if "const" in node else [])]}
    return {"number" if kind == "integer" else kind for kind in kinds}


def _kind(value: object) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, dict) else "array" if isinstance(value, list) else "number"


def _parse(text: str) -> object:
    def refuse(constant: str) -> object:
        raise ValueError(f"{constant} is no JSON")

    text.encode()  # raises ValueError for bytes that are not UTF-8
    return json.loads(text, parse_constant=refuse)
