"""The form of MCP's `tools/list`, for those who serve these tools on: JSON Schema 2020-12, so it is taken as it is."""

from typing import Final

import msgspec

from tooldispatchd.catalog.forms.rendered import Rendered
from tooldispatchd.catalog.offered import Offered
from tooldispatchd.catalog.shown import is_object

_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


def render_mcp(tool: Offered, name: str) -> Rendered:
    """`{name, title?, description, inputSchema, outputSchema?, annotations?}`, as the specification's `Tool` has it.

    MCP wants `type: object` at both roots: it is added to an input's, and another output's schema is left out.
    """
    entry: dict[str, object] = {"name": name}
    if tool.title is not None:
        entry["title"] = tool.title
    entry["description"] = tool.description
    entry["inputSchema"] = (
        tool.input_schema if is_object(tool.input_schema) else {**tool.input_schema, "type": "object"}
    )
    if tool.output_schema is not None and is_object(tool.output_schema):
        entry["outputSchema"] = tool.output_schema
    annotations = _annotations(tool.annotations)
    if annotations:
        entry["annotations"] = annotations
    return Rendered(entry)


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
