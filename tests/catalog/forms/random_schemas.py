"""Schemas as servers give them, drawn at random: of every keyword, with references, cycles and nonsense."""

from hypothesis import strategies as st

from tooldispatchd.catalog.forms.rendered import Schema

NAMES = st.sampled_from(["a", "b", "c", "filter[id]", "$top"])
SCALARS = (
    st.none() | st.booleans() | st.integers(-2, 4) | st.sampled_from([0.5, 1.0, 2.5]) | st.sampled_from(["", "a", "bb"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)

_TYPES = st.sampled_from(["object", "array", "string", "number", "integer", "boolean", "null"])
_COUNTS = st.integers(0, 3)
_LIMITS = st.integers(-2, 3) | st.sampled_from([0.5, 1.5])
_REFERENCES = st.sampled_from(["#", "#/$defs/A", "#/$defs/B", "#/properties/a", "#/$defs/no", "#anchor", "other.json"])
_PLAIN: dict[str, st.SearchStrategy[object]] = {
    "type": _TYPES | st.lists(_TYPES, min_size=1, max_size=3, unique=True),
    "enum": st.lists(VALUES, min_size=1, max_size=4),
    "const": VALUES,
    "minLength": _COUNTS,
    "maxLength": _COUNTS,
    "pattern": st.sampled_from(["^a", "b$", "."]),
    "format": st.sampled_from(["date-time", "uri", "int32", "double", "uuid"]),
    "minimum": _LIMITS,
    "maximum": _LIMITS,
    "exclusiveMinimum": _LIMITS,
    "exclusiveMaximum": _LIMITS,
    "multipleOf": st.sampled_from([1, 2, 0.5]),
    "minItems": _COUNTS,
    "maxItems": _COUNTS,
    "uniqueItems": st.booleans(),
    "minProperties": _COUNTS,
    "maxProperties": _COUNTS,
    "required": st.lists(NAMES, max_size=2, unique=True),
    "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, max_size=1), max_size=1),
    "title": st.sampled_from(["T", "Tee"]),
    "description": st.sampled_from(["D", "what it is"]),
    "default": VALUES,
    "$comment": st.just("x"),
}


def _larger(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    some = st.lists(inner, min_size=1, max_size=3)
    named = st.dictionaries(NAMES, inner, max_size=3)
    nested: dict[str, st.SearchStrategy[object]] = {
        "properties": named,
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b"]), inner, max_size=1),
        "additionalProperties": inner,
        "propertyNames": inner,
        "unevaluatedProperties": inner,
        "dependentSchemas": named,
        "items": inner,
        "prefixItems": some,
        "unevaluatedItems": inner,
        "contains": inner,
        "anyOf": some,
        "oneOf": some,
        "allOf": some,
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        "$ref": _REFERENCES,
    }
    return _drawn(nested)


def _drawn(keywords: dict[str, st.SearchStrategy[object]]) -> st.SearchStrategy[object]:
    """A few keywords, so that many values pass."""
    every = {**_PLAIN, **keywords}

    def filled(chosen: list[str]) -> st.SearchStrategy[object]:
        return st.fixed_dictionaries({key: every[key] for key in chosen})

    plain = st.lists(st.sampled_from(sorted(_PLAIN)), max_size=2, unique=True)
    if not keywords:
        return plain.flatmap(filled)
    rich = st.lists(st.sampled_from(sorted(keywords)), min_size=1, max_size=3, unique=True)
    return st.tuples(plain, rich).map(lambda both: both[0] + both[1]).flatmap(filled)


SCHEMAS: st.SearchStrategy[object] = st.recursive(st.booleans() | _drawn({}), _larger, max_leaves=8)


@st.composite
def soup(draw: st.DrawFn) -> Schema:
    """A schema of any keywords, with definitions that may refer to each other; it need not compile."""
    schema = draw(SCHEMAS.filter(lambda one: isinstance(one, dict)))
    assert isinstance(schema, dict)
    root = dict(schema)
    if draw(st.booleans()):
        root["type"] = "object"
    root["$defs"] = {"A": draw(SCHEMAS), "B": draw(SCHEMAS)}
    draft = draw(st.sampled_from([None, None, None, "draft-07", "draft-06", "draft-04"]))
    if draft is not None:
        root["$schema"] = f"http://json-schema.org/{draft}/schema#"
    return root
