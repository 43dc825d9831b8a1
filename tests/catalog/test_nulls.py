import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.catalog.nulls import MAX_WORK, drop_nulls
from tooldispatchd.catalog.schemas import compile_check

TEXT: dict[str, object] = {"type": "string"}


def record(*required: str, **properties: object) -> dict[str, object]:
    return {"type": "object", "properties": properties, "required": list(required)}


def test_a_null_of_an_optional_property_that_admits_none_is_dropped() -> None:
    value = {"city": "Bern", "days": None}
    assert drop_nulls(record("city", city=TEXT, days={"type": "integer"}), value) == [("days",)]
    assert value == {"city": "Bern"}


@pytest.mark.parametrize(
    "schema",
    [
        record("days", days=TEXT),
        record(days={"type": ["integer", "null"]}),
        record(days={"type": "null"}),
        record(days={"enum": [1, None]}),
        record(days={"const": None}),
        record(days={"anyOf": [TEXT, {"type": "null"}]}),
        record(days={"oneOf": [TEXT, {"$ref": "#/$defs/nothing"}]}) | {"$defs": {"nothing": {"type": "null"}}},
        record(days={}),
        record(days=True),
        record(days={"$ref": "#/$defs/any"}) | {"$defs": {"any": {"description": "Anything."}}},
        record(days={"$ref": "https://example.com/days"}),
        record(other=TEXT),
        {"type": "object", "additionalProperties": TEXT},
        True,
    ],
)
def test_a_null_that_is_required_admitted_or_not_declared_stays(schema: object) -> None:
    value = {"days": None}
    assert drop_nulls(schema, value) == []
    assert value == {"days": None}


@pytest.mark.parametrize(
    "schema",
    [
        TEXT,
        {"enum": ["a", "b"]},
        {"const": 1},
        {"type": ["integer", "string"]},
        {"anyOf": [TEXT, {"type": "integer"}]},
        {"allOf": [{}, TEXT]},
        {"$ref": "#/$defs/a~1b%20c"},
        {"properties": {}, "type": "object"},
        False,
    ],
)
def test_a_schema_that_admits_no_null_may_say_so_in_many_ways(schema: object) -> None:
    assert drop_nulls(record(days=schema) | {"$defs": {"a/b c": TEXT}}, {"days": None}) == [("days",)]


def test_nulls_are_found_in_objects_and_lists_and_behind_references() -> None:
    node = record("name", name=TEXT, next={"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}, size=TEXT)
    schema = record(nodes={"type": "array", "items": {"$ref": "#/$defs/node"}}) | {"$defs": {"node": node}}
    value = {"nodes": [{"name": "a", "size": None}, {"name": "b", "next": {"name": None, "size": None, "next": None}}]}
    assert drop_nulls(schema, value) == [("nodes", 0, "size"), ("nodes", 1, "next", "size")]
    assert value == {"nodes": [{"name": "a"}, {"name": "b", "next": {"name": None, "next": None}}]}


def test_among_several_kinds_of_objects_none_is_guessed() -> None:
    schema = {"anyOf": [record(a=TEXT), record(a=TEXT, b=TEXT)]}
    assert drop_nulls(schema, {"a": None}) == []


def test_a_value_that_is_null_is_no_property() -> None:
    assert drop_nulls(TEXT, None) == []
    assert drop_nulls({"type": "array", "items": TEXT}, [None]) == []


ENDLESS = record(a={"$ref": "#/$defs/x"}, b=TEXT) | {"$defs": {"x": {"$ref": "#/$defs/y"}, "y": {"$ref": "#/$defs/x"}}}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (ENDLESS, {"b": None, "a": None}),
        (ENDLESS, {"b": None, "a": {}}),
        (record(a=TEXT), {"a": None, **{f"x{place}": 1 for place in range(MAX_WORK)}}),
        (record(a={"type": "array", "items": TEXT}, b=TEXT), {"b": None, "a": [1] * MAX_WORK}),
        ({"items": record(a={"enum": [[place] for place in range(5_000)]})}, [{"a": None}] * 10_000),
        ({"items": record(*map(str, range(5_000)), a=TEXT)}, [{"a": None}] * 10_000),
        (
            {"items": record(a={"$ref": f"#/$defs/{'x' * 50_000}"}), "$defs": {"x" * 50_000: TEXT}},
            [{"a": None}] * 9_000,
        ),
        ({"items": record(a={"anyOf": [TEXT] * 5_000})}, [{"a": None}] * 10_000),
        ({"items": record(a={"allOf": [{}] * 5_000})}, [{"a": None}] * 10_000),
    ],
)
def test_the_walk_is_bounded_and_touches_nothing_where_it_does_not_come_to_an_end(
    schema: object, value: object
) -> None:
    before = repr(value)
    began = time.process_time()
    drop_nulls(schema, value)
    # Some milliseconds on an idle machine; without its bound some of these take many seconds.
    assert time.process_time() - began < 2.0
    assert repr(value) in {before, before.replace("'b': None, ", "")}


json = st.recursive(
    st.none() | st.integers() | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
schemas = st.recursive(
    st.sampled_from([TEXT, {}, {"type": "null"}, {"type": ["integer", "null"]}, {"enum": [1, None]}, {"$ref": "#"}]),
    lambda inner: (
        st.builds(
            lambda properties, required: {"type": "object", "properties": properties, "required": required},
            st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            st.lists(st.sampled_from("abc"), max_size=2, unique=True),
        )
        | st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(lambda parts: {"anyOf": parts}, st.lists(inner, min_size=1, max_size=3))
    ),
    max_leaves=6,
)


@given(schemas, json)
def test_only_nulls_that_break_the_schema_are_dropped(schema: dict[str, object], value: object) -> None:
    try:
        check = compile_check(schema)
    except ValueError:
        return
    was_valid = check.is_valid(value)
    dropped = drop_nulls(schema, value)
    # A value that is valid has no null where its schema admits none.
    assert not (was_valid and dropped)
    assert drop_nulls(schema, value) == []
