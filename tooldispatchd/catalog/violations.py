"""What is wrong with a value, in words: all of it where that is cheap, else the one place that is to blame.

The validator explains a union by explaining each of its alternatives in full, which is exponential where unions stand
in one another. Where that could be, the value is walked down instead: at each place a shallow copy of the schema is
asked, then the children. A union is entered where all but one of its alternatives are null; the place of any other one
is what is told, as is the place where the walk has asked all that it may.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Final, NamedTuple

import jsonschema_rs
import msgspec

from tooldispatchd.catalog.patterns import cost_of
from tooldispatchd.catalog.pointers import at, escape, escape_fragment
from tooldispatchd.catalog.problems import cut

MAX_VIOLATIONS: Final = 10
MAX_MESSAGE: Final = 300
MAX_QUOTED: Final = 80
MAX_POINTER: Final = 300
# The validator makes all errors at once, those of every alternative too, 10 µs each: where more subschemas than this
# apply to a value, its first error is told only. 128 take some 1.5 ms.
MAX_EXPLAINED: Final = 128
# A value with more parts than this is not quoted.
MAX_QUOTED_PARTS: Final = 250
# So many characters of a text count as a part.
TEXT_OF_A_PART: Final = 4_000
# Each is a part of the schema compiled or a part of the value checked, 1 to 3 µs: all together some 1.5 ms.
MAX_WORK: Final = 500
PATTERN_BYTES: Final = 1024 * 1024

# Stands for the value in the validator's messages; a private-use character, so that no schema's text is taken for it.
_MASK: Final = "\ue000"
_RESOURCE: Final = "urn:tooldispatchd:schema"
_LINEAR: Final = jsonschema_rs.RegexOptions(size_limit=PATTERN_BYTES, dfa_size_limit=PATTERN_BYTES)
_UNIONS: Final = ("anyOf", "oneOf")
# What asks about the place alone, for itself or through the names and the number of its children.
_ALONE: Final = frozenset(
    (
        *("type", "enum", "const", "required", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *("multipleOf", "minLength", "maxLength", "pattern", "minItems", "maxItems", "minProperties", "maxProperties"),
        *("dependentRequired", "uniqueItems"),
    )
)


class _Annotation:
    """A keyword that every value passes."""

    def __init__(self, *_: object) -> None:
        pass

    def validate(self, _value: object) -> None:
        pass


_ANNOTATIONS: Final[dict[str, type]] = {"contentEncoding": _Annotation, "contentMediaType": _Annotation}

IsValid = Callable[[object], bool]
Schema = dict[str, object]


class Violation(msgspec.Struct, frozen=True):
    """One way in which a value breaks a schema: `path` is a JSON pointer into the value, "" for the whole."""

    path: str
    message: str


class Compiled(msgspec.Struct, frozen=True):
    """A schema with its validator, and how a value that breaks it is explained.

    One of up to `most` parts is explained in full. A larger one is walked where the schema `branches`, by a union or by
    a recursion that asks several times of one place, and then `parts` of it are compiled to ask about a place.
    Otherwise the validator's first error is told.
    """

    schema: Schema | bool
    validator: jsonschema_rs.Validator
    most: int
    branches: bool
    parts: int


def validator_of(
    schema: Schema | bool,  # noqa: FBT001 - a boolean is a JSON Schema
    registry: jsonschema_rs.Registry | None = None,
) -> jsonschema_rs.Validator:
    """A validator that fetches nothing, matches in linear time, and takes for annotations what 2020-12 does."""
    return jsonschema_rs.validator_for(
        schema,
        offline=True,
        pattern_options=_LINEAR,
        mask=_MASK,
        validate_formats=False,
        registry=registry,
        # Up to draft 7 they are enforced.
        keywords=_ANNOTATIONS if isinstance(schema, dict) and "$schema" in schema else None,
    )


def violations_of(compiled: Compiled, value: object) -> list[Violation]:
    """What is wrong with `value`: at most 10, only the first where it is large, none where it is valid.

    To the validator nothing is valid that is nested deeper than it looks, which is some 250 levels.
    """
    try:
        return _violations(compiled, value)
    except (ValueError, RecursionError):
        # Its own limit, and the interpreter's.
        return [Violation("", "the value is nested too deep")]


def _violations(compiled: Compiled, value: object) -> list[Violation]:
    if _size(value, compiled.most) <= compiled.most:
        return _told(compiled.validator, (), value)
    if compiled.branches:
        assert isinstance(compiled.schema, dict), "a boolean has no parts"
        return [] if compiled.validator.is_valid(value) else _Walk(compiled.schema, compiled.parts).blame(value)
    try:
        compiled.validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        return [_violation(error, ())]
    return []


def pointer_of(path: Iterable[str | int]) -> str:
    return cut("".join(f"/{escape(str(step))}" for step in path), MAX_POINTER)


class _Place(NamedTuple):
    """A value, where it lies, and the schema that it must match, with the pointer to that."""

    path: tuple[str | int, ...]
    value: object
    schema: object
    pointer: str


class _SpentError(Exception):
    """The walk has asked all that it may."""


class _Walk:
    """One walk down a value that breaks `schema`, of which `parts` have to be compiled to ask about a part of it."""

    def __init__(self, schema: Schema, parts: int) -> None:
        self._root = schema
        self._draft: Schema = {"$schema": schema["$schema"]} if "$schema" in schema else {}
        self._parts = parts
        self._left = MAX_WORK
        self._registry: jsonschema_rs.Registry | None = None
        self._checks: dict[str, IsValid] = {}

    def blame(self, value: object) -> list[Violation]:
        """What is wrong at the deepest place that can be blamed with what may be asked."""
        place = _Place((), value, self._root, "")
        try:
            while True:
                place = self._follow(place)
                if not isinstance(place.schema, dict):
                    break
                told = self._told_alone(place, place.schema)
                if told:
                    return told
                inner = chain(_children(place), self._here(place))
                further = next((each for each in inner if not self._is_valid(each)), None)
                if further is None:
                    break
                place = further
        except _SpentError:
            pass
        # Nothing more can be said than which union has no alternative for the value, if it is one.
        keyword = next((each for each in _UNIONS if isinstance(place.schema, dict) and each in place.schema), "")
        words = f"under any of the schemas listed in the '{keyword}' keyword" if keyword else "here"
        return [Violation(pointer_of(place.path), cut(f"{_quote(place.value)} is not valid {words}", MAX_MESSAGE))]

    def _spend(self, work: int) -> None:
        self._left -= work
        if self._left < 0:
            raise _SpentError

    def _follow(self, place: _Place) -> _Place:
        """The place under the schema that its reference means, where there is nothing but a reference."""
        while isinstance(place.schema, dict) and place.schema.keys() - {"$defs", "definitions"} == {"$ref"}:
            self._spend(1)
            pointer = _local(place.schema["$ref"])
            if pointer is None:
                break
            place = place._replace(schema=at(self._root, pointer), pointer=pointer)
        return place

    def _told_alone(self, place: _Place, schema: Schema) -> list[Violation]:
        """What is wrong with the place itself: its children may be anything, but for their names."""
        alone = {key: value for key, value in schema.items() if key in _ALONE}
        if schema.get("additionalProperties") is False and not isinstance(schema.get("patternProperties"), dict):
            named = schema.get("properties")
            names = named if isinstance(named, dict) else {}
            alone |= {"additionalProperties": False, "properties": {name: {} for name in names}}
        if schema.get("items") is False:
            first = schema.get("prefixItems")
            alone |= {"items": False, "prefixItems": [True] * len(first) if isinstance(first, list) else [True]}
        if not alone:
            return []
        value, pattern = place.value, alone.get("pattern")
        # One of 1,000 characters may take 700 ms to be compiled, one of seven 6.
        self._spend(2 + _size(alone, self._left) // 4 + (cost_of(pattern) if isinstance(pattern, str) else 0))
        self._spend(len(value) // 16 if isinstance(value, dict | list) else 0)
        return _told(validator_of({**self._draft, **alone}), place.path, value)

    def _is_valid(self, place: _Place) -> bool:
        place = self._follow(place)
        is_valid = self._checks.get(place.pointer)
        if is_valid is None:
            self._spend(self._parts)
            if self._registry is None:
                self._registry = jsonschema_rs.Registry([(_RESOURCE, self._root)])
            # The subschema may refer to any other.
            schema = {**self._draft, "$ref": f"{_RESOURCE}#{escape_fragment(place.pointer)}"}
            is_valid = self._checks[place.pointer] = validator_of(schema, self._registry).is_valid
        self._spend(_size(place.value, self._left))
        return is_valid(place.value)

    def _here(self, place: _Place) -> Iterator[_Place]:
        """What else must hold at a place: a reference, each of `allOf`, the only alternative to null."""
        assert isinstance(place.schema, dict)
        pointer = _local(place.schema.get("$ref"))
        if pointer is not None:
            yield place._replace(schema=at(self._root, pointer), pointer=pointer)
        yield from _listed(place, "allOf")
        for keyword in _UNIONS if isinstance(place.value, dict | list) else ():
            others = [each for each in _listed(place, keyword) if each.schema != {"type": "null"}]
            if len(others) == 1:
                yield others[0]


def _children(place: _Place) -> Iterator[_Place]:
    """The children of a place, each under the one schema that is surely its own."""
    path, value, schema, pointer = place
    assert isinstance(schema, dict)
    if isinstance(value, dict):
        named = schema.get("properties")
        named = named if isinstance(named, dict) else {}
        for name, child in value.items():
            if name in named:
                yield _Place((*path, name), child, named[name], f"{pointer}/properties/{escape(name)}")
            elif "additionalProperties" in schema and "patternProperties" not in schema:
                part = schema["additionalProperties"]
                yield _Place((*path, name), child, part, f"{pointer}/additionalProperties")
    elif isinstance(value, list):
        first = schema.get("prefixItems")
        first = first if isinstance(first, list) else []
        for index, child in enumerate(value):
            if index < len(first):
                yield _Place((*path, index), child, first[index], f"{pointer}/prefixItems/{index}")
            elif isinstance(schema.get("items"), dict):
                yield _Place((*path, index), child, schema["items"], f"{pointer}/items")


def _listed(place: _Place, keyword: str) -> Iterator[_Place]:
    parts = place.schema.get(keyword) if isinstance(place.schema, dict) else None
    for index, part in enumerate(parts if isinstance(parts, list) else ()):
        yield place._replace(schema=part, pointer=f"{place.pointer}/{keyword}/{index}")


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
            parts += len(node) // TEXT_OF_A_PART
        elif isinstance(node, dict | list):
            if len(node) > enough:
                return enough + 1
            waiting.extend(node.values() if isinstance(node, dict) else node)
    return parts


# --- in words ---


def _told(validator: jsonschema_rs.Validator, path: tuple[str | int, ...], value: object) -> list[Violation]:
    return [_violation(error, path) for error in islice(validator.iter_errors(value), MAX_VIOLATIONS)]


def _violation(error: jsonschema_rs.ValidationError, path: tuple[str | int, ...]) -> Violation:
    return Violation(pointer_of([*path, *error.instance_path]), message_of(error))


def message_of(error: jsonschema_rs.ValidationError) -> str:
    """An error in words, with no more than 80 characters of the value."""
    kind = error.kind
    kinds = jsonschema_rs.ValidationErrorKind
    if isinstance(kind, kinds.AdditionalProperties | kinds.UnevaluatedProperties):
        names = ", ".join(f'"{name}"' for name in kind.unexpected[:MAX_VIOLATIONS])
        return f"unexpected: {cut(names, MAX_QUOTED)}"
    if isinstance(kind, kinds.PropertyNames):
        # The inner error's value is the property's name.
        return cut(f"property name {_unmasked(kind.error)}", MAX_MESSAGE)
    return cut(_unmasked(error), MAX_MESSAGE)


def _unmasked(error: jsonschema_rs.ValidationError) -> str:
    return error.message.replace(_MASK, _quote(error.instance), 1)


def _quote(value: object) -> str:
    """A value as compact JSON, cut; what is large is named by its kind, so that little is encoded to quote little."""
    if isinstance(value, str):
        value = value[: MAX_QUOTED + 1]
    elif isinstance(value, dict | list) and _size(value, MAX_QUOTED_PARTS) > MAX_QUOTED_PARTS:
        return "this object" if isinstance(value, dict) else "this array"
    try:
        return cut(msgspec.json.encode(value).decode(), MAX_QUOTED)
    except (ValueError, OverflowError):
        # An integer over 64 bits: valid JSON that this encoder does not write.
        return "this value"
