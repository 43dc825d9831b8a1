"""The tool `scratchpad`: texts by keys, of one session in its state, or of all sessions of a profile in a file."""

import difflib
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from tooldispatchd.forked.python.context import InvalidInputError, ToolContext, ToolFailedError
from tooldispatchd.toolbox import atomic

MAX_KEYS: Final = 200
MAX_KEY_CHARS: Final = 128
# Of the 64 KiB that a state may have, as it is written there.
MAX_BYTES: Final = 48 * 1024
MAX_SHARED_BYTES: Final = 1024 * 1024

Action = Literal["get", "set", "append", "delete", "list", "clear"]
Key = Annotated[str, Meta(max_length=MAX_KEY_CHARS)]
Notes = dict[str, str]


def scratchpad(
    action: Annotated[Action, Meta(description="get, set, append and delete need a key; set and append a value.")],
    ctx: ToolContext,
    key: Annotated[Key | None, Meta(description="The name of a note.")] = None,
    value: Annotated[str | None, Meta(description="The text of a note, or what is appended to it.")] = None,
) -> str:
    """Keep notes by keys: get, set, append, delete, list, clear. They outlive what you remember."""
    shared = ctx.options.get("shared")
    if shared is None:
        return act(ctx.state, action, key, value, max_bytes=MAX_BYTES)
    with shared_notes(Path(shared), ctx.profile) as notes:
        return act(notes, action, key, value, max_bytes=MAX_SHARED_BYTES)


def act(notes: Notes, action: Action, key: str | None, value: str | None, *, max_bytes: int) -> str:
    """Do what is asked to the notes, and say so; they are unchanged where an error is raised."""
    if action == "list":
        return "\n".join(f"{name}: {len(text):,} characters" for name, text in notes.items()) or "There are no notes."
    if action == "clear":
        count = len(notes)
        notes.clear()
        return f"Deleted {_notes(count)}."
    if not key or not key.isprintable():
        raise InvalidInputError("key", f"{action} needs one" if not key else "it holds characters that cannot be seen")
    if action in {"get", "delete"}:
        if key not in notes:
            return _missing(notes, key)
        return notes[key] if action == "get" else f"Deleted {key}: {len(notes.pop(key)):,} characters."
    if value is None:
        raise InvalidInputError("value", f"{action} needs one")
    return _write(notes, key, value if action == "set" else notes.get(key, "") + value, max_bytes)


def _write(notes: Notes, key: str, text: str, max_bytes: int) -> str:
    is_new = key not in notes
    if is_new and len(notes) >= MAX_KEYS:
        raise ToolFailedError(f"there are {MAX_KEYS} notes, and no more can be kept: delete one first")
    size = len(msgspec.json.encode(notes | {key: text}))
    if size > max_bytes:
        raise ToolFailedError(
            f"all notes together would take {size:,} bytes, and {max_bytes:,} can be kept: delete or shorten one first"
        )
    notes[key] = text
    return f"{'Wrote' if is_new else 'Changed'} {key}: {len(text):,} characters."


def _missing(notes: Notes, key: str) -> str:
    near = difflib.get_close_matches(key, notes)
    if near:
        return f"There is no note {key}; near it: {', '.join(near)}."
    return f"There is no note {key}, of {_notes(len(notes))}."


def _notes(count: int) -> str:
    return f"{count} note{'' if count == 1 else 's'}"


@contextmanager
def shared_notes(directory: Path, profile: str) -> Iterator[Notes]:
    """The notes of a profile, for as long as no other call has them; what they are then is kept."""
    name = urllib.parse.quote(profile, safe="")
    try:
        with atomic.locked(directory) as held:
            path = directory / f"{name}.json"
            notes = _load(path)
            before = dict(notes)
            yield notes
            if notes != before:
                with atomic.new_file(held, path.name) as descriptor:
                    atomic.write_all(descriptor, msgspec.json.encode(notes))
    except OSError as error:
        raise ToolFailedError(f"the shared notes cannot be used: {error.strerror}") from error


def _load(path: Path) -> Notes:
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return {}
    try:
        return msgspec.json.decode(raw, type=Notes)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ToolFailedError(f"the shared notes in {path.name} cannot be read: {error}") from error
