"""The `[types]` table: names to types, and all that is wrong with it."""

from collections.abc import Iterable, Mapping
from typing import Final

from tooldispatchd.catalog.meanings import leads_to_itself
from tooldispatchd.catalog.names import declared_name_problem, nearest
from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.types import (
    JSON,
    WORDS,
    Named,
    Type,
    TypeTextError,
    column_of,
    parse_type,
    parts,
)

TYPE_WORDS: Final = "int, number, string, bool, unit, json, or a declared name"
"""What may stand where a type is named."""
# What these types are called elsewhere; no likeness of letters would tell.
_CALLED_HERE: Final = {
    "any": "json",
    "object": "json",
    "unknown": "json",
    "boolean": "bool",
    "double": "number",
    "float": "number",
    "integer": "int",
    "long": "int",
    "none": "unit",
    "null": "unit",
    "void": "unit",
    "str": "string",
    "text": "string",
}


def nearest_type(name: str, declared: Iterable[str]) -> str | None:
    """The type that was probably meant by a name that is none, of the built-in ones and those `declared`; or None."""
    return _CALLED_HERE.get(name.lower()) or nearest(name, [*WORDS, *declared])


def build_types(texts: Mapping[str, str]) -> tuple[dict[str, Type], list[Problem]]:
    """Each declared type by name, and every problem; a type that has one means json, so that it is told only once."""
    declared: dict[str, Type] = {}
    problems: list[Problem] = []
    for name, text in texts.items():
        refused = "a built-in type has this name" if name in WORDS else declared_name_problem(name)
        if refused:
            problems.append(Problem(("types", name), refused))
        try:
            declared[name] = parse_type(text)
        except TypeTextError as error:
            declared[name] = JSON
            problems.append(Problem(("types", name), str(error), value=text))
    broken = [name for name in declared if _check(name, texts[name], declared, problems)]
    # Afterwards: each check must see the types as they are written.
    declared.update(dict.fromkeys(broken, JSON))
    return declared, problems


def _check(name: str, text: str, declared: Mapping[str, Type], problems: list[Problem]) -> bool:
    """Add what is wrong with a type's names; whether anything is."""
    path = ("types", name)
    unknown = [used for used in _names_in(declared[name]) if used not in declared]
    for used in unknown:
        why = f"column {column_of(text, used)}: no such type: {used}"
        close = nearest_type(used, declared)
        allowed = None if close else TYPE_WORDS
        problems.append(Problem(path, why, value=text, allowed=allowed, nearest=close))
    if leads_to_itself(name, declared):
        why = "a type cannot be itself: a list, a record or a product must stand between"
        problems.append(Problem(path, why, value=text))
        return True
    return bool(unknown)


def _names_in(type_: Type) -> list[str]:
    """The declared names in one text, each once, in order."""
    names: dict[str, None] = {}
    waiting = [type_]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Named):
            names[node.name] = None
        waiting.extend(reversed(parts(node)))
    return list(names)
