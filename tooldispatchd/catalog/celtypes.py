"""CEL's types beside ours: how a type is declared to CEL, and whether what an expression makes fits a type.

CEL has no records, so a record is a map of dynamic values there; what an expression makes of those is checked when it
runs, by the tool's output schema.
"""

import re
from typing import Final

import msgspec

from tooldispatchd.catalog.meanings import Declared, resolve
from tooldispatchd.catalog.types import (
    ListOf,
    Named,
    Primitive,
    Product,
    Record,
    Stream,
    Type,
    Union,
)

# Lists within lists that are still told apart: the engine takes 13 levels, and a recursive type has no end of them.
MAX_LISTS: Final = 8

_SIGNATURES: Final = {"int": "int", "number": "double", "string": "string", "bool": "bool", "unit": "null_type"}
_SHOWN: Final = {"INT": "int", "UINT": "int", "DOUBLE": "number", "STRING": "string", "BOOL": "bool", "NULL": "unit"}
_FITTING: Final = {
    "int": {"INT", "UINT"},
    "number": {"INT", "UINT", "DOUBLE"},
    "string": {"STRING"},
    "bool": {"BOOL"},
    "unit": {"NULL"},
}


class Made(msgspec.Struct, frozen=True):
    """What an expression makes, by CEL's own name (`INT`, `LIST`, `DYN`, …) and the types within."""

    name: str
    inner: tuple["Made", ...] = ()

    @property
    def is_json(self) -> bool:
        """Whether JSON can say it, as far as it is known before a run."""
        if self.name == "MAP":
            return self.inner[0].name in {"STRING", "DYN"} and self.inner[1].is_json
        if self.name == "LIST":
            return self.inner[0].is_json
        return self.name in _SHOWN or self.name == "DYN"

    @property
    def is_safe(self) -> bool:
        """Whether its values are surely JSON, so that a result need not be looked through."""
        if self.name == "MAP":
            return False  # Its keys are to be put in order.
        if self.name == "LIST":
            return self.inner[0].is_safe
        # A double may be no number at all, a uint wider than an int.
        return self.name in _SHOWN and self.name not in {"DOUBLE", "UINT"}


def signature(type_: Type, declared: Declared, lists: int = 0) -> str:
    """How a type is declared to CEL, as CEL's own type text."""
    meaning = resolve(type_, declared)
    match meaning:
        case Primitive(word):
            return _SIGNATURES.get(word, "dyn")
        case Record():
            return "map<string, dyn>"
        case ListOf(item) if lists < MAX_LISTS:
            return f"list<{signature(item, declared, lists + 1)}>"
        case ListOf() | Product():
            return "list<dyn>"
        case Union() | Stream() | Named():
            return "dyn"


_ARITY: Final = {"LIST": 1, "MAP": 2}
_WORD: Final = re.compile(r"\s*([A-Za-z_.0-9]+)\s*")


def parse_made(name: str) -> Made:
    """The type behind a name such as `MAP<STRING, LIST<INT>>`; the engine writes it, so it is well formed."""
    made, _ = _read_made(name, 0)
    return made


def _read_made(text: str, place: int) -> tuple[Made, int]:
    match = _WORD.match(text, place)
    if match is None:
        return Made("DYN"), len(text)
    place = match.end()
    inner: list[Made] = []
    if text[place : place + 1] == "<":
        while text[place : place + 1] in {"<", ","}:
            part, place = _read_made(text, place + 1)
            inner.append(part)
        place += 1
    inner += [Made("DYN")] * (_ARITY.get(match.group(1), 0) - len(inner))
    return Made(match.group(1), tuple(inner)), place


def show_made(made: Made) -> str:
    """What an expression makes, in our notation where it has one."""
    if made.name == "LIST":
        return f"[{show_made(made.inner[0])}]"
    if made.name == "MAP":
        return "a record" if made.inner[1].name == "DYN" else f"a record of {show_made(made.inner[1])}"
    if made.name == "DYN":
        return "json"
    return _SHOWN.get(made.name, made.name.lower())


def fits(made: Made, type_: Type, declared: Declared) -> bool:
    """Whether a result may be of a type: False only where it surely is not."""
    if made.name == "DYN":
        return True
    meaning = resolve(type_, declared)
    match meaning:
        case Primitive("json"):
            return made.is_json
        case Primitive(word):
            return made.name in _FITTING[word]
        case ListOf(item):
            return made.name == "LIST" and fits(made.inner[0], item, declared)
        case Product(items):
            return made.name == "LIST" and all(fits(made.inner[0], item, declared) for item in items)
        case Record(fields):
            # One type stands for all values of a map; an optional field may be missing from it.
            return made.name == "MAP" and all(
                fits(made.inner[1], field.type, declared) for field in fields if not field.optional
            )
        case Union(options):
            return any(fits(made, option, declared) for option in options)
        case Stream() | Named():
            return False
