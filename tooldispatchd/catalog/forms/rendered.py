"""What rendering a tool gives, and the notes that are taken meanwhile."""

from typing import Final

import msgspec

from tooldispatchd.catalog.pointers import escape
from tooldispatchd.catalog.problems import cut

# A hostile schema could give thousands: these are read by a person, in `ready`.
MAX_NOTES: Final = 12
MAX_NOTE: Final = 200
MAX_PATH: Final = 120

Schema = dict[str, object]
"""A JSON Schema object, its keywords by name."""

Path = tuple[str, ...]
"""Where in a schema: the keys and indices on the way from its root."""


class Rendered(msgspec.Struct, frozen=True):
    """A tool in one form: the entry of its list of tools, and what the form could not say, in short phrases."""

    entry: dict[str, object]
    notes: tuple[str, ...] = ()


class Notes:
    """Phrases about what is not as it was: each once, few, short."""

    def __init__(self) -> None:
        self._phrases: dict[str, None] = {}
        self._more = 0

    def add(self, what: str, path: Path, done: str) -> None:
        """Note that `what` at a place (or in it) `done`: `("the format uri at", path, "is dropped")`."""
        if len(self._phrases) >= MAX_NOTES:
            self._more += 1
            return
        phrase = f"{what} {pointer(path)} {done}"
        self._phrases[cut(phrase, MAX_NOTE)] = None

    def phrases(self) -> tuple[str, ...]:
        """All of them in order; the last one counts what did not fit."""
        more = (f"and {self._more} more",) if self._more else ()
        return (*self._phrases, *more)


def pointer(path: Path) -> str:
    """A path as a JSON pointer, its end cut where it is long; "the root" where there is none."""
    if not path:
        return "the root"
    shown = ""
    for step in path:
        # Names may be as long as a schema; a character more than fits tells that it was cut.
        shown += f"/{escape(step[: MAX_PATH + 1])}"
        if len(shown) > MAX_PATH:
            break
    return cut(shown, MAX_PATH)


def cut_description(text: str, limit: int, notes: Notes) -> str:
    """A tool's description in at most `limit` characters."""
    if len(text) > limit:
        notes.add(f"the description, {len(text)} characters, in", (), f"is cut to {limit}")
    return cut(text, limit)
