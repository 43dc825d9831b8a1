"""Schemas of OpenAPI as JSON Schemas of 2020-12: each part of a document once, and shared by all tools that use it.

What a schema refers to stands in the tool's `$defs`, so that a recursive one is no different from others; only what has
no parts stands in the place of its reference. Keywords that check nothing are left out, and so is each whose value is
not what it should be: what is made here can be compiled, but for patterns that the engine does not know, which are left
out too. The server has the last word in any case.

    3.0    `nullable`, `exclusiveMinimum: true`, `example`; beside `$ref` only a description counts
    2.0    likewise, with `x-nullable`
    `oneOf` becomes `anyOf`: alternatives that overlap are a common slip, and no reason to refuse an input
    `readOnly` properties are not sent, and not asked for
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeGuard

import msgspec

from tooldispatchd.catalog.matching import why_unmatched
from tooldispatchd.catalog.names import free_name
from tooldispatchd.catalog.openapi.apidocument import (
    ApiDocument,
    Object,
    UnfitError,
    list_of,
    object_of,
    reference_of,
    text_of,
)
from tooldispatchd.catalog.pointers import unescape, unescape_fragment
from tooldispatchd.catalog.schemas import MAX_PATTERNS, SchemaError, bound_schema, compile_check
from tooldispatchd.catalog.unfolding import MAX_UNFOLDED, UnfoldError, unfold
from tooldispatchd.catalog.violations import validator_of

# A level takes two of a schema's 64: the keyword, and the name or the number below it.
MAX_LEVELS: Final = 24
# A model pays for each character in every request. A parameter of the longest known document explains itself in 300.
MAX_DESCRIPTION: Final = 300
MAX_EXAMPLE: Final = 100
# What one tool's schema has at most, as JSON; of what lies deeper it says nothing. Half a long prompt.
MAX_INPUT_BYTES: Final = 32 * 1024

_OF_TYPE: Final[dict[str, type | tuple[type, ...]]] = {
    "string": str,
    "number": (int, float),
    "integer": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}
# Keywords that hold one schema, several, and several by name.
_ONE: Final = frozenset(
    (
        *("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"),
        *("unevaluatedItems", "unevaluatedProperties"),
    )
)
_SEVERAL: Final = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_NAMED: Final = frozenset(("properties", "patternProperties", "dependentSchemas"))
_PARTS: Final = _ONE | _SEVERAL | _NAMED
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_.-]+")

_NOTHING: Final[Object] = {"not": {}}

_encode: Final = msgspec.json.Encoder().encode


class Conversion:
    """The schemas of one document, of OpenAPI 3.0 (or 2.0) where `is_old`."""

    def __init__(self, document: ApiDocument, *, is_old: bool) -> None:
        self._document = document
        self._is_old = is_old
        self._names: dict[str, str] = {}
        self._references: dict[str, str] = {}
        self._taken: dict[str, int] = {}
        # What each name of `$defs` stands for, its size as JSON, and what it refers to; or why there is nothing.
        self._made: dict[str, Object] = {}
        self._sizes: dict[str, int] = {}
        self._uses: dict[str, frozenset[str]] = {}
        self._broken: dict[str, str] = {}
        self._patterns: dict[str, bool] = {}
        # Equal parts are one: every other parameter is a number of a page.
        self._shared: dict[bytes, Object] = {}

    def convert(self, schema: object, uses: set[str]) -> Object:
        """A schema with references into `$defs`; their names are put among `uses`. Raises `UnfitError`."""
        return self._schema(schema, 1, uses)

    def in_place(self, schema: object, uses: set[str]) -> Object:
        """As `convert`, with the definition itself in the place of a reference to it."""
        reference = reference_of(schema)
        if reference is None:
            return self.convert(schema, uses)
        name = self._name(reference)
        made = self._definition(name)
        uses |= self._uses[name]
        described = text_of(object_of(schema).get("description"))
        return self.described(made, described)

    def described(self, schema: Object, text: str) -> Object:
        """The schema with another description, where there is one."""
        made = {**schema, "description": short(text)} if text else schema
        return self._shared.setdefault(_encode(made), made)

    def whole(self, root: Object, uses: Iterable[str]) -> tuple[Object, bool]:
        """The schema `root` with all that it needs, and whether the document says more: what there was no room for.

        Raises `UnfitError`.
        """
        defs: Object = {}
        waiting = sorted(uses)
        room, is_cut = MAX_INPUT_BYTES - len(_encode(root)), False
        # Breadth first, so that what lies deepest has none.
        for name in waiting:
            if name in defs:
                continue
            definition = self._definition(name)
            if self._sizes[name] > room:
                is_cut = True
                defs[name] = {key: definition[key] for key in ("type", "description") if key in definition}
                continue
            room -= self._sizes[name]
            defs[name] = definition
            waiting.extend(sorted(self._uses[name] - defs.keys()))
        made = {**root, "$defs": defs} if defs else root
        if MAX_INPUT_BYTES - room > MAX_PATTERNS:
            # All that it has may be patterns.
            try:
                bound_schema(made)
            except SchemaError as error:
                raise UnfitError(f"its input's schema cannot be used: {error}") from None
        return made, is_cut

    def unusable(self, roots: Mapping[str, Object]) -> dict[str, str]:
        """Why the compiler refuses some of the schemas that `whole` has made, by their names.

        Those that are whole are tried as one, so that each definition is compiled once; where that is refused, either
        half of them.
        """
        refused: dict[str, str] = {}
        waiting = [[name for name, root in roots.items() if self._is_whole(root)]]
        waiting += [[name] for name, root in roots.items() if not self._is_whole(root)]
        for names in waiting:
            if len(names) == 1:
                why = _refusal(roots[names[0]])
                refused |= {} if why is None else {names[0]: why}
            elif not self._is_usable([roots[name] for name in names]):
                waiting += [names[: len(names) // 2], names[len(names) // 2 :]]
        return refused

    def _is_whole(self, root: Object) -> bool:
        """Whether all definitions of a schema are as the document has them."""
        return all(part is self._made[name] for name, part in object_of(root.get("$defs")).items())

    def _is_usable(self, roots: list[Object]) -> bool:
        """Whether the compiler takes all of these together."""
        used = set[str]().union(*(object_of(root.get("$defs")) for root in roots))
        bare = {
            str(number): {key: part for key, part in root.items() if key != "$defs"}
            for number, root in enumerate(roots)
        }
        bundle: Object = {"properties": bare, "$defs": {name: self._made[name] for name in used}}
        try:
            validator_of(bundle)
            return unfold(bundle).applied <= MAX_UNFOLDED
        except (ValueError, UnfoldError):
            return False

    def _definition(self, name: str) -> Object:
        """What a name stands for."""
        if name not in self._made and name not in self._broken:
            uses: set[str] = set()
            try:
                made = self._schema(self._document.follow({"$ref": self._references[name]}), 1, uses)
            except UnfitError as error:
                self._broken[name] = str(error)
            else:
                self._made[name], self._sizes[name], self._uses[name] = made, len(_encode(made)), frozenset(uses)
        if name in self._broken:
            raise UnfitError(self._broken[name])
        return self._made[name]

    def _name(self, reference: str) -> str:
        """The name in `$defs` of what a reference leads to."""
        if reference not in self._names:
            last = unescape(unescape_fragment(reference).rpartition("/")[2])
            name = free_name(_NO_NAME.sub("_", last)[:64] or "schema", self._taken)
            self._names[reference], self._references[name] = name, reference
        return self._names[reference]

    # --- one schema ---

    def _schema(self, node: object, level: int, uses: set[str]) -> Object:
        if not isinstance(node, dict) or level > MAX_LEVELS:
            return _NOTHING if node is False else {}
        reference = reference_of(node)
        if reference is None:
            made = self._keywords(node, level, uses)
        else:
            target = self._document.follow(node)
            if isinstance(target, dict) and _PARTS.isdisjoint(target):
                made = self._keywords(target, level, uses)
            else:
                name = self._name(reference)
                uses.add(name)
                made = {"$ref": f"#/$defs/{name}"}
            beside = {"description", "nullable", "x-nullable"} if self._is_old else node.keys() - {"$ref"}
            made |= self._keywords({key: node[key] for key in beside if key in node}, level, uses)
        if self._is_old and True in (node.get("nullable"), node.get("x-nullable")):
            made = _with_null(made)
        return self._shared.setdefault(_encode(made), made)

    def _keywords(self, node: Object, level: int, uses: set[str]) -> Object:
        """The keywords of a schema beside a reference."""
        made: Object = {}
        _take_type(node, made)
        for key, value in node.items():
            if key in _BARE:
                kept = _BARE[key](value)
                if kept is not None:
                    made[key] = kept
            elif key in _ONE and isinstance(value, dict | bool):
                made[key] = value if isinstance(value, bool) else self._schema(value, level + 1, uses)
            elif key in _SEVERAL:
                self._take_several(key, list_of(value), made, level, uses)
            elif key in _NAMED:
                self._take_named(key, object_of(value), made, level, uses)
            elif key == "pattern" and isinstance(value, str) and self._is_pattern(value):
                made[key] = value
        for key, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if node.get(key) is True and bound in made:
                made[key] = made.pop(bound)
        self._take_required(node, made)
        return _with_null(made) if _take_values(node, made) else made

    def _take_several(self, key: str, parts: list[object], made: Object, level: int, uses: set[str]) -> None:
        schemas = [self._schema(part, level + 1, uses) for part in parts]
        own = "anyOf" if key == "oneOf" else key
        if schemas and own in made:
            # A schema has at most these two, in either order.
            made[own] = [{own: made[own]}, {own: schemas}]
            made["allOf"] = [*list_of(made.get("allOf")), *list_of(made.pop(own))]
        elif schemas:
            made[own] = schemas

    def _take_named(self, key: str, parts: Object, made: Object, level: int, uses: set[str]) -> None:
        if key == "properties":
            parts = {name: part for name, part in parts.items() if not self._is_read_only(part)}
        if key != "patternProperties" or all(map(self._is_pattern, parts)):
            made[key] = {name: self._schema(part, level + 1, uses) for name, part in parts.items()}

    def _take_required(self, node: Object, made: Object) -> None:
        if isinstance(node.get("required"), list):
            written, kept = object_of(node.get("properties")), object_of(made.get("properties"))
            names = dict.fromkeys(each for each in list_of(node["required"]) if isinstance(each, str))
            required = [name for name in names if name in kept or name not in written]
            if required:
                made["required"] = required

    def _is_read_only(self, part: object) -> bool:
        """Whether a property is not sent, as it says itself, or what it refers to, or a part of that."""
        try:
            stated = object_of(self._document.follow(part))
            parts = [self._document.follow(each) for each in list_of(stated.get("allOf"))]
        except UnfitError:
            return False
        return any(object_of(each).get("readOnly") is True for each in (part, stated, *parts))

    def _is_pattern(self, pattern: str) -> bool:
        """Whether a pattern can be matched in linear time."""
        if pattern not in self._patterns:
            self._patterns[pattern] = why_unmatched(pattern) is None
        return self._patterns[pattern]


def _refusal(schema: Object) -> str | None:
    try:
        compile_check(schema)
    except SchemaError as error:
        return f"its input's schema cannot be used: {error}"
    return None


def _take_type(node: Object, made: Object) -> None:
    stated = node.get("type")
    named = [each for each in (stated if isinstance(stated, list) else [stated]) if isinstance(each, str)]
    types = [each for each in dict.fromkeys(named) if each in _OF_TYPE]
    if types:
        made["type"] = types[0] if len(types) == 1 else types
    elif stated == "file":
        made["type"] = "string"
    elif "properties" in node:
        # Else a list of the wrong things would be taken, too.
        made["type"] = "object"


def _take_values(node: Object, made: Object) -> bool:
    """Which values are admitted, and a default and an example; returns whether null is one of several values.

    A value that the type excludes is a slip, and null has no place in a table.
    """
    for key, own in (("default", "default"), ("example", "examples"), ("examples", "examples")):
        value = node.get(key)
        if key == "examples":
            value = list_of(value)[0] if list_of(value) else None
        if value is not None and _is_brief(value):
            made[own] = value if own == "default" else [value]
    if "const" not in node and "enum" not in node:
        return False
    values = [node["const"]] if "const" in node else list_of(node["enum"])
    stated = made.get("type", [])
    types = [stated] if isinstance(stated, str) else list_of(stated)
    fitting = [each for each in values if not _holds_null(each) and (not types or _is_of(each, types))]
    if fitting:
        made["enum"] = fitting
    elif values == [None]:
        made["type"] = "null"
    return bool(fitting) and None in values


def _with_null(schema: Object) -> Object:
    """The schema that admits null, too."""
    types = schema.get("type", "null")
    types = [types] if isinstance(types, str) else list_of(types)
    if {"type": "null"} in list_of(schema.get("anyOf")):
        return schema
    if schema.keys() <= {"description"} or ("null" in types and "type" in schema and "enum" not in schema):
        return schema
    if "type" in schema and schema.keys().isdisjoint(("enum", "allOf", "anyOf", "not", "if")):
        return {**schema, "type": [*types, "null"]}
    bare = {key: value for key, value in schema.items() if key != "description"}
    described = {"description": schema["description"]} if "description" in schema else {}
    return {"anyOf": [bare, {"type": "null"}], **described}


def _is_of(value: object, types: Iterable[object]) -> bool:
    """Whether a value is of one of these types."""
    return any(
        isinstance(value, _OF_TYPE[str(each)]) and isinstance(value, bool) == (each == "boolean") for each in types
    )


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_brief(value: object) -> bool:
    return len(_encode(value)) <= MAX_EXAMPLE and not _holds_null(value)


def _holds_null(value: object) -> bool:
    """Whether a value cannot stand in a table; a text in it may be taken for a null."""
    return value is None or (isinstance(value, dict | list) and b"null" in _encode(value))


def short(text: str, limit: int = MAX_DESCRIPTION) -> str:
    """The beginning of a text, up to the end of a sentence or a word where one is near."""
    text = " ".join(text.split())
    if len(text) <= limit:
        return text
    head = text[: limit - 1]
    end = max(head.rfind(". "), head.rfind("! "), head.rfind("? ")) + 1
    return head[:end] if end > limit // 2 else f"{head.rpartition(' ')[0] or head}…"


def _word(value: object) -> object:
    return value if isinstance(value, str) else None


def _bound(value: object) -> object:
    return value if _is_number(value) else None


def _size(value: object) -> object:
    return int(value) if _is_number(value) and 0 <= value == int(value) else None


def _dependent(value: object) -> object:
    return {
        name: list(dict.fromkeys(each for each in list_of(names) if isinstance(each, str)))
        for name, names in object_of(value).items()
    } or None


# What stands of each keyword that holds no schema; None where that is nothing.
_BARE: Final[dict[str, Callable[[object], object]]] = {
    **dict.fromkeys(("format", "contentEncoding", "contentMediaType"), _word),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _bound),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _size),
    **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), _size),
    "multipleOf": lambda value: value if _is_number(value) and value > 0 else None,
    "uniqueItems": lambda value: True if value is True else None,
    "dependentRequired": _dependent,
    "description": lambda value: (short(value) or None) if isinstance(value, str) else None,
}
