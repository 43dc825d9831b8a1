"""Where a value breaks a schema of unions, found with a bounded number of questions.

The validator explains a union by explaining each of its alternatives in full, which is exponential where unions stand
in one another. Here the value is walked down instead: at each place a shallow copy of the schema is asked, then the
children, then the alternatives that the place admits, and the walk ends where it cannot tell whom to blame.
"""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from tooldispatchd.catalog.pointers import at, escape

# Each is a part of the schema compiled or a part of the value checked, 1 to 3 µs: all together some 1.5 ms.
MAX_WORK: Final = 500

_UNIONS: Final = ("anyOf", "oneOf")
# What asks about the place alone, for itself or through the names and the number of its children.
_ALONE: Final = frozenset(
    (
        *("type", "enum", "const", "required", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *("multipleOf", "minLength", "maxLength", "pattern", "minItems", "maxItems", "minProperties", "maxProperties"),
        *("dependentRequired", "uniqueItems"),
    )
)

IsValid = Callable[[object], bool]
Path = tuple[str | int, ...]


class Blame(msgspec.Struct, frozen=True):
    """The place to blame: the `value` at `path`.

    `alone` is a schema without alternatives that it breaks; where there is none, `keyword` is the union whose
    alternatives all fail, or empty where nothing more can be said.
    """

    path: Path
    value: object
    alone: dict[str, object] | None = None
    keyword: str = ""


class SpentError(Exception):
    """The walk has asked all that it may."""


class _Place(msgspec.Struct, frozen=True):
    path: Path
    value: object
    schema: object
    pointer: str


class Walk:
    """One walk down a value that breaks `schema`.

    `compile_part(pointer)` compiles the subschema that a JSON pointer leads to, `compile_alone(schema)` one without
    references; both give `is_valid`. `parts` is how many subschemas and characters of patterns there are to compile.
    """

    def __init__(
        self,
        schema: dict[str, object],
        *,
        parts: int,
        compile_part: Callable[[str], IsValid],
        compile_alone: Callable[[dict[str, object]], IsValid],
    ) -> None:
        self._root = schema
        self._parts = parts
        self._compile_part = compile_part
        self._compile_alone = compile_alone
        self._left = MAX_WORK
        self._checks: dict[str, IsValid] = {}
        self._answers: dict[tuple[str, int], bool] = {}

    def blame(self, value: object) -> Blame:
        """The deepest place that can be blamed with what may be asked."""
        place = _Place((), value, self._root, "")
        try:
            while True:
                place = self._follow(place)
                if not isinstance(place.schema, dict):
                    return Blame(place.path, place.value)
                alone = _alone(place.schema)
                if not self._passes(alone, place.value):
                    return Blame(place.path, place.value, alone)
                further = self._child(place) or self._must(place) or self._option(place)
                if further is None:
                    return _whole(place)
                place = further
        except SpentError:
            return _whole(place)

    def _spend(self, work: int) -> None:
        self._left -= work
        if self._left < 0:
            raise SpentError

    def _follow(self, place: _Place) -> _Place:
        """The place under the schema that its reference means, where there is nothing but a reference."""
        while isinstance(place.schema, dict) and place.schema.keys() - {"$defs", "definitions"} == {"$ref"}:
            self._spend(1)
            pointer = _local(place.schema["$ref"])
            if pointer is None:
                break
            place = _Place(place.path, place.value, at(self._root, pointer), pointer)
        return place

    def _passes(self, alone: dict[str, object], value: object) -> bool:
        if not alone:
            return True
        pattern = alone.get("pattern")
        # A pattern is compiled in time quadratic in its length: one of 1,000 characters may take 80 ms.
        self._spend(2 + _size(alone, self._left) // 4 + (len(pattern) // 2 if isinstance(pattern, str) else 0))
        self._spend(len(value) // 16 if isinstance(value, dict | list) else 0)
        return self._compile_alone(self._drafted(alone))(value)

    def _drafted(self, schema: dict[str, object]) -> dict[str, object]:
        return {"$schema": self._root["$schema"], **schema} if "$schema" in self._root else schema

    def _is_valid(self, place: _Place) -> bool:
        place = self._follow(place)
        key = (place.pointer, id(place.value))
        answer = self._answers.get(key)
        if answer is None:
            check = self._checks.get(place.pointer)
            if check is None:
                self._spend(self._parts)
                check = self._checks[place.pointer] = self._compile_part(place.pointer)
            self._spend(_size(place.value, self._left))
            answer = self._answers[key] = check(place.value)
        return answer

    def _child(self, place: _Place) -> _Place | None:
        return next((child for child in _children(place) if not self._is_valid(child)), None)

    def _must(self, place: _Place) -> _Place | None:
        """The first of the schemas that must all hold here, and does not."""
        return next((part for part in self._musts(place) if not self._is_valid(part)), None)

    def _musts(self, place: _Place) -> Iterator[_Place]:
        assert isinstance(place.schema, dict)
        pointer = _local(place.schema.get("$ref"))
        if pointer is not None:
            yield _Place(place.path, place.value, at(self._root, pointer), pointer)
        yield from _listed(place, "allOf")

    def _option(self, place: _Place) -> _Place | None:
        """The alternative that was meant: the only one admitted here, or one of several that blame the same child."""
        admitted = [option for option in self._options(place) if self._admits(option)]
        if len(admitted) < 2:
            return admitted[0] if admitted else None
        blamed = {child.path if (child := self._child(option)) else None for option in admitted}
        return admitted[0] if len(blamed) == 1 and None not in blamed else None

    def _options(self, place: _Place) -> list[_Place]:
        """The alternatives of a union, with those of unions right within it."""
        options: list[_Place] = []
        waiting = [place]
        while waiting:
            each = self._follow(waiting.pop())
            within = [part for keyword in _UNIONS for part in _listed(each, keyword)]
            self._spend(1 + len(within))
            if within:
                waiting.extend(reversed(within))
            else:
                options.append(each)
        return options

    def _admits(self, option: _Place) -> bool:
        if not isinstance(option.schema, dict):
            return False
        return self._passes(_alone(option.schema), option.value)


def _whole(place: _Place) -> Blame:
    schema = place.schema
    keyword = next((each for each in _UNIONS if isinstance(schema, dict) and each in schema), "")
    return Blame(place.path, place.value, None, keyword)


def _children(place: _Place) -> Iterator[_Place]:
    schema, value = place.schema, place.value
    assert isinstance(schema, dict)
    if isinstance(value, dict):
        named = schema.get("properties")
        named = named if isinstance(named, dict) else {}
        for name, child in value.items():
            if name in named:
                yield _Place((*place.path, name), child, named[name], f"{place.pointer}/properties/{escape(name)}")
            elif "additionalProperties" in schema and "patternProperties" not in schema:
                part = schema["additionalProperties"]
                yield _Place((*place.path, name), child, part, f"{place.pointer}/additionalProperties")
    elif isinstance(value, list):
        first = schema.get("prefixItems")
        first = first if isinstance(first, list) else []
        for index, child in enumerate(value):
            if index < len(first):
                yield _Place((*place.path, index), child, first[index], f"{place.pointer}/prefixItems/{index}")
            elif isinstance(schema.get("items"), dict):
                yield _Place((*place.path, index), child, schema["items"], f"{place.pointer}/items")


def _listed(place: _Place, keyword: str) -> Iterator[_Place]:
    parts = place.schema.get(keyword) if isinstance(place.schema, dict) else None
    for index, part in enumerate(parts if isinstance(parts, list) else ()):
        yield _Place(place.path, place.value, part, f"{place.pointer}/{keyword}/{index}")


def _alone(schema: dict[str, object]) -> dict[str, object]:
    """What a schema says of the place itself; of its children their names, and the constants that tell kinds apart."""
    alone = {key: value for key, value in schema.items() if key in _ALONE}
    if schema.get("additionalProperties") is False and not isinstance(schema.get("patternProperties"), dict):
        alone["additionalProperties"] = False
    if schema.get("items") is False:
        first = schema.get("prefixItems")
        alone |= {"items": False, "prefixItems": [True] * len(first) if isinstance(first, list) else [True]}
    named = schema.get("properties")
    if isinstance(named, dict):
        kinds: dict[str, object] = {name: _kind(part) for name, part in named.items()}
        alone["properties"] = kinds
    return alone


def _kind(schema: object) -> object:
    if isinstance(schema, dict) and not schema.keys().isdisjoint(("const", "enum")):
        return {key: schema[key] for key in ("const", "enum") if key in schema}
    return {}


def _local(reference: object) -> str | None:
    """The pointer of a reference within the same text; None for any other."""
    if not isinstance(reference, str) or "%" in reference or not (reference == "#" or reference.startswith("#/")):
        return None
    return reference[1:]


def _size(value: object, enough: int) -> int:
    """How many parts a value has, counted until there are more than `enough`; a long text is many."""
    parts = 0
    waiting = [value]
    while waiting and parts <= enough:
        node = waiting.pop()
        parts += 1
        if isinstance(node, str):
            parts += len(node) // 1_000
        elif isinstance(node, dict | list):
            if len(node) > enough:
                return enough + 1
            waiting.extend(node.values() if isinstance(node, dict) else node)
    return parts
