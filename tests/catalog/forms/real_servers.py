"""The tools of real servers, as they were listed in November 2026: names and input schemas, without what they say."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tooldispatchd.catalog.foreignschemas import read_foreign
from tooldispatchd.catalog.forms.drafts import find
from tooldispatchd.catalog.forms.rendered import Schema
from tooldispatchd.catalog.offered import Offered

_LISTED: Final = Path(__file__).with_name("real_schemas.jsonl")


def servers() -> dict[str, list[Offered]]:
    """The tools of each server, as the daemon offers them."""
    listed = map(json.loads, _LISTED.read_text(encoding="utf-8").splitlines())
    return {each["server"]: [_offered(name, schema) for name, schema in each["tools"].items()] for each in listed}


def _offered(name: str, schema: Schema) -> Offered:
    read, _ = read_foreign(schema, is_input=True)
    return Offered(name=f"server:{name}", description="Does it.", input_schema=read.shown)


def defaults_in(schema: Schema) -> set[tuple[str, str]]:
    """Each default with the way to its property, whatever alternatives and references lie between."""
    return set(_defaults(schema, "", schema, ()))


def _defaults(node: object, at: str, root: Schema, followed: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if not isinstance(node, dict):
        return
    reference = node.get("$ref")
    if isinstance(reference, str) and reference not in followed:
        yield from _defaults(find(reference, root), at, root, (*followed, reference))
    if "default" in node:
        yield at, json.dumps(node["default"], sort_keys=True)
    for name, part in (node.get("properties") or {}).items():
        yield from _defaults(part, f"{at}/{name}", root, followed)
    for keyword in ("items", "additionalProperties"):
        yield from _defaults(node.get(keyword), f"{at}/*", root, followed)
    for keyword in ("anyOf", "oneOf", "allOf"):
        for part in node.get(keyword) or ():
            yield from _defaults(part, at, root, followed)
