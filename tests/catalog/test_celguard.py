from cel_expr_python import cel

from tooldispatchd.catalog.celcost import Prices
from tooldispatchd.catalog.celguard import FailedEvaluation, Guard, Look
from tooldispatchd.catalog.celtree import read_tree
from tooldispatchd.catalog.celtypes import signature
from tooldispatchd.catalog.types import Field, OpenRecord, Primitive, Record, Type, parse_type


def guard(source: str, fields: dict[str, str]) -> Guard:
    types: dict[str, Type] = {name: parse_type(text) for name, text in fields.items()}
    variables = {name: cel.Type(signature(type_, {})) for name, type_ in types.items()}
    root = read_tree(cel.NewEnv(variables=variables).compile(source).serialize()).root
    return Guard(root, fields=types, whole=(), declared={}, prices=Prices())


def whole(source: str, type_: Type) -> Look | None:
    root = read_tree(cel.NewEnv(variables={"input": cel.Type(signature(type_, {}))}).compile(source).serialize()).root
    return Guard(root, fields={}, whole=("input",), declared={}, prices=Prices()).look_at_whole(type_)


def test_numbers_alone_need_no_look() -> None:
    assert guard("a + b", {"a": "int", "b": "int"}).look_at_fields() is None
    assert guard("a == null", {"a": "int | unit"}).look_at_fields() is None
    assert whole("input * 2", parse_type("int")) is None
    assert whole("has(input.a)", parse_type("{a: int, b?: bool}")) is None


def test_a_record_that_may_have_more_is_looked_at() -> None:
    closed = Record((Field("a", Primitive("int")),))
    look = whole("has(input.a)", OpenRecord(closed.fields))
    assert look is not None
    assert look({"a": 1}) is None
    refused = look({"a": 1, "b": [1] * 10_000})
    assert refused == FailedEvaluation(
        "the input has more than 4096 values, the most that an expression takes", limit="expression"
    )


def test_a_field_that_is_missing_is_not_looked_at() -> None:
    look = guard("s + '!'", {"s": "string"}).look_at_fields()
    assert look is not None
    assert look({}) is None
    assert look({"s": "x"}) is None


def test_a_short_text_with_a_null_character_is_refused_too() -> None:
    look = whole("input + '!'", parse_type("string"))
    assert look is not None
    assert look("x\0") == FailedEvaluation("the input holds a text with a null character", invalid_input=True)
