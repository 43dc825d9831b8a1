"""What is wrong with a value, in words: all of it where that is cheap, else the one place that is to blame.

Of a union it is told how the value breaks the alternative that fits it best: first one that takes its type, then one
whose constants it has, then the one that has the least against it.

The validator explains a union by explaining each of its alternatives in full, which is exponential where unions stand
in one another. Where that could be, the value is walked down instead: at each place a shallow copy of the schema is
asked, then the children, until what is left is small enough to be explained in full. Of a union the first alternative
is entered that fits but for what is in it. Where none does the place of the union is told, as is the place where the
walk has asked all that it may.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Final, NamedTuple

import jsonschema_rs
import msgspec

from tooldispatchd.catalog.names import near_names
from tooldispatchd.catalog.patterns import cost_of
from tooldispatchd.catalog.pointers import at, escape, escape_fragment
from tooldispatchd.catalog.problems import cut

MAX_VIOLATIONS: Final = 10
MAX_MESSAGE: Final = 300
MAX_QUOTED: Final = 80
MAX_POINTER: Final = 300
# Values of an `enum` that are listed; of a longer one those that are nearest.
MAX_LISTED: Final = 20
MAX_NEAREST: Final = 5
MAX_LIST: Final = MAX_LISTED * (MAX_QUOTED + 2) + MAX_MESSAGE
# As many are looked through in 2 ms.
MAX_OPTIONS: Final = 600
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
# What has one of these means something else elsewhere.
_REFERRING: Final = frozenset(("$ref", "$dynamicRef", "$recursiveRef", "$id"))
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


_Kinds = jsonschema_rs.ValidationErrorKind
_Error = jsonschema_rs.ValidationError
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
    Otherwise the validator's first error is told. A value without parts has up to `applied` subschemas against it.
    """

    schema: Schema | bool
    validator: jsonschema_rs.Validator
    most: int
    branches: bool
    parts: int
    applied: int


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
        return [] if compiled.validator.is_valid(value) else _Walk(compiled).blame(value)
    try:
        compiled.validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        return explained(error, ())
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
    """One walk down a value that breaks the schema, of which `parts` have to be compiled to ask about a part of it."""

    def __init__(self, compiled: Compiled) -> None:
        schema, parts = compiled.schema, compiled.parts
        assert isinstance(schema, dict), "a boolean has no parts"
        self._root = schema
        self._most = compiled.most or int(compiled.applied <= MAX_EXPLAINED)
        self._draft: Schema = {"$schema": schema["$schema"]} if "$schema" in schema else {}
        self._parts = parts
        self._left = MAX_WORK
        self._registry: jsonschema_rs.Registry | None = None
        self._validators: dict[str, jsonschema_rs.Validator] = {}
        self._sizes: dict[str, int] = {}

    def blame(self, value: object) -> list[Violation]:
        """What is wrong at the deepest place that can be blamed with what may be asked."""
        place = _Place((), value, self._root, "")
        try:
            while True:
                place = self._follow(place)
                if not isinstance(place.schema, dict):
                    break
                told = self._told_all(place) if self._is_small(place) else self._told_alone(place)
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

    def _told_alone(self, place: _Place) -> list[Violation]:
        """What is wrong with the place itself: its children may be anything, but for their names and constants."""
        schema = place.schema
        if not isinstance(schema, dict):
            return []
        alone = {key: value for key, value in schema.items() if key in _ALONE}
        named = schema.get("properties")
        names = named.items() if isinstance(named, dict) else ()
        constants = {
            name: {"const": part["const"]} for name, part in names if isinstance(part, dict) and "const" in part
        }
        if schema.get("additionalProperties") is False and not isinstance(schema.get("patternProperties"), dict):
            alone |= {"additionalProperties": False, "properties": {name: constants.get(name, {}) for name, _ in names}}
        elif constants:
            alone["properties"] = constants
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

    def _is_small(self, place: _Place) -> bool:
        """Tell whether all may be told that is wrong with a place: by the whole schema's bound, or by its own size."""
        size = self._size_of(place)
        # Of one that refers to others the size is no bound.
        most = self._most if size == self._parts else max(self._most, MAX_EXPLAINED // size)
        return _size(place.value, most) <= most

    def _told_all(self, place: _Place) -> list[Violation]:
        return _told(self._validator(place), place.path, place.value)

    def _size_of(self, place: _Place) -> int:
        """Count the subschemas of a place, some too many; as many as there are in all where it refers to others."""
        size = self._sizes.get(place.pointer)
        if size is None:
            most = 4 * self._parts
            size = self._sizes[place.pointer] = min(self._parts, 1 + _size(place.schema, most, _REFERRING) // 4)
        return size

    def _is_valid(self, place: _Place) -> bool:
        place = self._follow(place)
        validator = self._validator(place)
        self._spend(_size(place.value, self._left))
        return validator.is_valid(place.value)

    def _validator(self, place: _Place) -> jsonschema_rs.Validator:
        validator = self._validators.get(place.pointer)
        if validator is None:
            size = self._size_of(place)
            self._spend(size)
            if size < self._parts and isinstance(place.schema, dict):
                validator = validator_of({**self._draft, **place.schema})
            else:
                if self._registry is None:
                    self._registry = jsonschema_rs.Registry([(_RESOURCE, self._root)])
                # The subschema may refer to any other.
                schema = {**self._draft, "$ref": f"{_RESOURCE}#{escape_fragment(place.pointer)}"}
                validator = validator_of(schema, self._registry)
            self._validators[place.pointer] = validator
        return validator

    def _here(self, place: _Place) -> Iterator[_Place]:
        """What else must hold at a place: a reference, each of `allOf`, the first alternative that fits by itself."""
        assert isinstance(place.schema, dict)
        pointer = _local(place.schema.get("$ref"))
        if pointer is not None:
            yield place._replace(schema=at(self._root, pointer), pointer=pointer)
        yield from _listed(place, "allOf")
        for keyword in _UNIONS if isinstance(place.value, dict | list) else ():
            others = [self._follow(each) for each in _listed(place, keyword) if each.schema != {"type": "null"}]
            fitting = others if len(others) == 1 else [each for each in others if not self._told_alone(each)]
            yield from fitting[:1]


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


def _size(value: object, enough: int, endless: frozenset[str] = frozenset()) -> int:
    """How many parts a value has, counted until there are more than `enough`; a long text is many.

    One that has an `endless` key somewhere has more.
    """
    parts = 0
    waiting = [value]
    while waiting and parts <= enough:
        node = waiting.pop()
        parts += 1
        if isinstance(node, str):
            parts += len(node) // TEXT_OF_A_PART
        elif isinstance(node, dict | list):
            if len(node) > enough or (endless and isinstance(node, dict) and not endless.isdisjoint(node)):
                return enough + 1
            waiting.extend(node.values() if isinstance(node, dict) else node)
    return parts


# --- in words ---


def _told(validator: jsonschema_rs.Validator, path: tuple[str | int, ...], value: object) -> list[Violation]:
    found = (told for error in validator.iter_errors(value) for told in explained(error, path))
    return list(islice(found, MAX_VIOLATIONS))


def explained(error: _Error, path: tuple[str | int, ...] = ()) -> list[Violation]:
    """Tell an error in a value at `path`: of a union, how the value breaks the alternative that fits it best."""
    if isinstance(error.kind, _Kinds.AnyOf | _Kinds.OneOfNotValid):
        return _of_union(error, error.kind.context, path)
    return [_violation(error, path, message_of(error))]


def _violation(error: _Error, path: tuple[str | int, ...], message: str) -> Violation:
    return Violation(pointer_of([*path, *error.instance_path]), message)


def _of_union(error: _Error, context: list[list[_Error]], path: tuple[str | int, ...]) -> list[Violation]:
    """Tell how a value breaks a union; `context` has the errors of each alternative."""
    here = len(error.instance_path)
    types = [_wrong_types(errors, here) for errors in context]
    fitting = [errors for errors, wrong in zip(context, types, strict=True) if not wrong]
    if not fitting:
        listed = ", ".join(f'"{kind}"' for kind in dict.fromkeys(chain(*types)))
        return [_violation(error, path, f"{_quote(error.instance)} is not of type{'s' * (', ' in listed)} {listed}")]
    choices = [next((each for each in errors if _is_choice(each, here)), None) for errors in fitting]
    left = [errors for errors, choice in zip(fitting, choices, strict=True) if choice is None]
    if not left and len(fitting) > 1:
        wrong = [choice for choice in choices if choice is not None]
        at_one = [each for each in wrong if each.instance_path == wrong[0].instance_path]
        options = [option for each in at_one for option in _options(each)]
        return [_violation(wrong[0], path, _not_one_of(wrong[0].instance, options))]
    left = left or fitting
    if len(left) > 1 and (single := [errors[0] for errors in left if len(errors) == 1]):
        return _joined([told for each in single for told in explained(each, path)])
    return [told for each in min(left, key=len) for told in explained(each, path)]


def _wrong_types(errors: list[_Error], here: int) -> list[str]:
    """List the types that an alternative has instead of the value's."""
    return [
        kind
        for each in errors
        if isinstance(each.kind, _Kinds.Type) and len(each.instance_path) == here
        for kind in each.kind.types
    ]


def _is_choice(error: _Error, here: int) -> bool:
    """Tell whether an error says that another alternative was chosen: by the value, or by a constant in it."""
    below = len(error.instance_path) - here
    if isinstance(error.kind, _Kinds.Enum):
        return below == 0 or (below == 1 and len(error.kind.options) == 1)
    return isinstance(error.kind, _Kinds.Constant) and below <= 1


def _options(error: _Error) -> list[object]:
    kind = error.kind
    if isinstance(kind, _Kinds.Constant):
        return [kind.expected_value]
    return list(kind.options) if isinstance(kind, _Kinds.Enum) else []


def _joined(told: list[Violation]) -> list[Violation]:
    """Make one violation of those that are at the first one's place, for alternatives that fit equally well."""
    path = told[0].path
    messages = dict.fromkeys(each.message for each in told if each.path == path)
    return [Violation(path, cut(", or ".join(islice(messages, 3)), MAX_LIST))]


def message_of(error: _Error) -> str:
    """An error in words, with no more than 80 characters of the value."""
    kind = error.kind
    if isinstance(kind, _Kinds.AdditionalProperties | _Kinds.UnevaluatedProperties):
        names = ", ".join(f'"{name}"' for name in kind.unexpected[:MAX_VIOLATIONS])
        return f"unexpected: {cut(names, MAX_QUOTED)}"
    if isinstance(kind, _Kinds.PropertyNames):
        # The inner error's value is the property's name.
        return cut(f"property name {_unmasked(kind.error)}", MAX_MESSAGE)
    if isinstance(kind, _Kinds.Enum):
        return _not_one_of(error.instance, kind.options)
    return cut(_unmasked(error), MAX_MESSAGE)


def _not_one_of(value: object, options: Sequence[object]) -> str:
    """Say which values there are: all of a few, else those that are most like the value."""
    shown = [_quote(option) for option in options[:MAX_LISTED]]
    if len(options) <= MAX_LISTED:
        listed = f"{', '.join(shown[:-1])} or {shown[-1]}" if len(shown) > 1 else shown[0]
        return cut(f"{_quote(value)} is not one of {listed}", MAX_LIST)
    texts = (option for option in options[:MAX_OPTIONS] if isinstance(option, str))
    near = near_names(value, texts)[:MAX_NEAREST] if isinstance(value, str) else []
    named = f"the nearest are {', '.join(map(_quote, near))}" if near else f"such as {', '.join(shown[:MAX_NEAREST])}"
    return cut(f"{_quote(value)} is not one of the {len(options)} values; {named}", MAX_LIST)


def _unmasked(error: _Error) -> str:
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
