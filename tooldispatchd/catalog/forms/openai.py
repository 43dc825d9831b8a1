"""The forms of OpenAI's two APIs: chat completions nests a function, responses has it flat.

Published (platform.openai.com, "Structured outputs", "Function calling") and told by the API's errors: the root is an
object with `properties` and without `anyOf`, `oneOf`, `allOf`, `enum`, `not`; an array has `items`; the description of
a function in chat completions has at most 1,024 characters. What strict mode wants more is in `strict`.
"""

from copy import deepcopy
from typing import Final

from tooldispatchd.catalog.forms.drafts import REFERENCES, is_short, reads_alike, subschemas
from tooldispatchd.catalog.forms.merging import options_of, properties_of, schema_at, types_of
from tooldispatchd.catalog.forms.rendered import Notes, Rendered, Schema, cut_description
from tooldispatchd.catalog.forms.rewriting import rewrite
from tooldispatchd.catalog.forms.roots import as_object
from tooldispatchd.catalog.forms.strict import is_strict
from tooldispatchd.catalog.offered import Offered
from tooldispatchd.catalog.shown import is_object

MAX_DESCRIPTION: Final = 1_024

_REFUSED: Final = frozenset({"anyOf", "oneOf", "allOf", "enum", "not"})


def render_openai(tool: Offered, name: str) -> Rendered:
    """`{type, function: {name, description, parameters, strict}}`, for chat completions."""
    notes = Notes()
    description = cut_description(tool.description, MAX_DESCRIPTION, notes)
    function = _function(name, description, tool.input_schema, notes)
    return Rendered({"type": "function", "function": function}, notes.phrases())


def render_openai_responses(tool: Offered, name: str) -> Rendered:
    """`{type, name, description, parameters, strict}`, for responses."""
    notes = Notes()
    function = _function(name, tool.description, tool.input_schema, notes)
    return Rendered({"type": "function", **function}, notes.phrases())


def _function(name: str, description: str, schema: Schema, notes: Notes) -> Schema:
    """The function; `strict` is true where the schema is one of strict mode as it stands, references and all."""
    shown = {key: value for key, value in schema.items() if key != "$schema"}
    may_stand = is_short(schema) and reads_alike(schema)
    strict = may_stand and is_strict(shown)
    if not strict and not (may_stand and _fits(schema)):
        shown = _filled(as_object(rewrite(schema, notes), notes))
        strict = is_strict(shown)
    return {
        "name": name,
        "description": description,
        "parameters": _required(shown) if strict else shown,
        "strict": strict,
    }


def _required(schema: Schema) -> Schema:
    """A strict schema in which each object has `required`: the API refuses one without it, even if it is empty."""
    if all("properties" not in node or "required" in node for node in subschemas(schema)):
        return schema
    written = deepcopy(schema)
    for node in subschemas(written):
        if "properties" in node:
            node.setdefault("required", [])
    return written


def _fits(schema: Schema) -> bool:
    return (
        is_object(schema)
        and isinstance(schema.get("properties"), dict)
        and _REFUSED.isdisjoint(schema)
        and all(_is_plain(node) for node in subschemas(schema))
    )


def _is_plain(node: Schema) -> bool:
    """Whether a part has no reference, and its items where it is an array."""
    return REFERENCES.isdisjoint(node) and ("array" not in types_of(node) or isinstance(node.get("items"), dict))


def _filled(schema: Schema) -> Schema:
    """A rewritten schema in which each object has properties and each array items, if only empty ones."""
    filled = dict(schema)
    if "object" in types_of(schema) or "properties" in schema:
        filled["properties"] = {name: _filled(one) for name, one in properties_of(schema).items()}
    if "array" in types_of(schema) or "items" in schema:
        filled["items"] = _filled(schema_at(schema, "items"))
    if isinstance(schema.get("additionalProperties"), dict):
        filled["additionalProperties"] = _filled(schema_at(schema, "additionalProperties"))
    if "anyOf" in schema:
        filled["anyOf"] = [_filled(one) for one in options_of(schema)]
    return filled
