"""JSON Schemas, compiled once and asked often: `compile_check` gives a `Check`, or raises `SchemaError`.

What a server or a file gives as a schema is not trusted: it is bounded before it reaches the compiler, it fetches
nothing, and its patterns match in linear time. `format` is an annotation in every draft, as 2020-12 has it. Values to
be checked must come from a JSON decoder (or be as plain and as shallow): the validator has no depth limit of its own.
"""

import re
from functools import lru_cache
from math import isfinite
from typing import Final

import jsonschema_rs
import msgspec

from tooldispatchd.catalog.nulls import MAX_TOLD, drop_nulls
from tooldispatchd.catalog.problems import cut
from tooldispatchd.catalog.unfolding import MAX_UNFOLDED, MAX_WEIGHT, UnfoldError, unfold
from tooldispatchd.catalog.violations import (
    MAX_EXPLAINED,
    MAX_MESSAGE,
    MAX_QUOTED,
    Compiled,
    IsValid,
    Violation,
    message_of,
    pointer_of,
    validator_of,
    violations_of,
)

MAX_SCHEMA_BYTES: Final = 256 * 1024
MAX_SCHEMA_DEPTH: Final = 64
# Compiling is quadratic in a pattern's length (1,000 classes: 80 ms), so one is bounded and so are all together.
MAX_PATTERN: Final = 1_024
MAX_PATTERNS: Final = 16 * 1_024

# Decoding, checking and encoding one part take up to 250 ns, one comparison of a schema's 75: some two milliseconds.
LIGHT: Final = 16 * 1024
# Texts have few parts, and their escapes cost 15 ns a byte.
MAX_LIGHT_BYTES: Final = 128 * 1024
# A pattern that falls back to the slow engine takes some nanoseconds for each of its characters and of the text's.
PATTERN_STEPS: Final = 1024 * 1024

# What is larger takes over four milliseconds to be compiled.
LIGHT_SCHEMA_BYTES: Final = 8 * 1024

# As many as a checker meets in some minutes.
KNOWN_CHECKS: Final = 64

# What the compiler says of a reference that leads out of the schema.
_ELSEWHERE: Final = re.compile(r"Resource '(.+?)' is not present in a registry")


class SchemaError(ValueError):
    """A schema that cannot be used; the message says why, in one line."""


class ExternalReferenceError(SchemaError):
    """A schema that refers to another document, at `place`."""

    def __init__(self, place: str) -> None:
        super().__init__(f"it refers to {place}, which is never fetched")
        self.place = place


class Check:
    """A compiled schema. `is_valid(value)` is the validator's own method, for the hot path.

    `schemas` are what a value must match, each of them. `weight` bounds what they make of one part of a value, in
    comparisons of up to 75 ns; `patterns` are the characters of their patterns, each of which may be looked at for
    every byte. See `is_light`.
    """

    __slots__ = ("_compiled", "_text", "is_valid", "patterns", "schemas", "weight")

    def __init__(
        self,
        schemas: list[dict[str, object] | bool],
        compiled: Compiled | None = None,
        *,
        weight: int = 1,
        patterns: int = 0,
    ) -> None:
        self.schemas = schemas
        self.is_valid: IsValid = (lambda _value: True) if compiled is None else compiled.validator.is_valid
        self.weight = weight
        self.patterns = patterns
        self._compiled = compiled
        self._text: bytes | None = None

    @property
    def text(self) -> bytes:
        """`schemas` as JSON."""
        if self._text is None:
            self._text = msgspec.json.encode(self.schemas)
        return self._text

    def mend(self, value: object) -> list[str]:
        """Take out of `value`, in place, the nulls that mean as much as nothing; pointers to the first 100 of them.

        For values that are not valid as they stand: whether they are now is to be asked again.
        """
        compiled = self._compiled
        return [] if compiled is None else [pointer_of(path) for path in drop_nulls(compiled.schema, value)]

    def violations(self, value: object) -> list[Violation]:
        """What is wrong with `value`: at most 10, only the first where it is large, none where it is valid."""
        return [] if self._compiled is None else violations_of(self._compiled, value)


class Both(Check):
    """Two checks as one: a value must pass both."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: Check, second: Check) -> None:
        schemas = [*first.schemas, *second.schemas]
        super().__init__(schemas, weight=first.weight + second.weight, patterns=first.patterns + second.patterns)
        self._first = first
        self._second = second
        one, other = first.is_valid, second.is_valid
        self.is_valid = lambda value: one(value) and other(value)

    def mend(self, value: object) -> list[str]:
        """By the first check, then by the second."""
        return [*self._first.mend(value), *self._second.mend(value)][:MAX_TOLD]

    def violations(self, value: object) -> list[Violation]:
        """What is wrong by the first check, or else by the second."""
        return self._first.violations(value) or self._second.violations(value)


class DistantCheck(Check):
    """The check of a schema that is too large to be compiled here: no value is light under it."""

    __slots__ = ()

    def __init__(self, schema: dict[str, object]) -> None:
        super().__init__([schema], weight=MAX_WEIGHT)


class LazyCheck(Check):
    """The check of a schema that is known to compile; that is done when a value is first asked about.

    Of a thousand tools few are called. One that takes too long to be compiled here is left to a checker.
    """

    __slots__ = ()

    def __init__(self, schema: dict[str, object]) -> None:
        self.schemas = [schema]
        self._text = None

    def __getattr__(self, name: str) -> object:
        # The slots that are still empty; from then on they are read as of any other check.
        is_light = len(self.text) <= LIGHT_SCHEMA_BYTES
        made = compile_check(self.schemas[0]) if is_light else DistantCheck({})
        self.is_valid, self._compiled = made.is_valid, made._compiled
        self.weight, self.patterns = made.weight, made.patterns
        return getattr(self, name)


def light_size(check: Check) -> int:
    """So many bytes are light under a check, whatever they are."""
    return 0 if check.patterns else LIGHT // check.weight


def is_light(text: bytes | bytearray | msgspec.Raw, check: Check) -> bool:
    """Whether JSON of these bytes can be decoded, checked and encoded within some two milliseconds.

    Nothing else may be done in the dispatch thread. The parts of a value are counted in its text, never too few.
    """
    size = len(text)
    if size <= light_size(check):
        return True
    if size > MAX_LIGHT_BYTES or size * check.patterns > PATTERN_STEPS:
        return False
    # Raw text cannot be searched, and so much is quickly copied.
    found = bytes(text) if isinstance(text, msgspec.Raw) else text
    parts = 1 + found.count(b",") + found.count(b"[") + found.count(b"{")
    return parts * check.weight <= LIGHT


def compile_check(schema: dict[str, object] | bool) -> Check:  # noqa: FBT001 - a boolean is a JSON Schema
    """The check of a schema of draft 4 to 2020-12 (`$schema`; 2020-12 by default). Raises `SchemaError`."""
    if schema is True or schema == {}:
        return ACCEPT
    patterns = bound_schema(schema)
    try:
        unfolding = unfold(schema)
    except UnfoldError as error:
        raise SchemaError("the schema has too many references to identifiers") from error
    if unfolding.applied > MAX_UNFOLDED:
        raise SchemaError(f"the schema unfolds to too much: to more than {MAX_UNFOLDED} subschemas at one place")
    most = 0 if unfolding.multiplies else MAX_EXPLAINED // max(1, unfolding.applied)
    branches = unfolding.multiplies or unfolding.has_unions
    try:
        compiled = Compiled(schema, validator_of(schema), most, branches, unfolding.parts + patterns)
        return Check([schema], compiled, weight=unfolding.weight, patterns=patterns)
    except jsonschema_rs.ValidationError as error:
        elsewhere = _ELSEWHERE.match(error.message)
        if elsewhere is not None:
            raise ExternalReferenceError(cut(elsewhere[1], MAX_MESSAGE)) from error
        pointer = "".join(f"/{step}" for step in error.instance_path)
        where = "" if error.instance is None else f"at {cut(pointer, MAX_QUOTED) or 'its root'}: "
        raise SchemaError(cut(f"{where}{message_of(error)}", MAX_MESSAGE)) from error
    except ValueError as error:
        raise SchemaError(cut(str(error).partition("\n")[0], MAX_MESSAGE)) from error
    except BaseException as error:
        # A panic of the compiler derives from BaseException, and its class cannot be imported.
        if type(error).__name__ == "PanicException":
            raise SchemaError("the schema cannot be compiled") from error  # noqa: ASYNC104  # a defect of a library, not a cancel
        raise


@lru_cache(maxsize=KNOWN_CHECKS)
def check_of(schemas: bytes) -> Check:
    """The check of all these schemas, a JSON array as `Check.text` is; remembered."""
    check = ACCEPT
    for schema in msgspec.json.decode(schemas):
        each = compile_check(schema)
        check = each if check is ACCEPT else Both(check, each)
    return check


def bound_schema(schema: object) -> int:
    """How many characters of patterns a schema has.

    Raises `SchemaError` where it is no JSON, too deep, too large, or has too much in its patterns.
    """
    if not isinstance(schema, dict | bool):
        raise SchemaError("a schema is an object or a boolean")
    patterns = 0
    parts = 0
    waiting: list[tuple[object, int]] = [(schema, 1)]
    while waiting:
        node, depth = waiting.pop()
        parts += 1
        # Each part is a byte at least, so this ends where the encoded size would be too large anyway.
        if parts > MAX_SCHEMA_BYTES:
            raise SchemaError(f"the schema is larger than {MAX_SCHEMA_BYTES} bytes")
        if isinstance(node, dict | list | tuple):
            if depth > MAX_SCHEMA_DEPTH:
                raise SchemaError(f"the schema is nested deeper than {MAX_SCHEMA_DEPTH}")
            if isinstance(node, dict):
                patterns += _patterns_in(node)
            waiting.extend((child, depth + 1) for child in (node.values() if isinstance(node, dict) else node))
        elif not (node is None or isinstance(node, str | int | float)) or (
            isinstance(node, float) and not isfinite(node)
        ):
            raise SchemaError(f"the schema holds what JSON has not: {type(node).__name__}")
    if patterns > MAX_PATTERNS:
        raise SchemaError(f"the schema's patterns have more than {MAX_PATTERNS} characters together")
    try:
        size = len(msgspec.json.encode(schema))
    except (ValueError, OverflowError) as error:
        raise SchemaError("the schema holds text or a number that JSON cannot say") from error
    if size > MAX_SCHEMA_BYTES:
        raise SchemaError(f"the schema is larger than {MAX_SCHEMA_BYTES} bytes")
    return patterns


def _patterns_in(node: dict[object, object]) -> int:
    """How many characters of patterns this object has itself."""
    found = [node.get("pattern")]
    by_pattern = node.get("patternProperties")
    if isinstance(by_pattern, dict):
        found.extend(by_pattern)
    lengths = [len(pattern) for pattern in found if isinstance(pattern, str)]
    if lengths and max(lengths) > MAX_PATTERN:
        raise SchemaError(f"a pattern has more than {MAX_PATTERN} characters")
    if not all(isinstance(key, str) for key in node):
        raise SchemaError("the schema has a key that is no string")
    return sum(lengths)


ACCEPT: Final = Check([])
"""The check of `true` and of `{}`: every value passes."""
