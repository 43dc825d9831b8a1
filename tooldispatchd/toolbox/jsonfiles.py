"""The tools `json_read` and `json_write`: one value of a JSON file, by JSON Pointer (RFC 6901).

A document is parsed with its numbers as they are written, and a changed one is written anew as a whole: with the
indentation that it had, each member on a line of its own.
"""

import difflib
import json
import re
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from tooldispatchd.forked.python.context import InvalidInputError, ToolContext, ToolFailedError
from tooldispatchd.toolbox.encodings import Text
from tooldispatchd.toolbox.guard import note_read
from tooldispatchd.toolbox.places import PathText, cannot
from tooldispatchd.toolbox.rewriting import file_behind, read_text, rewrite, utf8

Pointer = Annotated[str, Meta(description='where in it, as /servers/0/name; "" is the whole document')]
Value = Annotated[str, Meta(description='the new value as JSON text: "text" in quotes, 5, true, {"a": 1}')]
# What a model reads at once; of more it should ask for a part.
_MAX_SHOWN_CHARS: Final = 50_000
_MAX_TOLD_KEYS: Final = 10
_WRONG_ESCAPE: Final = re.compile(r"~(?![01])")
_INDENTED: Final = re.compile(r"\n([ \t]+)\S")
# For msgspec's `format`: on one line with spaces, and without.
_ONE_LINE: Final = 0
_DENSE: Final = -1
# A document that is not there yet is laid out like this one.
_NEW: Final = '{\n  "key": "value"\n}\n'


def json_read(ctx: ToolContext, path: PathText, pointer: Pointer = "") -> str:
    """Read one value of a JSON file, by JSON Pointer. Numbers are given as they are written."""
    keys = _keys(pointer)
    target = file_behind("read", path)
    try:
        status = target.stat()
        text = read_text("read", path, str(target)).text
    except OSError as error:
        raise cannot("read", path, error) from error
    try:
        value = _found(_parsed(text), keys)
        written = _written(value, text)
    except ValueError as error:
        raise ToolFailedError(f"cannot read {path}: {error}") from error
    note_read(ctx, Path(path), status)
    rest = len(written) - _MAX_SHOWN_CHARS
    cut = f"\n… {rest:,} characters left out; point at a part of it …" if rest > 0 else ""
    return written[:_MAX_SHOWN_CHARS] + cut


def json_write(ctx: ToolContext, path: PathText, pointer: Pointer, value: Value) -> str:
    """Put a value into a JSON file, by JSON Pointer. A last key that is missing is made; `-` appends to a list."""
    keys = _keys(pointer)
    utf8("value", value)
    try:
        new = _parsed(value)
        _written(new, value)
    except ValueError as error:
        raise InvalidInputError("value", f"it is no JSON: {error}; a string needs quotes around it") from error

    def change(text: Text) -> str:
        is_new = not text.text.strip() and not keys
        like = _NEW if is_new else text.text
        try:
            document = _with(_parsed(like), keys, new)
            return _written(document, like) + "\n" * like.endswith("\n")
        except ValueError as error:
            raise ToolFailedError(f"cannot change {path}: {error}") from error

    return rewrite(ctx, "change", path, change, make=not keys).told(f"Changed {pointer or 'all'} in {path}.")


def _keys(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise InvalidInputError(
            "pointer", 'it is empty, for the whole document, or begins with "/", as /servers/0/name'
        )
    if _WRONG_ESCAPE.search(pointer):
        raise InvalidInputError("pointer", "~ is written ~0 in it, and / within a key ~1")
    return [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]


def _parsed(text: str) -> Any:
    """The document, its numbers as `msgspec.Raw`. Raises ValueError for what is no JSON, or has a key twice."""
    try:
        return json.loads(
            text, object_pairs_hook=_once, parse_int=_number, parse_float=_number, parse_constant=_refused
        )
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def _number(digits: str) -> msgspec.Raw:
    return msgspec.Raw(digits.encode())


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} stands twice in one object")
    return members


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _written(value: Any, like: str) -> str:
    """The value with the indentation of the document `like`. Raises ValueError for half of a surrogate pair."""
    found = _INDENTED.search(like)
    if found is None:
        indent = _ONE_LINE if ": " in like or ", " in like or not re.search("[:,]", like) else _DENSE
    else:
        indent = len(found[1])
    try:
        written = msgspec.json.format(msgspec.json.encode(value), indent=indent).decode()
    except (UnicodeEncodeError, RecursionError) as error:
        raise ValueError("it is nested too deep, or holds what is no character") from error
    if found and "\t" in found[1]:
        # A line begins in no string: there a newline is `\n`.
        return re.sub(r"(?m)^ +", lambda spaces: "\t" * len(spaces[0]), written)
    return written


def _found(document: Any, keys: list[str]) -> Any:
    for depth, key in enumerate(keys):
        document = document[_place(document, key, keys[:depth])]
    return document


def _with(document: Any, keys: list[str], value: Any) -> Any:
    """The document with the value in its place, changed or made."""
    if not keys:
        return value
    *above, last = keys
    holder = _found(document, above)
    if isinstance(holder, list) and last == "-":
        holder.append(value)
    elif isinstance(holder, dict):
        holder[last] = value
    else:
        holder[_place(holder, last, above)] = value
    return document


def _place(holder: Any, key: str, above: list[str]) -> str | int:
    """The key or index in a dict or list. Raises ValueError with what there is instead."""
    where = "".join("/" + each.replace("~", "~0").replace("/", "~1") for each in above) or "the document"
    if isinstance(holder, list):
        if key in map(str, range(len(holder))):
            return int(key)
        indexes = f": indexes go from 0 to {len(holder) - 1}" if holder else ""
        raise ValueError(f"{where} is a list of {len(holder):,} items and has no {key}{indexes}")
    if isinstance(holder, dict):
        if key in holder:
            return key
        near = ", ".join(difflib.get_close_matches(key, holder) or list(holder)[:_MAX_TOLD_KEYS])
        raise ValueError(f"{where} has no key {key}" + (f"; near ones: {near}" if near else ", nor any other"))
    raise ValueError(f"{where} is neither an object nor a list, and has no {key}")
