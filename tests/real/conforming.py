"""Values that conform to a JSON Schema of a tool, made with a given chance: as documents of OpenAPI have them."""

import base64
import random
import re
import warnings
from typing import Any, Final

import jsonschema_rs
from hypothesis import strategies as st
from hypothesis.errors import InvalidArgument, NonInteractiveExampleWarning

Schema = dict[str, Any]
FORMATS: Final = {
    "date": "2026-11-25",
    "date-time": "2026-11-25T12:30:00Z",
    "time": "12:30:00Z",
    "duration": "P1D",
    "email": "ada@example.org",
    "hostname": "a.example",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://a.example/b?c=d",
    "uri-reference": "/a",
    "url": "https://a.example/b",
    "uuid": "123e4567-e89b-42d3-a456-426614174000",
    "byte": "aGk=",
    "regex": "a+",
    "json-pointer": "/a",
}
# Signs that each have to be encoded somewhere.
TEXTS: Final = ("a", "a b", "ä/ö?", "x&y=z+1", "100%", "[a]", "a,b;c", "true", "12")
MAX_DEPTH: Final = 5


class NoValueError(Exception):
    """A schema of which no value is found."""


class Conforming:
    """Makes values of one schema."""

    def __init__(self, schema: Schema, seed: int) -> None:
        self._schema = schema
        self._chance = random.Random(seed)  # no secret
        self._is_valid = jsonschema_rs.validator_for(schema, offline=True, validate_formats=True).is_valid

    def value(self) -> Any:
        """Some value. Raises `NoValueError`."""
        for _ in range(50):
            made = self._made(self._schema, 0)
            if self._is_valid(made):
                return made
        raise NoValueError

    def _made(self, schema: Any, depth: int) -> Any:
        if not isinstance(schema, dict):
            return "a"
        if "$ref" in schema:
            target = self._schema["$defs"][schema["$ref"].rpartition("/")[2]]
            return self._made({**target, **{key: part for key, part in schema.items() if key != "$ref"}}, depth + 1)
        if "enum" in schema:
            return self._chance.choice(schema["enum"])
        if schema.get("examples") and self._chance.random() < 0.3:
            return schema["examples"][0]
        if schema.get("allOf"):
            parts = [self._made(part, depth) for part in schema["allOf"]]
            own = (
                self._made({key: part for key, part in schema.items() if key != "allOf"}, depth)
                if "type" in schema
                else {}
            )
            merged = {key: each for part in (own, *parts) if isinstance(part, dict) for key, each in part.items()}
            return merged or parts[0]
        if schema.get("anyOf"):
            # Whether null is admitted documents say in many ways, and validators read each otherwise.
            options = [each for each in schema["anyOf"] if each != {"type": "null"}]
            option = self._chance.choice(options or schema["anyOf"])
            base = {key: part for key, part in schema.items() if key != "anyOf"}
            return self._made({**base, **option} if isinstance(option, dict) else base, depth)
        stated = schema.get("type", "string")
        types = [each for each in stated if each != "null"] if isinstance(stated, list) else [stated]
        return self._typed(self._chance.choice(types or ["null"]), schema, depth)

    def _typed(self, kind: str, schema: Schema, depth: int) -> Any:
        match kind:
            case "object":
                return self._record(schema, depth)
            case "array":
                least, most = schema.get("minItems", 1), schema.get("maxItems", 3)
                count = self._chance.randint(least, max(least, min(most, least + 2)))
                return [self._made(schema.get("items", {"type": "string"}), depth + 1) for _ in range(count)]
            case "integer" | "number":
                return self._number(schema, is_whole=kind == "integer")
            case "boolean":
                return self._chance.random() < 0.5
            case "null":
                return None
        return self._text(schema)

    def _record(self, schema: Schema, depth: int) -> Any:
        properties, required = schema.get("properties", {}), schema.get("required", [])
        made = {name: self._made(properties.get(name, {}), depth + 1) for name in required}
        for name, part in properties.items():
            if name not in made and depth < MAX_DEPTH and self._chance.random() < (0.6 if depth < 2 else 0.3):
                made[name] = self._made(part, depth + 1)
        while len(made) < schema.get("minProperties", 0):
            extra = schema.get("additionalProperties", {"type": "string"})
            made[f"key{len(made)}"] = self._made(extra, depth + 1)
        return made

    def _number(self, schema: Any, *, is_whole: bool) -> float:
        low = float(schema.get("minimum", schema.get("exclusiveMinimum", -1)))
        high = float(schema.get("maximum", schema.get("exclusiveMaximum", max(low, 0) + 50)))
        step = float(schema.get("multipleOf", 1))
        number = self._chance.randint(int(min(low, high)) + 1, max(int(high), int(low) + 1)) // step * step
        return int(number) if is_whole else number + (0.5 if self._chance.random() < 0.3 and step == 1 else 0)

    def _text(self, schema: Schema) -> str:
        if schema.get("contentEncoding") == "base64":
            return base64.b64encode(self._chance.randbytes(self._chance.randint(1, 9))).decode()
        if "pattern" in schema:
            return self._matching(schema["pattern"])
        if schema.get("format") in FORMATS:
            return FORMATS[str(schema["format"])]
        text = self._chance.choice(TEXTS)
        least, most = int(schema.get("minLength", 1)), int(schema.get("maxLength", 200))
        return (text * (least // len(text) + 1))[: min(max(least, len(text)), most)]

    def _matching(self, pattern: str) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NonInteractiveExampleWarning)
            try:
                return str(st.from_regex(re.compile(pattern, re.ASCII), fullmatch=pattern.startswith("^")).example())
            except (re.error, InvalidArgument):
                raise NoValueError from None
