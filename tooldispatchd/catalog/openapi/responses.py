"""What a success of an operation gives, as a loose schema: names and types, and nothing that an API may outgrow.

No field is required, each may be null, others may stand beside it, and no value is excluded: an API that answers a
little otherwise than its document says has still done what it was asked. Parts that lie too deep to have room are any
JSON. There are no references: each part is made once for each depth, and shared.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

from tooldispatchd.catalog.openapi.apidocument import (
    ApiDocument,
    Object,
    UnfitError,
    list_of,
    object_of,
    reference_of,
)

# Names and types of some hundred fields: what a model can use of an answer that it has not seen.
MAX_OUTPUT_BYTES: Final = 4 * 1024
_MAX_DEPTH: Final = 5
# `{"type":["integer","null"]},` and its like, in bytes.
_SIZE: Final = 30

# A schema and its size as JSON, about.
_Sized = tuple[Object, int]
_ANY: Final[_Sized] = ({}, 3)
_SCALARS: Final[dict[str, _Sized]] = {
    name: ({"type": [name, "null"]}, _SIZE) for name in ("string", "number", "integer", "boolean")
}


class Responses:
    """The answers of one document's operations."""

    def __init__(self, document: ApiDocument) -> None:
        self._document = document
        self._made: dict[tuple[str, int], _Sized] = {}

    def output_of(self, operation: Object) -> tuple[Object | None, list[str]]:
        """The schema of what a success gives, None where that may be anything, and the media types of a success."""
        has_none = False
        media_types: dict[str, None] = {}
        schemas: list[object] = []
        for response in self._successes(operation):
            content = object_of(response.get("content"))
            media_types |= dict.fromkeys(content)
            json = next((media for media in content if is_json(media)), None)
            if json is not None:
                schemas.append(object_of(content[json]).get("schema", {}))
            elif content:
                return None, list(media_types)
            else:
                has_none = True
        if not schemas or any(each != schemas[0] for each in schemas[1:]):
            return None, list(media_types)
        return self._root(schemas[0], has_none=has_none), list(media_types)

    def _successes(self, operation: Object) -> Iterator[Object]:
        responses = object_of(operation.get("responses"))
        codes = [code for code in responses if code.startswith("2")] or [
            code for code in responses if code == "default"
        ]
        for code in codes:
            try:
                yield object_of(self._document.follow(responses[code]))
            except UnfitError:
                # What it says of its answers is lost, and it can be called all the same.
                yield {"content": {"*/*": {}}}

    def _root(self, schema: object, *, has_none: bool) -> Object | None:
        for depth in range(_MAX_DEPTH, -1, -1):
            made, size = self._loose(schema, depth)
            if size <= MAX_OUTPUT_BYTES:
                types = [each for each in list_of(made.get("type")) if has_none or each != "null"]
                return {**made, "type": types[0] if len(types) == 1 else types} if types else None
        return None

    def _loose(self, node: object, depth: int) -> _Sized:
        reference = reference_of(node)
        if reference is None:
            return self._typed(object_of(node), depth)
        key = reference, depth
        if key not in self._made:
            # A reference back to itself means anything.
            self._made[key] = _ANY
            with suppress(UnfitError):
                self._made[key] = self._typed(object_of(self._document.follow(node)), depth)
        return self._made[key]

    def _typed(self, node: Object, depth: int) -> _Sized:
        stated = node.get("type")
        if isinstance(stated, str) and stated in _SCALARS:
            return _SCALARS[stated]
        types = [each for each in list_of(stated) if isinstance(each, str) and each != "null"]
        types = [stated] if isinstance(stated, str) else types
        if "allOf" in node or "properties" in node or types == ["object"]:
            return self._record(node, depth)
        if types == ["array"]:
            items, size = self._loose(node.get("items"), depth - 1) if depth else _ANY
            return {"type": ["array", "null"], "items": items}, _SIZE + size
        if types and all(each in _SCALARS for each in types):
            return {"type": [*types, "null"]}, 2 * _SIZE
        options = [each for each in list_of(node.get("anyOf") or node.get("oneOf")) if each != {"type": "null"}]
        return self._loose(options[0], depth - 1) if len(options) == 1 and not types and depth else _ANY

    def _record(self, node: Object, depth: int) -> _Sized:
        """The fields of a record, and of all that it consists of."""
        fields: dict[str, _Sized] = {}
        for part in self._parts(node, _MAX_DEPTH):
            if part.get("type") not in (None, "object", ["object", "null"]):
                return _ANY
            if depth:
                fields |= {
                    name: self._loose(field, depth - 1)
                    for name, field in object_of(part.get("properties")).items()
                    if object_of(field).get("writeOnly") is not True
                }
        made: Object = {"type": ["object", "null"]}
        if fields:
            made["properties"] = {name: field for name, (field, _) in fields.items()}
        return made, _SIZE + sum(len(name) + 4 + size for name, (_, size) in fields.items())

    def _parts(self, node: Object, depth: int) -> Iterable[Object]:
        yield node
        for part in list_of(node.get("allOf")) if depth else ():
            try:
                yield from self._parts(object_of(self._document.follow(part)), depth - 1)
            except UnfitError:
                continue


def is_json(media_type: str) -> bool:
    """Whether a media type is JSON's (RFC 6839, 3.1)."""
    bare = media_type.partition(";")[0].strip().lower()
    return bare in {"application/json", "text/json"} or bare.endswith("+json")
