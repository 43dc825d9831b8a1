"""The form of Anthropic's Messages API.

Its schemas are JSON Schema 2020-12 (platform.claude.com, "Define tools"), where the root is an object without `oneOf`,
`allOf` and `anyOf`, and a property's name matches `[a-zA-Z0-9_.-]{1,64}` (the API's own errors; only the root's names
are looked at). Some of its products refuse references, so there are none. No length of a description is published.
"""

from typing import Final

from tooldispatchd.catalog.forms.drafts import REFERENCES, is_short, reads_alike
from tooldispatchd.catalog.forms.merging import as_object, keep_names
from tooldispatchd.catalog.forms.propertynames import PROPERTY_NAMES
from tooldispatchd.catalog.forms.rendered import Notes, Rendered
from tooldispatchd.catalog.forms.rewriting import rewrite
from tooldispatchd.catalog.offered import Offered, is_object
from tooldispatchd.catalog.schemakeywords import subschemas

_NAME: Final = PROPERTY_NAMES["anthropic"]
_REFUSED: Final = frozenset({"anyOf", "oneOf", "allOf"})


def render_anthropic(tool: Offered, name: str) -> Rendered:
    """`{name, description, input_schema}`."""
    schema, notes = tool.input_schema, Notes()
    named = schema.get("properties", {})
    if (
        is_object(schema)
        and is_short(schema)
        and _REFUSED.isdisjoint(schema)
        and isinstance(named, dict)
        and all(_NAME.fullmatch(name) for name in named)
        and reads_alike(schema)
        and all(REFERENCES.isdisjoint(node) for node in subschemas(schema))
    ):
        shown = {key: value for key, value in schema.items() if key != "$schema"}
    else:
        shown = keep_names(as_object(rewrite(schema, notes), notes), _NAME, notes)
    entry: dict[str, object] = {"name": name, "description": tool.description, "input_schema": shown}
    return Rendered(entry, notes.phrases())
