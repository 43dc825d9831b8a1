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
from tooldispatchd.catalog.patterns import cost_of
from tooldispatchd.catalog.problems import cut
from tooldispatchd.catalog.unfolding import MAX_UNFOLDED, MAX_WEIGHT, UnfoldError, unfold
from tooldispatchd.catalog.violations import (
    MAX_EXPLAINED,
    MAX_MESSAGE,
    MAX_QUOTED,
    Compiled,
    IsValid,
    Violation,
    explained,
    pointer_of,
    validator_of,
    violations_of,
)

MAX_SCHEMA_BYTES: Final = 256 * 1024
MAX_SCHEMA_DEPTH: Final = 64
# One pattern of 1,000 classes takes 80 to 700 ms to be compiled, so one is bounded and so are all together.
MAX_PATTERN: Final = 1_024
MAX_PATTERNS: Final = 16 * 1_024

# Decoding, checking and encoding one part take up to 250 ns, one comparison of a schema's 75: some two milliseconds.
LIGHT: Final = 16 * 1024
# Texts have few parts, and their escapes cost 15 ns a byte.
MAX_LIGHT_BYTES: Final = 128 * 1024
# A pattern that falls back to the slow engine takes up to 10 ns for each state and each byte of the text.
PATTERN_STEPS: Final = 512 * 1024
# A number with an exponent of three digits takes up to 13 µs to be decoded. One of 19 digits and more may be over 64
# bits: those are all alike to `uniqueItems`, which then compares each with each other, 0.5 µs a pair.
DEAR: Final = 200
_DEAR_NUMBER: Final = re.compile(rb"[\[,:\s]-?[\d.]+[eE][+-]?\d{3}|\d{19}")
# Each digit as any other, and so the letters and the signs of an exponent.
_ALIKE: Final = bytes.maketrans(b"123456789E-", b"000000000e+")
# So much is light whatever numbers there are.
LIGHT_NUMBERS_BYTES: Final = 1024
# A byte of what is encoded in a text takes up to 15 ns to be decoded and read, once for each keyword that asks for it.
_CONTENT_COST: Final = 16

# What has more of either takes over four milliseconds to be compiled.
LIGHT_SCHEMA_BYTES: Final = 8 * 1024
LIGHT_PATTERNS: Final = 1_000

# As many as a checker meets in some minutes.
KNOWN_CHECKS: Final = 64

# What the compiler says of a reference that leads out of the schema.
_ELSEWHERE: Final = re.compile(r"Resource '(.+?)' is not present in a registry")


class SchemaError(ValueError):
    """A schema that cannot be used; the message says why, in one line."""


class SchemaBoundError(SchemaError):
    """A schema that is over a bound, or no JSON."""


class ExternalReferenceError(SchemaError):
    """A schema that refers to another document, at `place`."""

    def __init__(self, place: str) -> None:
        super().__init__(f"it refers to {place}, which is never fetched")
        self.place = place


class Check:
    """A compiled schema. `is_valid(value)` is the validator's own method, for the hot path.

    `schemas` are what a value must match, each of them. `weight` bounds what they make of one part of a value, in
    comparisons of up to 75 ns; `patterns` are the states of their patterns (`patterns.cost_of`), each of which may be
    looked at for every byte. See `is_light`.
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
        schema = self.schemas[0]
        made = compile_check(schema) if is_light_schema(schema, self.text) else DistantCheck({})
        self.is_valid, self._compiled = made.is_valid, made._compiled
        self.weight, self.patterns = made.weight, made.patterns
        return getattr(self, name)


def is_light_schema(schema: dict[str, object] | bool, text: bytes | msgspec.Raw) -> bool:  # noqa: FBT001 - as above
    """Whether a schema may be compiled in the dispatch thread: `text` is its JSON. Raises `SchemaError`."""
    return len(text) <= LIGHT_SCHEMA_BYTES and bound_schema(schema) <= LIGHT_PATTERNS


def light_size(check: Check) -> int:
    """So many bytes are light under a check, whatever they are."""
    return 0 if check.patterns else min(LIGHT // check.weight, LIGHT_NUMBERS_BYTES)


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
    return parts_of(found) * check.weight <= LIGHT


def parts_of(text: bytes | bytearray) -> int:
    """So many parts the value of a JSON text has at most; a number that is dear counts for `DEAR` of them."""
    parts = 1 + text.count(b",") + text.count(b"[") + text.count(b"{")
    return parts if parts > LIGHT else parts + DEAR * _dear_numbers(text)


def _dear_numbers(text: bytes | bytearray) -> int:
    """How many numbers, or parts of a long one, take a hundred times as long as others; of texts some may be taken."""
    alike = text.translate(_ALIKE)
    # Far quicker than the search: most texts have none.
    if not any(each in alike for each in (b"0e00", b"0e+00", b"0" * 19)):
        return 0
    return len(_DEAR_NUMBER.findall(text))


def compile_check(schema: dict[str, object] | bool) -> Check:  # noqa: FBT001 - a boolean is a JSON Schema
    """The check of a schema of draft 4 to 2020-12 (`$schema`; 2020-12 by default). Raises `SchemaError`."""
    if schema is True or schema == {}:
        return ACCEPT
    patterns = bound_schema(schema)
    try:
        unfolding = unfold(schema)
    except UnfoldError as error:
        raise SchemaBoundError("the schema has too many references to identifiers") from error
    if unfolding.applied > MAX_UNFOLDED:
        raise SchemaBoundError(f"the schema unfolds to too much: to more than {MAX_UNFOLDED} subschemas at one place")
    # Each name that is required and missing is an error of its own.
    most = 0 if unfolding.multiplies else MAX_EXPLAINED // max(1, unfolding.applied, unfolding.weight // 16)
    branches = unfolding.multiplies or unfolding.has_unions
    try:
        compiled = Compiled(schema, validator_of(schema), most, branches, unfolding.parts + patterns, unfolding.applied)
        return Check([schema], compiled, weight=unfolding.weight, patterns=patterns)
    except jsonschema_rs.ValidationError as error:
        elsewhere = _ELSEWHERE.match(error.message)
        if elsewhere is not None:
            raise ExternalReferenceError(cut(elsewhere[1], MAX_MESSAGE)) from error
        told = explained(error)[0]
        where = "" if error.instance is None else f"at {cut(told.path, MAX_QUOTED) or 'its root'}: "
        raise SchemaError(cut(f"{where}{told.message}", MAX_MESSAGE)) from error
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
    """What the patterns of a schema cost (`patterns.cost_of`), and what it asks of encoded texts likewise.

    Raises `SchemaBoundError` where it is no JSON, too deep, too large, or has too much in its patterns.
    """
    if not isinstance(schema, dict | bool):
        raise SchemaBoundError("a schema is an object or a boolean")
    patterns = characters = 0
    parts = 0
    waiting: list[tuple[object, int]] = [(schema, 1)]
    while waiting:
        node, depth = waiting.pop()
        parts += 1
        # Each part is a byte at least, so this ends where the encoded size would be too large anyway.
        if parts > MAX_SCHEMA_BYTES:
            raise SchemaBoundError(f"the schema is larger than {MAX_SCHEMA_BYTES} bytes")
        if isinstance(node, dict | list | tuple):
            if depth > MAX_SCHEMA_DEPTH:
                raise SchemaBoundError(f"the schema is nested deeper than {MAX_SCHEMA_DEPTH}")
            if isinstance(node, dict):
                found = _patterns_in(node)
                characters += sum(map(len, found))
                patterns += sum(map(cost_of, found)) if characters <= MAX_PATTERNS else 0
                patterns += _CONTENT_COST * len(node.keys() & {"contentEncoding", "contentMediaType"})
            waiting.extend((child, depth + 1) for child in (node.values() if isinstance(node, dict) else node))
        elif not (node is None or isinstance(node, str | int | float)) or (
            isinstance(node, float) and not isfinite(node)
        ):
            raise SchemaBoundError(f"the schema holds what JSON has not: {type(node).__name__}")
    if characters > MAX_PATTERNS:
        raise SchemaBoundError(f"the schema's patterns have more than {MAX_PATTERNS} characters together")
    try:
        size = len(msgspec.json.encode(schema))
    except (ValueError, OverflowError) as error:
        raise SchemaBoundError("the schema holds text or a number that JSON cannot say") from error
    if size > MAX_SCHEMA_BYTES:
        raise SchemaBoundError(f"the schema is larger than {MAX_SCHEMA_BYTES} bytes")
    return patterns


def _patterns_in(node: dict[object, object]) -> list[str]:
    """The patterns that this object has itself."""
    found = [node.get("pattern")]
    by_pattern = node.get("patternProperties")
    if isinstance(by_pattern, dict):
        found.extend(by_pattern)
    patterns = [pattern for pattern in found if isinstance(pattern, str)]
    if any(len(pattern) > MAX_PATTERN for pattern in patterns):
        raise SchemaBoundError(f"a pattern has more than {MAX_PATTERN} characters")
    if not all(isinstance(key, str) for key in node):
        raise SchemaBoundError("the schema has a key that is no string")
    return patterns


ACCEPT: Final = Check([])
"""The check of `true` and of `{}`: every value passes."""
