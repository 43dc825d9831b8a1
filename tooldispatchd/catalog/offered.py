"""A tool as it is offered to a model, before it takes the form that a model's provider reads.

Models need an object at the root of a tool's input schema, so any other is shown as `{"input": …}`.
"""

from typing import Final

import msgspec
from msgspec import Raw


class _Ui(msgspec.Struct):
    visibility: tuple[str, ...] = ("model",)


class _Meta(msgspec.Struct):
    ui: _Ui = msgspec.field(default_factory=_Ui)


_read_meta: Final = msgspec.json.Decoder(_Meta).decode


def is_for_apps(meta: Raw | None) -> bool:
    """Whether a server means a tool for its app alone, and not for a model (MCP Apps, `visibility`)."""
    try:
        return meta is not None and b'"visibility"' in bytes(meta) and "model" not in _read_meta(meta).ui.visibility
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


class Offered(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to say of one tool, whichever form it is said in.

    `name` is the canonical one (a declared name, or `prefix:tool`). `input_schema` is an object's always: another
    input stands wrapped in it as `{"input": …}`. `output_schema` is None where the tool has none; `annotations` are a
    server's own words about its tool, `icons` and `meta` (`_meta`) what it says to clients that show it.
    `hint` is a line for the system prompt, `doc` the text that `info` gives.
    `tags` are words by which it is chosen. `unenforced` are the keys that bound its program and that the machine cannot
    enforce.
    """

    name: str
    title: str | None = None
    description: str = ""
    input_schema: dict[str, object]
    output_schema: dict[str, object] | None = None
    annotations: Raw | None = None
    icons: Raw | None = None
    meta: Raw | None = None
    hint: str | None = None
    doc: str | None = None
    tags: tuple[str, ...] = ()
    unenforced: tuple[str, ...] = ()

    @property
    def says_read_only(self) -> bool:
        """Whether its annotations say that it changes nothing."""
        return annotations_in(self.annotations).get("readOnlyHint") is True

    @property
    def says_harmless(self) -> bool:
        """Whether they say that it destroys nothing; without them it may (MCP, `ToolAnnotations`)."""
        return self.says_read_only or annotations_in(self.annotations).get("destructiveHint") is False


def annotations_in(said: Raw | None) -> dict[str, object]:
    """Read what a server says about its tool; nothing where that is no object."""
    found = read_words(said)
    return found if isinstance(found, dict) else {}


def read_words(said: Raw | None) -> object:
    """Read JSON of a server that has been scanned alone; None where it cannot be read."""
    try:
        return None if said is None else msgspec.json.decode(said)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


# In these objects the keys are names, not keywords; in the others below nothing is a schema.
_MAPS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_VALUES: Final = frozenset({"const", "enum", "default", "examples"})
_HOISTED: Final = ("$schema", "$defs", "definitions")
_STAYING: Final = ("#/$defs/", "#/definitions/")


def is_object(schema: dict[str, object]) -> bool:
    """Whether every value of a schema is an object, as its root says."""
    return schema.get("type") == "object"


def show_schema(schema: dict[str, object]) -> tuple[dict[str, object], bool]:
    """The schema as it is shown, and whether it is wrapped: what takes nothing but null is shown as an empty record.

    Definitions move to the new root, where references find them; references to other places are written anew. The
    schema must be bounded (`compile_check`).
    """
    if is_object(schema):
        return schema, False
    if schema.get("type") == "null":
        return {"type": "object", "properties": {}, "additionalProperties": False}, True
    inner = dict(schema)
    # A schema with an id of its own keeps its references within itself.
    hoisted: dict[str, object] = {}
    if "$id" not in schema:
        inner = {key: _rewritten(key, part) for key, part in schema.items()}
        hoisted = {key: inner.pop(key) for key in _HOISTED if key in inner}
    shown: dict[str, object] = {
        "type": "object",
        "properties": {"input": inner},
        "required": ["input"],
        "additionalProperties": False,
    }
    return shown | hoisted, True


def _rewritten(key: str, part: object) -> object:
    """One keyword's value with its references as they must be under the new root."""
    if key == "$ref" and isinstance(part, str):
        # Those to definitions stay, and so do those that lead elsewhere.
        is_moved = (part == "#" or part.startswith("#/")) and not part.startswith(_STAYING)
        return "#/properties/input" + part[1:] if is_moved else part
    if key in _VALUES:
        return part
    if key in _MAPS and isinstance(part, dict):
        return {name: _schema(inner) for name, inner in part.items()}
    return _schema(part)


def _schema(node: object) -> object:
    if isinstance(node, dict):
        return node if "$id" in node else {key: _rewritten(key, part) for key, part in node.items()}
    if isinstance(node, list):
        return [_schema(part) for part in node]
    return node
