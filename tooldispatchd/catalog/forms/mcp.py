"""The form of MCP's `tools/list`, for those who serve these tools on: JSON Schema 2020-12, so it is taken as it is."""

from typing import Final

import msgspec

from tooldispatchd.catalog.forms.drafts import REFERENCES, is_short, subschemas
from tooldispatchd.catalog.forms.rendered import Notes, Rendered, Schema
from tooldispatchd.catalog.offered import Offered
from tooldispatchd.catalog.shown import is_object

_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


def render_mcp(tool: Offered, name: str) -> Rendered:
    """`{name, title?, description, inputSchema, outputSchema?, annotations?}`, as the specification's `Tool` has it.

    MCP wants `type: object` at both roots: it is added to an input's, and another output's schema is left out.
    """
    notes = Notes()
    entry: dict[str, object] = {"name": name}
    if tool.title is not None:
        entry["title"] = tool.title
    entry["description"] = tool.description
    entry["inputSchema"] = _as_object(tool.input_schema, notes)
    if tool.output_schema is not None and is_object(tool.output_schema):
        entry["outputSchema"] = tool.output_schema
    annotations = _annotations(tool.annotations)
    if annotations:
        entry["annotations"] = annotations
    return Rendered(entry, notes.phrases())


def _as_object(schema: Schema, notes: Notes) -> Schema:
    if is_object(schema):
        return schema
    # Where a part refers to the root, a type added there would hold for that part's values too.
    if not is_short(schema) or any(_leads_out(node) for node in subschemas(schema)):
        notes.add("any object may stand at", (), "but is not described: it refers to itself, or is long")
        return {"type": "object"}
    return {**schema, "type": "object"}


def _leads_out(node: Schema) -> bool:
    """Whether a part has a reference that may lead to the root: it does not go on into the schema."""
    return any(not str(node[key]).startswith("#/") for key in REFERENCES & node.keys())


def _annotations(said: msgspec.Raw | None) -> dict[str, object]:
    """Of what a server says about its tool, what the specification knows, where it has the right type."""
    if said is None:
        return {}
    try:
        known = msgspec.json.decode(said, type=dict[str, object])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    title = known.get("title")
    kept: dict[str, object] = {"title": title} if isinstance(title, str) else {}
    return kept | {hint: known[hint] for hint in _HINTS if isinstance(known.get(hint), bool)}
