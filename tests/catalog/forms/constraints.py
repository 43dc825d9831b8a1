"""What the providers publish of the tools they take, as JSON Schemas of ours; Google's schemas read back as such.

Each constant names its page. What a page leaves out and the API enforces was taken from the API's own error messages.
"""

from collections.abc import Iterator
from typing import Final

Schema = dict[str, object]

_TEXT: Final[Schema] = {"type": "string"}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}

# platform.claude.com/docs, "Define tools": name, description, input_schema; "Self-hosted sandboxes": no references, no
# combinators at the root, property names. The API's error: "Property keys should match pattern".
ANTHROPIC: Final[Schema] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,64}$"},
        "description": _TEXT,
        "input_schema": {
            "type": "object",
            "properties": {
                "type": {"const": "object"},
                "properties": {"type": "object", "propertyNames": {"pattern": "^[a-zA-Z0-9_.-]{1,64}$"}},
                "anyOf": False,
                "oneOf": False,
                "allOf": False,
            },
            "required": ["type"],
        },
    },
    "required": ["name", "description", "input_schema"],
    "additionalProperties": False,
}

# platform.openai.com/docs, "Function calling", and the API's errors: "schema must have type 'object' and not have
# 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level", "object schema missing properties".
_OPENAI_ROOT: Final[Schema] = {
    "type": "object",
    "properties": {
        "type": {"const": "object"},
        "properties": {"type": "object"},
        "anyOf": False,
        "oneOf": False,
        "allOf": False,
        "enum": False,
        "not": False,
    },
    "required": ["type", "properties"],
}
_OPENAI_NAME: Final[Schema] = {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,64}$"}
# platform.openai.com/docs/api-reference/chat; "string too long. Expected a string with maximum length 1024".
OPENAI: Final[Schema] = {
    "type": "object",
    "properties": {
        "type": {"const": "function"},
        "function": {
            "type": "object",
            "properties": {
                "name": _OPENAI_NAME,
                "description": {"type": "string", "maxLength": 1024},
                "parameters": _OPENAI_ROOT,
                "strict": {"type": "boolean"},
            },
            "required": ["name", "description", "parameters", "strict"],
            "additionalProperties": False,
        },
    },
    "required": ["type", "function"],
    "additionalProperties": False,
}
# platform.openai.com/docs/api-reference/responses
OPENAI_RESPONSES: Final[Schema] = {
    "type": "object",
    "properties": {
        "type": {"const": "function"},
        "name": _OPENAI_NAME,
        "description": _TEXT,
        "parameters": _OPENAI_ROOT,
        "strict": {"type": "boolean"},
    },
    "required": ["type", "name", "description", "parameters", "strict"],
    "additionalProperties": False,
}

# platform.openai.com/docs, "Structured outputs", "Supported schemas". The counts over a whole schema are not said here.
_STRICT_WORDS: Final[Schema] = {
    "title": _TEXT,
    "description": _TEXT,
    "enum": {"type": "array", "minItems": 1, "maxItems": 1000},
    "const": True,
}
_STRICT_LIMITS: Final[Schema] = {
    "pattern": _TEXT,
    "format": {"enum": ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"]},
    "multipleOf": {"type": "number"},
    "minimum": {"type": "number"},
    "maximum": {"type": "number"},
    "exclusiveMinimum": {"type": "number"},
    "exclusiveMaximum": {"type": "number"},
    "minItems": _COUNT,
    "maxItems": _COUNT,
}
_STRICT_TYPE: Final[Schema] = {"enum": ["string", "number", "boolean", "integer", "object", "array", "null"]}
OPENAI_STRICT: Final[Schema] = {
    "allOf": [{"$ref": "#/$defs/part"}],
    "properties": {
        "type": {"const": "object"},
        "anyOf": False,
        "$defs": {"additionalProperties": {"$ref": "#/$defs/part"}},
    },
    "required": ["type"],
    "$defs": {
        "part": {
            "type": "object",
            "properties": {
                **_STRICT_WORDS,
                **_STRICT_LIMITS,
                "type": {"anyOf": [_STRICT_TYPE, {"type": "array", "items": _STRICT_TYPE, "minItems": 1}]},
                "anyOf": {"type": "array", "items": {"$ref": "#/$defs/part"}, "minItems": 1},
                "properties": {"type": "object", "additionalProperties": {"$ref": "#/$defs/part"}},
                "required": {"type": "array", "items": _TEXT},
                "additionalProperties": {"const": False},
                "items": {"$ref": "#/$defs/part"},
                "$ref": {"type": "string", "pattern": "^#(/\\$defs/[^/]+)?$"},
                "$defs": {"type": "object"},
            },
            "additionalProperties": False,
            "anyOf": [{"required": ["type"]}, {"required": ["anyOf"]}, {"required": ["$ref"], "maxProperties": 1}],
            "if": {"properties": {"type": {"enum": ["object", ["object"], ["object", "null"]]}}, "required": ["type"]},
            "then": {"required": ["properties", "required", "additionalProperties"]},
        }
    },
}

# ai.google.dev/api/caching#Schema and cloud.google.com, "Schema": the fields and formats. The APIs' errors: "type: must
# be specified when not using one_of, any_of", "items: missing field", "enum only allowed for STRING type", "only 'enum'
# and 'date-time' are supported for STRING type", "When using any_of, it must be the only field set".
_GOOGLE_WORDS: Final[Schema] = {
    "title": _TEXT,
    "description": _TEXT,
    "nullable": {"type": "boolean"},
    "default": True,
}


def _typed(kind: str, fields: Schema, *required: str) -> Schema:
    return {
        "type": "object",
        "properties": {"type": {"const": kind}, **_GOOGLE_WORDS, **fields},
        "required": ["type", *required],
        "additionalProperties": False,
    }


_GOOGLE_PART: Final[Schema] = {"$ref": "#/$defs/part"}
_GOOGLE_NUMBERS: Final[Schema] = {"minimum": {"type": "number"}, "maximum": {"type": "number"}}
_GOOGLE_STRING: Final[Schema] = _typed(
    "STRING",
    {
        "format": {"enum": ["enum", "date-time"]},
        "enum": {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1, "uniqueItems": True},
        "minLength": _COUNT,
        "maxLength": _COUNT,
        "pattern": _TEXT,
    },
)
_GOOGLE_OBJECT: Final[Schema] = {
    **_typed(
        "OBJECT",
        {
            "properties": {"type": "object", "minProperties": 1, "additionalProperties": _GOOGLE_PART},
            "required": {"type": "array", "items": _TEXT, "minItems": 1, "uniqueItems": True},
            "minProperties": _COUNT,
            "maxProperties": _COUNT,
        },
    ),
    "dependentRequired": {"required": ["properties"]},
}
_GOOGLE_DEFS: Final[Schema] = {
    "part": {
        "anyOf": [
            _GOOGLE_STRING,
            _typed("NUMBER", {**_GOOGLE_NUMBERS, "format": {"enum": ["float", "double"]}}),
            _typed("INTEGER", {**_GOOGLE_NUMBERS, "format": {"enum": ["int32", "int64"]}}),
            _typed("BOOLEAN", {}),
            _typed("NULL", {}),
            _typed("ARRAY", {"items": _GOOGLE_PART, "minItems": _COUNT, "maxItems": _COUNT}, "items"),
            _GOOGLE_OBJECT,
            {
                "type": "object",
                "properties": {"anyOf": {"type": "array", "items": _GOOGLE_PART, "minItems": 2}},
                "required": ["anyOf"],
                "additionalProperties": False,
            },
        ]
    }
}
# cloud.google.com, "FunctionDeclaration": names, and the names of the parameters.
GOOGLE: Final[Schema] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_.-]{0,63}$"},
        "description": _TEXT,
        "parameters": {
            "allOf": [_GOOGLE_PART],
            "properties": {
                "type": {"const": "OBJECT"},
                "properties": {"propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]{0,63}$"}},
            },
            "required": ["type", "properties"],
        },
    },
    "required": ["name", "description"],
    "additionalProperties": False,
    "$defs": _GOOGLE_DEFS,
}

# modelcontextprotocol.io/specification, "schema.ts": Tool.
MCP: Final[Schema] = {
    "type": "object",
    "properties": {
        "name": _TEXT,
        "title": _TEXT,
        "description": _TEXT,
        "inputSchema": {"type": "object", "properties": {"type": {"const": "object"}}, "required": ["type"]},
        "outputSchema": {"type": "object", "properties": {"type": {"const": "object"}}, "required": ["type"]},
        "annotations": {
            "type": "object",
            "properties": {
                "title": _TEXT,
                "readOnlyHint": {"type": "boolean"},
                "destructiveHint": {"type": "boolean"},
                "idempotentHint": {"type": "boolean"},
                "openWorldHint": {"type": "boolean"},
            },
        },
    },
    "required": ["name", "inputSchema"],
    "additionalProperties": False,
}
PLAIN: Final[Schema] = {
    "type": "object",
    "properties": {"name": _TEXT, "title": _TEXT, "description": _TEXT, "input_schema": {"type": "object"}},
    "required": ["name", "description", "input_schema"],
    "additionalProperties": False,
}

ENTRIES: Final[dict[str, Schema]] = {
    "plain": PLAIN,
    "text": PLAIN,
    "anthropic": ANTHROPIC,
    "openai": OPENAI,
    "openai_responses": OPENAI_RESPONSES,
    "google": GOOGLE,
    "mcp": MCP,
}

# What the form shows in the place of any value in an array: there is no end to arrays of arrays.
_UNENDING: Final = {"STRING", "NUMBER", "BOOLEAN", "OBJECT"}


def read_back(schema: Schema) -> Schema:
    """Google's schema as JSON Schema, to see which values it admits. The stand-in for any item admits arrays too."""
    options = schema.get("anyOf")
    if isinstance(options, list):
        if {option["type"] for option in options} == _UNENDING and all(_is_bare(option) for option in options):
            return {}
        return {"anyOf": [read_back(option) for option in options]}
    kind = str(schema["type"]).lower()
    kept = {key: value for key, value in schema.items() if key not in {"type", "format", "nullable", "default"}}
    if "properties" in kept:
        kept["properties"] = {name: read_back(one) for name, one in kept["properties"].items()}  # type: ignore[attr-defined]
    if "items" in kept:
        kept["items"] = read_back(kept["items"])  # type: ignore[arg-type]
    if schema.get("nullable"):
        return {"anyOf": [{"type": kind, **kept}, {"type": "null"}]}
    return {"type": kind, **kept}


def _is_bare(option: Schema) -> bool:
    return option.keys() <= {"type", "nullable", "title", "description", "default"}


def parts(node: object) -> Iterator[object]:
    """Every value in a JSON value, itself included."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        yield part
        if isinstance(part, dict):
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)
