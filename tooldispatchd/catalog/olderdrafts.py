"""Schemas of older drafts, and keywords in the wrong place, written as 2020-12 has them; one schema at a time."""

import re
from typing import Final

Schema = dict[str, object]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_DRAFT: Final = re.compile(r"json-schema\.org/(?:draft-0([3467])|draft/(2019-09|2020-12))/(?:hyper-)?schema#?")
# Keywords that say nothing in older drafts.
_SINCE_2020: Final = ("prefixItems", "$dynamicRef", "$dynamicAnchor")
_SINCE_2019: Final = (
    *("dependentSchemas", "dependentRequired", "unevaluatedProperties", "unevaluatedItems"),
    *("minContains", "maxContains", "$anchor", "$recursiveRef"),
)
_BESIDE_REFERENCE: Final = frozenset(("$ref", "$defs", "definitions", "title", "description", "default", "examples"))


def named_draft(schema: Schema) -> int:
    """Read the draft that `$schema` names: 3 to 7, 2019 or 2020; 0 for no known one."""
    named = schema.get("$schema")
    found = _DRAFT.search(named) if isinstance(named, str) else None
    return int(found[1] or found[2][:4]) if found is not None else 0


def modernize(node: Schema, draft: int) -> None:
    """Write a schema as 2020-12 does, in place; what its draft does not know is left out."""
    if 0 < draft < 8 and isinstance(node.get("$ref"), str):
        for keyword in node.keys() - _BESIDE_REFERENCE:
            del node[keyword]
    if 0 < draft < 2020:
        for keyword in (*_SINCE_2020, *(_SINCE_2019 if draft < 8 else ())):
            node.pop(keyword, None)
    for keyword in ("$schema", "$vocabulary", "$recursiveAnchor"):
        node.pop(keyword, None)
    if node.pop("$recursiveRef", None) is not None:
        node.setdefault("$ref", "#")
    _take_identifier(node, draft)
    _take_tuple(node)
    _take_dependencies(node)
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if node.get(exclusive) is False:
            del node[exclusive]
        elif node.get(exclusive) is True and node.get(bound) is not None:
            node[exclusive] = node.pop(bound)
    if node.get("nullable") is True:
        _take_nullable(node)
    _take_required(node)


def _take_nullable(node: Schema) -> None:
    """Admit null as OpenAPI 3.0 does, also where a reference, several schemas or values say what else there may be."""
    if isinstance(node.get("type"), str):
        node["type"] = [node["type"], "null"]
    for keyword in ("enum", "anyOf", "oneOf"):
        parts, null = node.get(keyword), None if keyword == "enum" else {"type": "null"}
        if isinstance(parts, list) and parts and null not in parts:
            node[keyword] = [*parts, null]
    held = {keyword: node.pop(keyword) for keyword in ("$ref", "allOf") if keyword in node and "anyOf" not in node}
    if held:
        node["anyOf"] = [held, {"type": "null"}]


def _take_identifier(node: Schema, draft: int) -> None:
    identifier = node.pop("id") if draft == 4 and isinstance(node.get("id"), str) else node.get("$id")
    if isinstance(identifier, str) and (draft == 4 or identifier.startswith("#")):
        url, _, anchor = identifier.partition("#")
        node.pop("$id", None)
        node |= ({"$id": url} if url else {}) | ({"$anchor": anchor} if anchor else {})


def _take_tuple(node: Schema) -> None:
    items, others = node.get("items"), node.pop("additionalItems", None)
    if isinstance(items, list):
        del node["items"]
        if items:
            node.setdefault("prefixItems", items)
            if others is not None:
                node["items"] = others


def _take_dependencies(node: Schema) -> None:
    dependencies = node.pop("dependencies", None)
    for name, part in dependencies.items() if isinstance(dependencies, dict) else ():
        keyword = "dependentSchemas" if isinstance(part, dict | bool) else "dependentRequired"
        held = node.setdefault(keyword, {})
        if isinstance(held, dict):
            held.setdefault(name, part)


def _take_required(node: Schema) -> None:
    """Take out of `properties` what belongs beside it: `required` of the object, and of a property alone."""
    properties = node.get("properties")
    while isinstance(properties, dict) and properties.get("type") == "object" and "properties" in properties:
        # A whole schema, or one in one.
        del node["properties"]
        node |= properties
        properties = node.get("properties")
    if not isinstance(properties, dict):
        return
    found: list[object] = []
    if isinstance(properties.get("required"), list):
        found += properties.pop("required")
    for name, part in properties.items():
        flag = part.get("required") if isinstance(part, dict) else None
        if isinstance(flag, bool) or flag in ("true", "false"):
            del part["required"]
            found += [name] if flag in (True, "true") else []
    if found:
        said = node.get("required")
        node["required"] = [*(said if isinstance(said, list) else []), *found]
