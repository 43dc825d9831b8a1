"""Texts with placeholders, `${parameters.NAME}`, and what a tool's schema says of the parameters that they name.

`$$` is a dollar, and a dollar before anything else is itself. NAME is all up to the brace: names of parameters have
brackets and dots (`filter[name]`, `$top`), and nothing is looked up within a value.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from tooldispatchd.catalog.names import nearest
from tooldispatchd.catalog.templates import take_apart

BEGIN: Final = "${parameters."
_SIGNS: Final = re.compile(r"\$(?:(?P<dollar>\$)|\{parameters\.(?P<name>[^{}]+)\})")
# Schemas within schemas in which parameters are looked for; a bounded one may still refer to itself.
_MAX_DEPTH: Final = 8
# Of an excerpt in a report: a line of a terminal.
_MAX_SHOWN: Final = 80
_REST: Final = "…"


class ParameterSlot(msgspec.Struct, frozen=True):
    """A place in a text where a parameter goes."""

    name: str


Parts = tuple[str | ParameterSlot, ...]
"""A text, as the literal texts and the slots that it is made of, in order."""


def parse_parts(text: str) -> Parts:
    """The parts of a text; none of an empty one."""
    return take_apart(text, _SIGNS, lambda sign: ParameterSlot(sign["name"]))


def slots_of(parts: Parts) -> Iterator[ParameterSlot]:
    """The slots in it, in order."""
    return (part for part in parts if isinstance(part, ParameterSlot))


def lone_slot(parts: Parts) -> ParameterSlot | None:
    """The slot that is the whole text; None where there is more, or less."""
    return parts[0] if len(parts) == 1 and isinstance(parts[0], ParameterSlot) else None


def excerpt_of(text: str, name: str) -> str:
    """The first placeholder of that name in a text, with a caret beneath; all else may be a secret and is left out."""
    begin = text.find(f"{BEGIN}{name}}}")
    shown = f"{BEGIN}{name}}}"[:_MAX_SHOWN]
    before = _REST if begin > 0 else ""
    after = _REST if begin + len(BEGIN) + len(name) + 1 < len(text) else ""
    return f"{before}{shown}{after}\n{' ' * (len(before) + len(BEGIN))}^"


class Parameters(msgspec.Struct, frozen=True):
    """What a schema says of a tool's parameters: their names, which are always there, and which are bytes."""

    names: tuple[str, ...]
    required: frozenset[str]
    files: frozenset[str]

    def nearest(self, name: str) -> str | None:
        """The parameter that was probably meant by a name that is none."""
        return nearest(name, self.names)


def parameters_of(schema: Mapping[str, object]) -> Parameters:
    """The parameters of an object's schema, alternatives and references within it among them."""
    properties, required = _collect(schema, schema, 0)
    files = frozenset(name for name, part in properties.items() if _is_file(part))
    return Parameters(tuple(properties), frozenset(required), files)


def _collect(schema: object, root: Mapping[str, object], depth: int) -> tuple[dict[str, object], set[str]]:
    """The properties of a schema, and the names of those that are always there."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return {}, set()
    properties = dict(schema["properties"]) if isinstance(schema.get("properties"), dict) else {}
    required = {name for name in schema.get("required", ()) if isinstance(name, str)}
    parts = list(schema["allOf"]) if isinstance(schema.get("allOf"), list) else []
    if isinstance(schema.get("$ref"), str):
        parts.append(_referred(schema["$ref"], root))
    for part in parts:
        more, needed = _collect(part, root, depth + 1)
        properties, required = {**more, **properties}, required | needed
    for keyword in ("anyOf", "oneOf"):
        options = schema.get(keyword)
        if isinstance(options, list) and options:
            found = [_collect(option, root, depth + 1) for option in options]
            for more, _ in found:
                properties = {**more, **properties}
            required |= set.intersection(*(needed for _, needed in found))
    return properties, required


def _referred(reference: str, root: Mapping[str, object]) -> object:
    """What a reference to a definition leads to; None for any other."""
    place, _, name = reference.rpartition("/")
    table = root.get(place.removeprefix("#/")) if place in {"#/$defs", "#/definitions"} else None
    return table.get(name) if isinstance(table, dict) else None


def _is_file(schema: object) -> bool:
    """Whether the values of a schema are bytes in base64, or lists of such."""
    if not isinstance(schema, dict):
        return False
    if schema.get("contentEncoding") == "base64" or schema.get("format") in {"binary", "byte"}:
        return True
    return schema.get("type") == "array" and _is_file(schema.get("items"))
