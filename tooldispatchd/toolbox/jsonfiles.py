"""The tools `json_read` and `json_write`: one value of a JSON file, by its path in the document."""

import json
from pathlib import Path
from typing import Annotated, Any, Final

from msgspec import Meta

from tooldispatchd.forked.python.context import InvalidInputError, ToolContext, ToolFailedError
from tooldispatchd.toolbox import pointers
from tooldispatchd.toolbox.encodings import Text, shown
from tooldispatchd.toolbox.guard import note_read
from tooldispatchd.toolbox.places import PathText, cannot
from tooldispatchd.toolbox.rewriting import file_behind, read_text, rewrite, utf8

Pointer = Annotated[str, Meta(description='where in it, as /servers/0/name; "" is the whole document')]
# What a model reads at once; of more it should ask for a part.
_MAX_SHOWN_CHARS: Final = 50_000


def json_read(ctx: ToolContext, path: PathText, pointer: Pointer = "") -> str:
    """Read one value of a JSON file, by JSON Pointer. It is given as it stands in the file."""
    keys = _keys(pointer)
    target = file_behind("read", path)
    try:
        status = target.stat()
        text = read_text("read", path, str(target)).text
    except OSError as error:
        raise cannot("read", path, error) from error
    span = _found("read", path, text, keys)
    note_read(ctx, Path(path), status)
    value = shown(text[span.start : min(span.end, span.start + _MAX_SHOWN_CHARS)])
    rest = span.end - span.start - _MAX_SHOWN_CHARS
    return value if rest <= 0 else f"{value}\n… {rest:,} characters left out; point at a part of it …"


def json_write(
    ctx: ToolContext, path: PathText, pointer: Pointer, value: Annotated[Any, Meta(description="any JSON")]
) -> str:
    """Put a value into a JSON file, by JSON Pointer. A last key that is missing is made; `-` appends to a list."""
    keys = _keys(pointer)
    _check_value(value)

    def change(text: Text) -> str:
        if not text.text.strip() and not keys:
            return json.dumps(value, ensure_ascii=False, indent=2) + "\n"
        _check_document("change", path, text.text)
        try:
            return pointers.put(text.text, keys, value)
        except pointers.PointerError as error:
            raise ToolFailedError(f"cannot change {path}: {error}") from error

    return rewrite(ctx, "change", path, change, make=not keys).told(f"Changed {pointer or 'all'} in {path}.")


def _keys(pointer: str) -> list[str]:
    try:
        return pointers.keys_of(pointer)
    except pointers.PointerError as error:
        raise InvalidInputError("pointer", str(error)) from error


def _check_value(value: object) -> None:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (RecursionError, ValueError) as error:
        raise InvalidInputError("value", "it holds a number that is too large, or is nested too deep") from error
    utf8("value", text)


def _check_document(verb: str, path: str, text: str) -> None:
    try:
        pointers.check(text)
    except ValueError as error:
        raise ToolFailedError(f"cannot {verb} {path}: {error}") from error


def _found(verb: str, path: str, text: str, keys: list[str]) -> pointers.Span:
    _check_document(verb, path, text)
    try:
        return pointers.find(text, keys)
    except pointers.PointerError as error:
        raise ToolFailedError(f"cannot {verb} {path}: {error}") from error
