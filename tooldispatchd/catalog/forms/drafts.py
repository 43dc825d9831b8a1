"""How a schema is read: by which draft, where its parts stand, and what its references mean.

Everything here walks with a list of its own, for schemas come from servers; they are bounded by `compile_check`.
"""

import re
from typing import Final

from tooldispatchd.catalog.forms.rendered import Schema
from tooldispatchd.catalog.olderdrafts import named_draft
from tooldispatchd.catalog.pointers import unescape, unescape_fragment
from tooldispatchd.catalog.schemakeywords import HOLDING, held, subschemas

_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,5}")
# Words that mean something in 2020-12 and nothing, or something else, in draft 7.
_NEWER: Final = frozenset(
    (
        *("prefixItems", "dependentRequired", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems"),
        *("minContains", "maxContains"),
    )
)

MAX_READ: Final = 6_000
"""Parts of a schema that are looked at to know whether it may stand as it is: it takes some 5 ms with all checks."""

REFERENCES: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
"""Keywords that stand for another schema."""


def draft_of(schema: Schema) -> int:
    """Read the draft that a schema names, as `named_draft` does; 2020, the default, for no known one."""
    return named_draft(schema) or 2020


def is_short(schema: Schema) -> bool:
    """Whether a schema has at most `MAX_READ` parts, so that it may be looked through; no more of them are counted."""
    return parts_within(schema, MAX_READ) is not None


def parts_within(schema: Schema, most: int) -> list[Schema] | None:
    """List a schema and every schema object in it; None where there are more than `most`, before they are looked at."""
    waiting: list[object] = [schema]
    found: list[Schema] = []
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            found.append(node)
            for key in node.keys() & HOLDING.keys():
                inner = node[key]
                # Before they are taken: a list may be as long as the whole.
                if len(found) + len(waiting) + (len(inner) if isinstance(inner, dict | list) else 1) > most:
                    return None
                waiting.extend(part for _, part in held(key, inner))
    return found


def reads_alike(schema: Schema) -> bool:
    """Whether a schema means the same in 2020-12 as in its own draft, and has no resource of its own within."""
    draft = draft_of(schema)
    if draft < 7:
        return False
    for node in subschemas(schema):
        if "$id" in node and node is not schema:
            return False
        if draft < 2020 and (isinstance(node.get("items"), list) or not _NEWER.isdisjoint(node)):
            return False
    return True


def find(reference: str, base: Schema) -> object:
    """What a reference within a resource (`#`, `#/…`) means; None where it cannot be told."""
    if reference == "#":
        return base
    if not reference.startswith("#/"):
        return None
    node: object = base
    for step in unescape_fragment(reference[2:]).split("/"):
        # A resource within this one reads the references in it against itself; that is not followed.
        if node is not base and isinstance(node, dict) and "$id" in node:
            return None
        key = unescape(step)
        if isinstance(node, dict) and key in node:
            node = node[key]
        elif isinstance(node, list) and _INDEX.fullmatch(key) and int(key) < len(node):
            node = node[int(key)]
        else:
            return None
    return node
