"""What one call's input becomes for a program: its stdin, its further arguments, its further variables."""

import errno
import os
from typing import Final

import msgspec

from tooldispatchd.catalog.arguments import WHOLE, WHOLE_VARIABLE, Feed, Slot, Template
from tooldispatchd.catalog.pointers import escape
from tooldispatchd.children.spawn import SpawnError
from tooldispatchd.wire.faults import Code, Fault

_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode

_TOO_LONG: Final = os.strerror(errno.E2BIG)


class Fed(msgspec.Struct, frozen=True):
    """An input, ready: `stdin`, the `words` after the command's own, the `env` on top of its own.

    `texts` are the parts of the input in `words` and `env`, by their pointers.
    """

    stdin: bytes
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


def supply(feed: Feed, line: bytes) -> Fed | Fault:
    """The input of `line` (one JSON value and a newline) as `feed` has it; `invalid_input` where no word can hold it.

    A string is itself in text, in an argument and in a variable, any other value its JSON without spaces. In text,
    null is no text at all.
    """
    if feed.mode == "json":
        return Fed(line)
    value = _decode(line)
    if feed.mode == "text":
        return Fed(b"" if value is None else _text(value).encode())
    texts = _texts(feed, value)
    for name, text in texts.items():
        if "\0" in text:
            return _refused(_pointer(feed, name), "a NUL can be in no argument and in no variable of a program")
    told = {_pointer(feed, name): text for name, text in texts.items()}
    if feed.mode == "env":
        return Fed(b"", env=texts, texts=told)
    words = [_word(template, texts) for template in feed.templates]
    return Fed(b"", words=tuple(word for word in words if word is not None), texts=told)


def _texts(feed: Feed, value: object) -> dict[str, str]:
    """The parts of the input that the program gets, by the names that the feed has for them."""
    if not isinstance(value, dict) or not feed.is_record:
        return {WHOLE_VARIABLE if feed.mode == "env" else WHOLE: _text(value)}
    names = feed.variables or dict.fromkeys(name for template in feed.templates for name in template.fields)
    return {name: _text(value[name]) for name in names if name in value}


def _text(value: object) -> str:
    return value if isinstance(value, str) else _encode(value).decode()


def _word(template: Template, texts: dict[str, str]) -> str | None:
    """The argument; None where a field in it is absent."""
    if any(name not in texts for name in template.fields):
        return None
    return "".join(texts[part.name] if isinstance(part, Slot) else part for part in template.parts)


def _pointer(feed: Feed, name: str) -> str:
    return f"/{escape(name)}" if feed.is_record else ""


def _refused(pointer: str, message: str) -> Fault:
    detail = f"{pointer}: {message}" if pointer else message
    return Fault(Code.INVALID_INPUT, detail, {"violations": [{"path": pointer, "message": message}]})
