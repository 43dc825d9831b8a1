"""Texts in the place of the arrays and objects whose JSON they hold."""

import json
from typing import Any

import pytest

from tooldispatchd.catalog.jsontexts import HINT, JsonTexts
from tooldispatchd.catalog.schemas import compile_check

INTEGERS: dict[str, object] = {"type": "array", "items": {"type": "integer"}}


def record(**properties: object) -> dict[str, object]:
    return {"type": "object", "properties": properties, "required": list(properties)}


SCHEMA = record(items=INTEGERS, note={"type": "string"}, maybe={"anyOf": [INTEGERS, {"type": "null"}]})
FITTING = {"items": [1], "note": "[1]", "maybe": None}
DEEP = {"a/b": [{"items": [1]}]}


@pytest.mark.parametrize(
    ("schema", "value", "meant"),
    [
        (SCHEMA, {**FITTING, "items": "[1, 2]"}, {**FITTING, "items": [1, 2]}),
        (SCHEMA, {**FITTING, "items": " [] ", "maybe": "[3]"}, {**FITTING, "items": [], "maybe": [3]}),
        (SCHEMA, json.dumps(FITTING), FITTING),
        (SCHEMA, json.dumps({**FITTING, "items": "[1]"}), FITTING),
        (record(**{"a/b": {"type": "array", "items": record(items=INTEGERS)}}), {"a/b": ['{"items":"[1]"}']}, DEEP),
        (record(a={"type": "object", "properties": {"b": INTEGERS}}), {"a": '{"b":null}'}, {"a": {}}),
    ],
)
def test_what_a_text_holds_stands_in_its_place(schema: dict[str, object], value: object, meant: object) -> None:
    texts = JsonTexts(compile_check(schema), value)
    assert texts.are_meant
    assert texts.value == meant


@pytest.mark.parametrize(
    "value",
    [
        {**FITTING, "items": "1, 2"},
        {**FITTING, "items": '{"a":1}'},
        {**FITTING, "items": '["x"]'},
        {**FITTING, "items": "[1"},
        {**FITTING, "items": "[1e400]"},
        {**FITTING, "items": "[" * 5_000 + "]" * 5_000},
        {**FITTING, "items": "[" + "1," * 40_000 + "1]"},
        {**FITTING, "items": "[1]", "note": 5},
        {"items": "[1]"},
        "[1]",
    ],
)
def test_what_does_not_fit_is_left_as_it_was(value: Any) -> None:
    before = json.dumps(value)
    texts = JsonTexts(compile_check(SCHEMA), value)
    assert not texts.are_meant
    assert texts.put_back()
    assert json.dumps(texts.value) == before


def test_a_text_that_may_be_a_text_is_never_taken_for_what_it_holds() -> None:
    texts = JsonTexts(compile_check(record(note={"type": "string", "maxLength": 3})), {"note": "[1, 2]"})
    assert not texts.are_meant
    assert HINT not in texts.put_back()[0].message


def test_a_hint_stands_at_each_text_that_holds_what_fits_and_at_no_other() -> None:
    value = {"items": "[1]", "note": 5, "maybe": '{"a":1}'}
    told = {each.path: each.message for each in JsonTexts(compile_check(SCHEMA), value).put_back()}
    assert [path for path, message in told.items() if HINT in message] == ["/items"]
    assert sorted(told) == ["/items", "/maybe", "/note"]
