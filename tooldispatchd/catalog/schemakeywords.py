"""What each keyword of a JSON Schema takes: one rule for each, for values that foreign programs wrote.

A rule gives the value itself where it is right, another value where a slip has one meaning, or `DROP` where it has
none; `ANY` says that the keyword admits everything. In lists and maps `DROP` stands for the part that is wrong.
"""

import re
from collections.abc import Callable, Iterator
from operator import is_
from typing import Final

import msgspec

DROP: Final = object()
"""A value that says nothing."""
ANY: Final = object()
"""A value that says that everything is admitted."""

LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_MAPS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_SINGLES: Final = (
    *("items", "additionalProperties", "unevaluatedProperties", "unevaluatedItems"),
    *("propertyNames", "contains", "contentSchema", "not", "if", "then", "else"),
)
HOLDING: Final = {
    **dict.fromkeys((*_MAPS, "dependencies"), "map"),
    **dict.fromkeys(LISTS, "list"),
    **dict.fromkeys((*_SINGLES, "additionalItems"), "single"),
}
"""Which keywords hold schemas: as values by name, as a list, or one."""

_encode: Final = msgspec.json.Encoder().encode

# The words that a `type` is written in, besides its own.
_WORDS: Final[dict[str, str]] = {
    **{word: word for word in ("string", "number", "integer", "boolean", "array", "object", "null")},
    **dict.fromkeys(("str", "text"), "string"),
    **dict.fromkeys(("int", "int32", "int64", "long"), "integer"),
    **dict.fromkeys(("float", "double", "decimal"), "number"),
    "bool": "boolean",
    **dict.fromkeys(("list", "tuple"), "array"),
    **dict.fromkeys(("dict", "map", "struct"), "object"),
    **dict.fromkeys(("none", "nil", "nonetype"), "null"),
}
_EVERYTHING: Final = frozenset(("any", "mixed", "*"))
_NUMBER: Final = re.compile(r"\s*[+-]?\d{1,17}(?:\.\d{1,17})?(?:[eE][+-]?\d{1,2})?\s*")
_MAX_EXACT: Final = 1 << 63
_ANCHOR: Final = re.compile(r"[A-Za-z_][-A-Za-z0-9._]*")
URL: Final = re.compile(r"(?:[A-Za-z0-9._~:/?@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*#?")


def held(keyword: str, value: object) -> Iterator[tuple[tuple[str, ...], object]]:
    """List the schemas that a keyword holds, each with the steps to it."""
    if isinstance(value, dict) and HOLDING[keyword] == "map":
        yield from (((name,), part) for name, part in value.items())
    elif isinstance(value, list):
        yield from (((str(index),), part) for index, part in enumerate(value))
    else:
        yield (), value


def subschemas(schema: dict[str, object]) -> Iterator[dict[str, object]]:
    """A schema and every schema object in it, definitions included, whatever their order."""
    waiting: list[object] = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            for key in node.keys() & HOLDING.keys():
                waiting.extend(part for _, part in held(key, node[key]))


def schema_of(value: object) -> object:
    if value is None or value == []:
        return {}
    if isinstance(value, list):
        types = _types(value)
        return {"type": types} if isinstance(types, str | list) else DROP
    if isinstance(value, str):
        word = value.strip().lower()
        types = _types(value)
        return word == "true" if word in {"true", "false"} else {"type": types} if isinstance(types, str) else DROP
    return value if isinstance(value, dict | bool) else DROP


def _several(value: object) -> object:
    if isinstance(value, dict):
        return [value]
    if not isinstance(value, list) or not value:
        return DROP
    parts = [{"type": "null"} if part is None else schema_of(part) for part in value]
    return value if all(map(is_, value, parts)) else parts


def _named(value: object) -> object:
    if isinstance(value, list) and all(isinstance(part, dict) and isinstance(part.get("name"), str) for part in value):
        # Entries with names are a list of what should be a map; an empty one is how PHP writes an empty map.
        return {part["name"]: {key: part[key] for key in part if key != "name"} for part in value}
    if not isinstance(value, dict):
        return DROP
    parts = {name: schema_of(part) for name, part in value.items()}
    return value if all(map(is_, value.values(), parts.values())) else parts


def _types(value: object) -> object:
    """Read one type, or several; `ANY` for a word that means any."""
    words = re.split(r"[|,]", value) if isinstance(value, str) else value
    if not isinstance(words, list) or not words:
        return DROP
    found: dict[str, None] = {}
    for each in words:
        word = "null" if each is None else each.strip().lower() if isinstance(each, str) else ""
        found |= {"null": None} if word.endswith("?") else {}
        word = "array" if word.endswith("[]") else word.removesuffix("?")
        if word in _EVERYTHING:
            return ANY
        if word not in _WORDS:
            return DROP
        found[_WORDS[word]] = None
    types = [*found]
    return value if value in (types, types[0]) else types[0] if len(types) == 1 else types


def _strings(value: object) -> object:
    """Names, each once."""
    if isinstance(value, dict) and all(isinstance(each, bool) for each in value.values()):
        value = [name for name, is_said in value.items() if is_said]
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        return DROP
    names = [*dict.fromkeys(each for each in value if isinstance(each, str))]
    is_whole = all(isinstance(each, str) for each in value)
    return value if names == value else names if is_whole else [*names, DROP]


def _dependent(value: object) -> object:
    if value == []:
        return ANY
    if not isinstance(value, dict):
        return DROP
    kept = {name: _strings(names) for name, names in value.items()}
    return DROP if any(each is DROP or (isinstance(each, list) and DROP in each) for each in kept.values()) else kept


def _number(value: object) -> object:
    if isinstance(value, str) and len(value) < 50 and _NUMBER.fullmatch(value):
        value = float(value) if {*value} & {*".eE"} else int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return DROP
    if isinstance(value, int) and abs(value) >= _MAX_EXACT:
        return float(value) if value.bit_length() < 1000 else DROP
    return value


def _count(value: object) -> object:
    number = _number(value)
    if not isinstance(number, int | float) or number < 0 or number != int(number):
        return DROP
    return number if isinstance(number, int) else int(number) if number < _MAX_EXACT else DROP


def _positive(value: object) -> object:
    number = _number(value)
    return number if isinstance(number, int | float) and number > 0 else DROP


def _enum(value: object) -> object:
    return _said(value) if isinstance(value, list) and value else DROP


def _said(value: object) -> object:
    """Take any value that JSON can say."""
    try:
        _encode(value)
    except (ValueError, OverflowError):
        return DROP
    return value


def _examples(value: object) -> object:
    return _said(value if isinstance(value, list) else [value])


def _flag(value: object) -> object:
    return (
        {"true": True, "false": False}.get(value.strip().lower(), DROP)
        if isinstance(value, str)
        else (value if isinstance(value, bool) else DROP)
    )


def _word(value: object) -> object:
    return value if isinstance(value, str) else DROP


def _text(value: object) -> object:
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return "\n".join(value)
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else _word(value)


def _anchor(value: object) -> object:
    return value if isinstance(value, str) and _ANCHOR.fullmatch(value) else DROP


def _identifier(value: object) -> object:
    return value if isinstance(value, str) and URL.fullmatch(value) else DROP


ANNOTATIONS: Final = frozenset(
    (
        *("title", "description", "$comment", "default", "examples", "readOnly", "writeOnly", "deprecated"),
        *("format", "contentEncoding", "contentMediaType", "contentSchema", "$defs", "definitions", "$id", "$anchor"),
    )
)
RULES: Final[dict[str, Callable[[object], object]]] = {
    **dict.fromkeys(_MAPS, _named),
    **dict.fromkeys(LISTS, _several),
    **dict.fromkeys(_SINGLES, schema_of),
    "type": _types,
    "enum": _enum,
    **dict.fromkeys(("const", "default"), _said),
    "examples": _examples,
    "required": _strings,
    "dependentRequired": _dependent,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _count),
    **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), _count),
    "multipleOf": _positive,
    **dict.fromkeys(("uniqueItems", "readOnly", "writeOnly", "deprecated"), _flag),
    **dict.fromkeys(("title", "description", "$comment"), _text),
    **dict.fromkeys(("pattern", "format", "contentEncoding", "contentMediaType", "$ref", "$dynamicRef"), _word),
    **dict.fromkeys(("$anchor", "$dynamicAnchor"), _anchor),
    "$id": _identifier,
}
