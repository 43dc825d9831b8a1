"""Tool calls in plain text, for models without tool calling: the prompt that tells how, and what a model then wrote.

A call is an object of JSON between two tags, as many open models are trained to write it:

    <tool_call>{"name": "search", "input": {"text": "trains"}}</tool_call>

What models write instead is taken where it can mean but one thing: `arguments` or `parameters` in the place of `input`
(the object itself, or the same as a text), a fence of code around the object, a list of calls in one pair of tags, no
closing tag at the end of the text. All else between tags is malformed, and told with what to mend. Linear in the text.
"""

import json
import re
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Raw

OPEN: Final = "<tool_call>"
CLOSE: Final = "</tool_call>"
# A model that calls more at once repeats itself; and each malformed one is told in some hundred bytes.
MAX_CALLS: Final = 128
MAX_EXCERPT: Final = 120
# Some 60,000 tokens; of the dispatch thread an ordinary text takes a millisecond, a hostile one fifty.
MAX_TEXT: Final = 256 * 1024

_INPUTS: Final = ("input", "arguments", "parameters")
_FENCE: Final = re.compile(r"\s*+(?:```[A-Za-z_]*+)?+\s*+")
_HOW: Final = f"""\
You can call tools. To call one write, on lines of its own:

{OPEN}
{{"name": "NAME", "input": {{"PARAMETER": "VALUE"}}}}
{CLOSE}

Between the tags stands one object of JSON: `name` is the name of a tool, `input` an object that matches the \
`input_schema` of that tool. For several calls write several such blocks. Then stop, and wait for the results.

The tools, one a line:
"""

_NOTHING: Final = f'nothing stands in the tags; write {{"name": …, "input": …}} between {OPEN} and {CLOSE}'
_TOO_MANY: Final = f"there are more than {MAX_CALLS} calls; those from here on are left out"
_decode_call: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_calls: Final = msgspec.json.Decoder(list[dict[str, Raw]]).decode
# Numbers are read by nobody here; Python refuses to read some of thousands of digits.
_scan: Final = json.JSONDecoder(parse_int=str, parse_float=str).raw_decode
_decode_text: Final = msgspec.json.Decoder(str).decode
_NOT_READABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, UnicodeEncodeError, RecursionError)


class TextCall(msgspec.Struct, frozen=True):
    """A call that a model wrote: the tool's name as it is written there, and the input; empty where it gave none."""

    name: str
    input: Raw


class Malformed(msgspec.Struct, frozen=True):
    """What begins as a call and is none: what to mend, where it begins in the text, and its beginning."""

    detail: str
    at: int
    excerpt: str


class CallError(Exception):
    """Why a block is no call, in a sentence for the model."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def prompt_of(tools: Iterable[Raw]) -> str:
    """What to put into a model's prompt: how tools are called, and each tool as the plain form shows it."""
    return _HOW + "".join(f"{bytes(tool).decode()}\n" for tool in tools)


def read_calls(text: str) -> tuple[list[TextCall], list[Malformed]]:
    """The calls in what a model wrote, in their order, and what of it was meant as one; no more than 128 of both.

    Beyond `MAX_TEXT` characters nothing is read.
    """
    calls: list[TextCall] = []
    malformed: list[Malformed] = []
    if len(text) > MAX_TEXT:
        return [], [Malformed(f"the text is longer than {MAX_TEXT} characters", 0, "")]
    at, last_close = text.find(OPEN), text.rfind(CLOSE)
    while at >= 0:
        if len(calls) + len(malformed) >= MAX_CALLS:
            malformed.append(Malformed(_TOO_MANY, at, ""))
            break
        start = _past_fence(text, at + len(OPEN))
        try:
            end = _end_of_value(text, start)
            found = _read(text[start:end])
            _check_end(text, end)
            if len(calls) + len(found) > MAX_CALLS:
                raise CallError(_TOO_MANY)  # noqa: TRY301  # the list of one block alone may have as many
        except CallError as error:
            malformed.append(Malformed(error.why, at, text[at : at + MAX_EXCERPT]))
            # Its own end is not known: what looks like one may stand in a string.
            end = text.find(CLOSE, start) if start <= last_close else start
        else:
            calls += found
        at = text.find(OPEN, end)
    return calls, malformed


def _past_fence(text: str, at: int) -> int:
    """Where white space, and a fence of code in it, ends."""
    fence = _FENCE.match(text, at)
    return at if fence is None else fence.end()


def _end_of_value(text: str, start: int) -> int:
    """The end of the object or list that begins at `start`."""
    if text.startswith(CLOSE, start) or start == len(text):
        raise CallError(_NOTHING)
    if text[start] not in "{[":
        raise CallError('between the tags must stand an object of JSON: {"name": …, "input": …}')
    try:
        return _scan(text, start)[1]
    except json.JSONDecodeError as error:
        raise CallError(_what_to_mend(text, start, error)) from None
    except RecursionError:
        raise CallError("the JSON is nested too deep") from None


def _what_to_mend(text: str, start: int, error: json.JSONDecodeError) -> str:
    rest = text[error.pos :].lstrip()[:1]
    before = text[start : error.pos].rstrip()[-1:]
    if before == "," and rest in ("}", "]"):
        return "a comma stands before a closing bracket: leave it out"
    if not rest or error.msg.startswith("Unterminated") or text.startswith(CLOSE, error.pos):
        return "the JSON has no end: close every string and bracket"
    if rest == "'":
        return 'a string stands in double quotes: "…"'
    if error.msg.startswith("Invalid control"):
        return "a string has no line breaks or other control characters: write \\n for one"
    return f"this is no JSON: {error.msg[:1].lower()}{error.msg[1:]}, character {error.pos - start + 1} of the object"


def _read(block: str) -> list[TextCall]:
    try:
        said = _decode_calls(block) if block[0] == "[" else [_decode_call(block)]
    except msgspec.ValidationError:
        raise CallError("a call must be an object with name and input") from None
    except _NOT_READABLE as error:
        # `json` reads a little more than JSON: NaN, half of a pair of surrogates.
        raise CallError(f"this is no JSON: {error}") from None
    if not said:
        raise CallError(_NOTHING)
    return [_call(each) for each in said]


def _call(said: dict[str, Raw]) -> TextCall:
    try:
        name = _decode_text(said["name"])
    except KeyError:
        raise CallError('the call has no "name": write the name of the tool as a string') from None
    except _NOT_READABLE:
        raise CallError('"name" must be a string, the name of the tool') from None
    keys = [key for key in _INPUTS if key in said]
    if len(keys) > 1:
        raise CallError(f'the call has both "{keys[0]}" and "{keys[1]}": write "input" alone')
    unknown = next((key for key in said if key not in ("name", "id", "type", *_INPUTS)), None)
    if unknown is not None and not keys:
        raise CallError(f'"{unknown[:MAX_EXCERPT]}" stands beside "name": put it into "input", an object')
    given = said[keys[0]] if keys else Raw(b"{}")
    if keys and keys[0] != "input" and bytes(given)[:1] == b'"':
        given = _unquoted(given)
    # A view would keep the whole text.
    return TextCall(name, given.copy())


def _unquoted(given: Raw) -> Raw:
    """The object that some APIs write as a text."""
    try:
        inner = _decode_text(given)
        msgspec.json.decode(inner, type=dict[str, Raw])
    except _NOT_READABLE:
        return given
    return Raw(inner.encode())


def _check_end(text: str, end: int) -> None:
    """Nothing but the closing tag may follow, or the end of the text, where a stop sequence took it away."""
    rest = _past_fence(text, end)
    if rest < len(text) and not text.startswith((CLOSE, OPEN), rest):
        raise CallError(f"after the object must stand {CLOSE}, and nothing before it")
