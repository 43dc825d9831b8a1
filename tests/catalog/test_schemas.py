import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.catalog.schemas import ACCEPT, LazyCheck, SchemaError, check_of, compile_check, is_light
from tooldispatchd.catalog.violations import Violation

RECORD: dict[str, object] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 3},
        "a/b~c": {"type": "array", "items": {"type": "integer"}},
    },
    "required": ["name"],
    "additionalProperties": False,
}

NOT_FETCHED = "it refers to {0}, which is never fetched"
UNKNOWN_DRAFT = (
    "Unknown meta-schema: 'https://example.com/mine'. Custom meta-schemas must be registered in the registry before use"
)


def nested(depth: int) -> dict[str, object]:
    schema: dict[str, object] = {}
    for _ in range(depth - 1):
        schema = {"not": schema}
    return schema


def test_an_open_schema_accepts_everything_at_no_cost() -> None:
    assert compile_check({}) is ACCEPT
    assert compile_check(True) is ACCEPT
    assert ACCEPT.is_valid(object())
    assert ACCEPT.violations(object()) == []


def test_a_closed_schema_accepts_nothing() -> None:
    assert not compile_check(False).is_valid(1)


def test_violations_say_where_and_what() -> None:
    value = {"a/b~c": [1, "x"], "name": "long", "more": 1}
    assert sorted(compile_check(RECORD).violations(value), key=lambda violation: violation.path) == [
        Violation("", 'unexpected: "more"'),
        Violation("/a~1b~0c/1", '"x" is not of type "integer"'),
        Violation("/name", '"long" is longer than 3 characters'),
    ]
    assert compile_check(RECORD).violations({}) == [Violation("", '"name" is a required property')]


def test_at_most_ten_violations_are_told() -> None:
    assert len(compile_check({"items": {"type": "string"}}).violations(list(range(100)))) == 10


def test_of_a_large_value_only_the_first_violation_is_told() -> None:
    violations = compile_check({"items": {"type": "string"}}).violations(list(range(100_000)))
    assert violations == [Violation("/0", '0 is not of type "string"')]


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        ({"type": "integer"}, "x" * 500, '"' + "x" * 78 + '… is not of type "integer"'),
        ({"type": "integer"}, [1] * 50, "[" + "1," * 39 + '… is not of type "integer"'),
        ({"type": "integer"}, [1] * 5_000, 'this array is not of type "integer"'),
        ({"type": "string"}, 2**80, '1208925819614629174706176 is not of type "string"'),
        ({"additionalProperties": False, "properties": {"a": True}}, {"y" * 500: 1}, 'unexpected: "' + "y" * 78 + "…"),
        ({"unevaluatedProperties": False}, {"y": 1}, 'unexpected: "y"'),
        ({"propertyNames": {"maxLength": 1}}, {"yy": 1}, 'property name "yy" is longer than 1 character'),
        ({"enum": ["\ue000"]}, 1, '1 is not one of "\ue000"'),
    ],
)
def test_at_most_eighty_characters_of_a_value_are_quoted(
    schema: dict[str, object], value: object, message: str
) -> None:
    assert compile_check(schema).violations(value)[0].message == message


def test_a_long_message_is_cut() -> None:
    schema: dict[str, object] = {"const": "y" * 1_000}
    assert len(compile_check(schema).violations(1)[0].message) == 300


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (
            {"type": "nope"},
            'at /type: "nope" is not one of "array", "boolean", "integer", "null", "number", "object" or "string"',
        ),
        ({"properties": 3}, 'at /properties: 3 is not of type "object"'),
        (
            {"$ref": "https://example.com/s"},
            NOT_FETCHED.format("https://example.com/s"),
        ),
        (
            {"$ref": "file:///etc/hostname"},
            NOT_FETCHED.format("file:///etc/hostname"),
        ),
        ({"$ref": "#/$defs/none"}, "Pointer '/$defs/none' does not exist"),
        ({"pattern": "("}, 'at /pattern: "(" is not a "regex"'),
        ({"pattern": "(?=a)b"}, 'at /pattern: "(?=a)b" is not a "regex"'),
        ({"pattern": "((a{1000}){1000}){9}"}, 'at /pattern: "((a{1000}){1000}){9}" is not a "regex"'),
        ({"pattern": "a" * 1_025}, "a pattern has more than 1024 characters"),
        ({"patternProperties": {"a" * 1_025: True}}, "a pattern has more than 1024 characters"),
        (
            {"allOf": [{"pattern": "a" * 1_000}] * 17},
            "the schema's patterns have more than 16384 characters together",
        ),
        (
            {"$schema": "https://example.com/mine"},
            UNKNOWN_DRAFT,
        ),
        ({"const": float("nan")}, "the schema holds what JSON has not: float"),
        ({"const": b"x"}, "the schema holds what JSON has not: bytes"),
        ({"const": "\ud800"}, "the schema holds text or a number that JSON cannot say"),
        ({1: True}, "the schema has a key that is no string"),
        ([], "a schema is an object or a boolean"),
        (None, "a schema is an object or a boolean"),
        ({"description": "x" * 262_144}, "the schema is larger than 262144 bytes"),
        ({"enum": [1] * 300_000}, "the schema is larger than 262144 bytes"),
        (nested(65), "the schema is nested deeper than 64"),
        (nested(100_000), "the schema is nested deeper than 64"),
    ],
)
def test_a_schema_that_cannot_be_used_is_told_in_one_line(schema: dict[str, object], why: str) -> None:
    with pytest.raises(SchemaError) as caught:
        compile_check(schema)
    assert str(caught.value) == why


def test_a_schema_may_be_as_deep_as_the_bound() -> None:
    assert compile_check(nested(64))


@pytest.mark.parametrize("draft", ["http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-07/schema"])
def test_the_draft_is_what_the_schema_says(draft: str) -> None:
    # In draft 7 an array under `items` is a tuple; in 2020-12 it is no schema.
    check = compile_check({"$schema": draft, "items": [{"type": "string"}]})
    assert not check.is_valid([1])
    with pytest.raises(SchemaError):
        compile_check({"items": [{"type": "string"}]})


def test_a_format_is_only_said_in_every_draft() -> None:
    assert compile_check({"format": "date"}).is_valid("x")
    assert compile_check({"$schema": "http://json-schema.org/draft-07/schema#", "format": "date"}).is_valid("x")


@pytest.mark.parametrize("draft", ["draft-07/schema#", "draft-06/schema#", "draft/2020-12/schema"])
def test_an_encoding_of_content_is_only_said_in_every_draft(draft: str) -> None:
    said = {"contentEncoding": "base64", "contentMediaType": "application/json"}
    kind = "https" if "2020" in draft else "http"
    assert compile_check({"$schema": f"{kind}://json-schema.org/{draft}", **said}).is_valid("???")


def test_a_pattern_matches_in_linear_time() -> None:
    assert not compile_check({"pattern": "^(a+)+$"}).is_valid("a" * 50_000 + "!")


def test_a_reference_to_itself_ends() -> None:
    assert compile_check({"$ref": "#"}).is_valid(1)


def test_the_deepest_value_that_a_decoder_gives_is_checked() -> None:
    value = msgspec.json.decode(b"[" * 900 + b"]" * 900)
    assert compile_check({"type": "array", "items": {"$ref": "#"}}).is_valid(value)


KEYWORDS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["integer", "string", "array", "object", "number", "null"]),
        "minimum": st.integers(-2, 2),
        "maxLength": st.integers(0, 2),
        "minItems": st.integers(0, 2),
        "required": st.just(["a"]),
        "enum": st.just([1, "a", None, [1]]),
        "uniqueItems": st.booleans(),
    },
)
SCHEMAS: st.SearchStrategy[dict[str, object]] = st.recursive(
    KEYWORDS,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "items": inner,
            "properties": st.fixed_dictionaries({"a": inner}),
            "additionalProperties": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "oneOf": st.lists(inner, min_size=1, max_size=2),
        },
    ),
    max_leaves=5,
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([1.0, 0.5]) | st.sampled_from(["", "a", "abc"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
    max_leaves=6,
)


@given(SCHEMAS, VALUES)
def test_a_check_says_what_the_oracle_says(schema: dict[str, object], value: object) -> None:
    check = compile_check(schema)
    expected = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert check.is_valid(value) is expected
    assert (check.violations(value) == []) is expected


@given(st.dictionaries(st.sampled_from(["type", "$ref", "$id", "pattern", "items", "$anchor", "enum", "x"]), VALUES))
def test_any_object_is_a_check_or_a_schema_error(schema: dict[str, object]) -> None:
    try:
        compile_check(schema).is_valid(1)
    except SchemaError as error:
        assert "\n" not in str(error)  # noqa: PT017 - what else it says is the compiler's


# A union in itself, and a record that may be left out of itself.
EXPR: dict[str, object] = {
    "$ref": "#/$defs/Expr",
    "$defs": {
        "Expr": {"anyOf": [{"$ref": "#/$defs/Add"}, {"$ref": "#/$defs/Mul"}, {"type": "number"}]},
        "Add": {"type": "object", "properties": {"l": {"$ref": "#/$defs/Expr"}}, "required": ["l"]},
        "Mul": {"type": "object", "properties": {"l": {"$ref": "#/$defs/Expr"}}, "required": ["l", "exact"]},
    },
}
TREE: dict[str, object] = {
    "$ref": "#/$defs/Tree",
    "$defs": {
        "Tree": {
            "type": "object",
            "properties": {
                "l": {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}]},
                "r": {"oneOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}]},
                "size": {"type": "integer"},
                "of": EXPR["$defs"]["Expr"],  # type: ignore[index]
            },
            "additionalProperties": False,
        },
        **EXPR["$defs"],  # type: ignore[dict-item]
    },
}


def left(depth: int) -> object:
    value: object = "x"
    for _ in range(depth):
        value = {"l": value}
    return value


@pytest.mark.parametrize(
    ("value", "violation"),
    [
        ({"l": {"r": {"size": "big"}}}, Violation("/l/r/size", '"big" is not of type "integer"')),
        ({"l": None, "r": {"l": {"sise": 1}}}, Violation("/r/l", 'unexpected: "sise"')),
        ({"l": {"l": 1}}, Violation("/l/l", '1 is not of types "object", "null"')),
        ({"l": {"of": left(2)}}, Violation("/l/of/l/l", '"x" is not of types "object", "number"')),
        ([1], Violation("", '[1] is not of type "object"')),
    ],
)
def test_a_recursive_value_is_explained_down_to_what_is_wrong_in_the_alternative_that_fits(
    value: object, violation: Violation
) -> None:
    assert compile_check(TREE).violations(value) == [violation]


@pytest.mark.parametrize(("schema", "kind"), [(EXPR, "number"), (TREE, "null")])
def test_a_deep_value_is_explained_within_its_bounds(schema: dict[str, object], kind: str) -> None:
    # Explained by all alternatives of all alternatives, this never ends.
    check = compile_check(schema)
    assert check.violations(left(8)) == [Violation("/l" * 8, f'"x" is not of types "object", "{kind}"')]
    for depth in (16, 900):
        (violation,) = check.violations(left(depth))
        assert set(violation.path.split("/")) <= {"", "l"}


def test_a_long_list_of_unions_is_explained_by_its_first_wrong_item() -> None:
    check = compile_check({"items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}})
    assert check.violations([1] * 99 + ["x"]) == [Violation("/99", '"x" is not of types "integer", "null"')]


@pytest.mark.parametrize("keyword", ["allOf", "oneOf"])
def test_a_schema_that_unfolds_to_too_much_is_refused_before_it_is_compiled(keyword: str) -> None:
    named: dict[str, object] = {f"n{k}": {keyword: [{"$ref": f"#/$defs/n{k + 1}"}] * 2} for k in range(30)}
    with pytest.raises(SchemaError) as caught:
        compile_check({"$ref": "#/$defs/n0", "$defs": {**named, "n30": {"type": "integer"}}})
    assert str(caught.value) == "the schema unfolds to too much: to more than 512 subschemas at one place"


def test_a_recursion_that_asks_twice_of_the_same_child_is_explained_within_its_bounds() -> None:
    again: dict[str, object] = {"properties": {"l": {"$ref": "#/$defs/n"}}}
    schema: dict[str, object] = {"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "allOf": [again, again]}}}
    assert compile_check(schema).violations(left(12)) == [Violation("/l" * 12, '"x" is not of type "object"')]


def test_a_reference_that_leads_back_to_itself_is_explained_within_its_bounds() -> None:
    schema: dict[str, object] = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a", "type": "object"}}}
    assert compile_check(schema).violations(1)


@given(VALUES, st.sampled_from(["anyOf", "oneOf"]))
def test_a_recursive_union_is_explained_where_and_only_where_it_is_broken(value: object, keyword: str) -> None:
    options: list[object] = [
        {"type": "object", "additionalProperties": {"$ref": "#"}, "maxProperties": 1},
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["b"]},
        {"type": "array", "items": {"$ref": "#"}},
        {"type": ["number", "null"]},
    ]
    schema: dict[str, object] = {keyword: options}
    assert (compile_check(schema).violations(value) == []) is jsonschema.Draft202012Validator(schema).is_valid(value)


# --- compiled when it is asked ---


def test_a_lazy_check_says_what_the_check_of_its_schema_says() -> None:
    schema: dict[str, object] = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    schema["additionalProperties"] = False
    lazy, at_once = LazyCheck(schema), compile_check(schema)
    assert lazy.text == at_once.text
    assert [lazy.is_valid({"a": value}) for value in (1, "x")] == [True, False]
    assert (lazy.weight, lazy.patterns) == (at_once.weight, at_once.patterns)
    assert lazy.violations({"b": 1}) == at_once.violations({"b": 1})
    assert LazyCheck(schema).mend({"a": 1}) == []
    assert LazyCheck({"properties": {"a": {"type": "string"}}}).mend({"a": None}) == ["/a"]
    assert is_light(b'{"a":1}', LazyCheck(schema))


def test_a_large_schema_is_never_compiled_here() -> None:
    schema: dict[str, object] = {"type": "object", "properties": {f"field_{number}": {} for number in range(1_000)}}
    lazy = LazyCheck(schema)
    assert not is_light(b"{}", lazy)
    assert check_of(lazy.text).is_valid({})


INTEGERS = b"[" + b",".join(b"%d" % (2**63 + number) for number in range(200)) + b"]"


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "array"}, b"[" + b"1e308," * 200 + b"1]"),
        ({"type": "array"}, b"[" + b"-1.5E-0308," * 200 + b"1]"),
        ({"uniqueItems": True}, INTEGERS),
        ({"uniqueItems": True}, b"[" + b"1e-99," * 1_000 + b"1]"),
        ({"items": {"multipleOf": 0.01}}, b"[" + b"1.1," * 200 + b"1]"),
        ({"items": {"multipleOf": 1e-300}}, b"[" + b"7," * 50 + b"1]"),
        ({"items": {"maximum": 10**30}}, b"[" + b"1.5," * 1_000 + b"1]"),
        ({"pattern": "(.{1,90}a){9}z"}, b'"' + b"a" * 200 + b'"'),
        ({"allOf": [{"contentMediaType": "application/json"}] * 60}, b'"' + b"a" * 1_000 + b'"'),
    ],
)
def test_a_value_that_costs_far_more_than_its_parts_is_not_light(schema: dict[str, object], text: bytes) -> None:
    assert not is_light(text, compile_check(schema))


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "array"}, b"[" + b"12345678.25," * 1_000 + b"1]"),
        ({"type": "array"}, b'["' + b"9e1234567890abcdef" * 5_000 + b'"]'),
        ({"items": {"multipleOf": 0.01}}, b"[" + b"1.1," * 20 + b"1]"),
        ({"pattern": "^[a-zA-Z0-9_-]{1,64}$"}, b'"' + b"a" * 1_000 + b'"'),
    ],
)
def test_a_usual_value_is_light(schema: dict[str, object], text: bytes) -> None:
    assert is_light(text, compile_check(schema))


def test_a_schema_whose_patterns_unfold_to_much_is_never_compiled_here() -> None:
    lazy = LazyCheck({"properties": {f"field_{number}": {"pattern": ".{1000}"} for number in range(9)}})
    assert not is_light(b"{}", lazy)
    assert check_of(lazy.text).is_valid({})


def test_of_many_names_that_are_missing_only_the_first_is_told() -> None:
    check = compile_check({"items": {"required": [f"name_{number}" for number in range(500)]}})
    assert check.violations([{}] * 15) == [Violation("/0", '"name_0" is a required property')]
