"""What properties are shown as whose names a provider does not take."""

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.catalog.forms.constraints import ENTRIES, Schema
from tooldispatchd.catalog.forms.form import MENDING, own_names, render
from tooldispatchd.catalog.forms.propertynames import shown_properties
from tooldispatchd.catalog.offered import Offered

STRING: Schema = {"type": "string"}


def record(*names: str, **more: object) -> Schema:
    return {"type": "object", "properties": dict.fromkeys(names, STRING), **more}


def shown(form: str, schema: Schema) -> Schema:
    entry = render(form, Offered(name="t", input_schema=schema), "t").entry
    found = entry.get("input_schema") or entry["parameters"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("name", "spelt"),
    [
        ("$filter", "filter"),
        ("filter[status]", "filter_status"),
        ("@type", "type"),
        ("a.b", "a_b"),
        ("per page", "per_page"),
        ("x-id", "x_id"),
        ("7days", "_7days"),
        ("查询", "field"),
        ("", "field"),
        ("x" * 65, "x" * 64),
    ],
)
def test_a_name_is_shown_as_its_letters_and_digits(name: str, spelt: str) -> None:
    assert shown_properties(record(name, "other")) == {name: spelt}


def test_no_name_is_shown_as_a_sibling_is_called_or_shown() -> None:
    names = ("$filter", "filter", "[filter]", "filter_2", "@filter")
    assert shown_properties(record(*names)) == {"$filter": "filter_3", "[filter]": "filter_4", "@filter": "filter_5"}


def test_a_form_mends_what_it_does_not_take_and_keeps_what_it_takes() -> None:
    schema = record("a.b", "$c", "x-id", required=["$c"], additionalProperties=False)
    described = {"type": "string", "description": "$c"}
    assert shown("anthropic", schema) == {
        "type": "object",
        "properties": {"a.b": STRING, "c": described, "x-id": STRING},
        "required": ["c"],
        "additionalProperties": False,
    }
    assert list(shown("google", schema)["properties"]) == ["a_b", "c", "x_id"]  # type: ignore[call-overload]
    assert shown("google", schema)["required"] == ["c"]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "anyOf": [record("$a", required=["$a"]), record("b.c d")]},
        {"type": "object", "allOf": [record("$a"), {"$ref": "#/$defs/rest"}], "$defs": {"rest": record("b.c d")}},
        {"$ref": "#/$defs/all", "$defs": {"all": record("$a", "b.c d")}},
        {**record("$a"), "properties": {"$a": STRING, "b.c d": {"$ref": "#/properties/$a"}}},
    ],
)
@pytest.mark.parametrize("form", sorted(MENDING))
def test_names_in_alternatives_and_behind_references_are_mended_too(form: str, schema: Schema) -> None:
    assert sorted(shown(form, schema)["properties"]) == ["a", "b_c_d"]  # type: ignore[call-overload]


NAMES = st.lists(st.text(alphabet="a_$.-1 [é", max_size=6) | st.text(max_size=70), unique=True, max_size=12)


@given(NAMES)
def test_every_name_is_shown_as_one_that_is_taken_and_can_be_named_back(names: list[str]) -> None:
    back = own_names(record(*names))
    for form in sorted(MENDING) if names else ():
        properties = shown(form, record(*names))["properties"]
        assert [back.get(name, name) for name in properties] == names  # type: ignore[attr-defined]
        entry = render(form, Offered(name="t", description="", input_schema=record(*names)), "t").entry
        jsonschema.Draft202012Validator(ENTRIES[form]).validate(entry)


def test_a_thousand_names_that_look_alike_are_told_apart_in_no_time() -> None:
    names = ["$" * number + "a" for number in range(900)]
    assert len(set(shown_properties(record(*names)).values())) == 899


def test_endless_references_and_options_are_looked_at_within_bounds() -> None:
    schema: Schema = {"type": "object", "anyOf": [{"$ref": "#"}] * 2_000, "properties": {"$a": STRING}}
    assert shown_properties(schema) == {"$a": "a"}
