"""A call's input as a program gets it: its stdin, its further arguments, its further variables."""

import errno
import os
from collections.abc import Mapping
from typing import Final

import msgspec

from tooldispatchd.calls.violations import fault_at
from tooldispatchd.catalog.arguments import WHOLE, WHOLE_VARIABLE, Each, Feed, Flag, Slot
from tooldispatchd.catalog.pointers import escape
from tooldispatchd.catalog.templates import text_of
from tooldispatchd.catalog.violations import Violation
from tooldispatchd.children.spawn import SpawnError
from tooldispatchd.wire.faults import Code, Fault

_decode: Final = msgspec.json.Decoder().decode

_TOO_LONG: Final = os.strerror(errno.E2BIG)
# The kernel takes some 200,000 short ones; making so many takes the dispatch thread a tenth of a second.
MAX_ITEMS: Final = 10_000
MAX_WORDS_BYTES: Final = 4 * 1024 * 1024

_NUL: Final = "a NUL can be in no argument and in no variable of a program"


class Fed(msgspec.Struct, frozen=True):
    """An input, ready: `stdin`, the `words` after the command's own, the `env` on top of its own.

    `texts` are the parts of the input in `words` and `env`, by their pointers.
    """

    stdin: bytes | bytearray
    words: tuple[str, ...] = ()
    env: dict[str, str] = {}
    texts: dict[str, str] = {}

    def refusal(self, error: SpawnError) -> Fault:
        """Why the program could not be started with it."""
        # execve(2): one argument or variable has at most 128 KiB, and all together a quarter of the stack's limit. Both
        # are the kernel's own and depend on the machine, so that it is asked, and its answer told.
        if error.why != _TOO_LONG or not self.texts:
            return Fault(Code.TOOL_FAILED, str(error))
        pointer, text = max(self.texts.items(), key=lambda part: len(part[1]))
        return _refused(pointer, f"{len(text.encode())} bytes are too many for the arguments or variables of a program")


def supply(feed: Feed, line: bytes | bytearray) -> Fed | Fault:
    """The input of `line` as `feed` has it; `invalid_input` where no word can hold it.

    It is one JSON value and a newline, or for a program that reads text that text. In an argument and in a variable a
    string is itself, any other value its JSON without spaces.
    """
    if feed.mode in {"json", "text"}:
        return Fed(line)
    # Far more than the kernel takes by default, and than is quickly decoded.
    if len(line) > MAX_WORDS_BYTES or line.count(b",") + line.count(b"[") + line.count(b"{") > 2 * MAX_ITEMS:
        return _refused("", f"{len(line)} bytes are too many for the arguments or variables of a program")
    value = _decode(line)
    fields = value if isinstance(value, dict) and feed.is_record else {WHOLE: value, WHOLE_VARIABLE: value}
    if feed.mode == "args":
        return _arguments(feed, fields)
    env = {name: text_of(fields[name]) for name in feed.variables if name in fields}
    texts = {_pointer(feed, name): text for name, text in env.items()}
    return _refused_nul(texts) or Fed(b"", env=env, texts=texts)


def _arguments(feed: Feed, fields: Mapping[str, object]) -> Fed | Fault:
    filled: dict[Slot | Each | Flag, list[str]] = {}
    texts: dict[str, str] = {}
    for slot in dict.fromkeys(slot for template in feed.templates for slot in template.slots):
        value = fields.get(slot.name)
        if isinstance(slot, Flag):
            filled[slot] = [] if value is None or value is False else [slot.text]
        elif slot.name not in fields:
            filled[slot] = []
        else:
            items = value if isinstance(slot, Each) and isinstance(value, list) else [value]
            if len(items) > MAX_ITEMS:
                why = f"{len(items)} items are too many for the arguments of a program, which are {MAX_ITEMS} at most"
                return _refused(_pointer(feed, slot.name), why)
            filled[slot] = [text_of(item) for item in items]
            texts[_pointer(feed, slot.name)] = "".join(filled[slot])
    words: list[str] = []
    for template in feed.templates:
        places = [[part] if isinstance(part, str) else filled[part] for part in template.parts]
        # No argument where a place in it has nothing, and one for each item of the list in it.
        if all(places):
            many = range(max(map(len, places)))
            words += ["".join(place[number] if len(place) > 1 else place[0] for place in places) for number in many]
    return _refused_nul(texts) or Fed(b"", words=tuple(words), texts=texts)


def _refused_nul(texts: Mapping[str, str]) -> Fault | None:
    return next((_refused(pointer, _NUL) for pointer, text in texts.items() if "\0" in text), None)


def _pointer(feed: Feed, name: str) -> str:
    return f"/{escape(name)}" if feed.is_record else ""


def _refused(pointer: str, message: str) -> Fault:
    return fault_at(Code.INVALID_INPUT, [Violation(pointer, message)])
