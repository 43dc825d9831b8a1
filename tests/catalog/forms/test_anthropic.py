from tooldispatchd.catalog.forms.anthropic import render_anthropic
from tooldispatchd.catalog.forms.rendered import Rendered, Schema
from tooldispatchd.catalog.offered import Offered


def rendered(schema: Schema) -> Rendered:
    return render_anthropic(Offered(name="p:t", title="T", description="Does it.", input_schema=schema), "p__t")


def test_a_schema_that_is_taken_is_shown_as_it_is() -> None:
    schema: Schema = {
        "type": "object",
        "properties": {"a.b": {"oneOf": [{"const": 1}, {"not": {"type": "string"}}]}},
        "patternProperties": {"^x-": {}},
        "if": {},
    }
    assert rendered({"$schema": "http://json-schema.org/draft-07/schema#", **schema}) == Rendered(
        {"name": "p__t", "description": "Does it.", "input_schema": schema}
    )


def test_an_empty_schema_is_an_object() -> None:
    assert rendered({}).entry["input_schema"] == {"type": "object", "properties": {}}


def test_a_property_whose_name_is_refused_is_left_out_of_an_object_that_is_open_then() -> None:
    schema: Schema = {
        "type": "object",
        "properties": {"filter[id]": {"type": "string"}, "sort": {"type": "string"}},
        "required": ["filter[id]"],
        "additionalProperties": False,
    }
    answer = rendered(schema)
    assert answer.entry["input_schema"] == {"type": "object", "properties": {"sort": {"type": "string"}}}
    assert answer.notes == ("the property /properties/filter[id] is left out: the form does not take its name",)
