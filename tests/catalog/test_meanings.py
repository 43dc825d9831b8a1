import pytest

from tooldispatchd.catalog.meanings import (
    MAX_STREAMS,
    Declared,
    build_types,
    check_names,
    has_stream,
    is_stream,
    leads_to_itself,
    nearest_type,
    resolve,
    strip_stream,
    to_schema,
)
from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.relations import SAME
from tooldispatchd.catalog.types import JSON, Named, Primitive, Product, Stream, TypeNameError, parse_type

TREE = {"Tree": parse_type("{value: int, children: [Tree]}")}


def declare(**texts: str) -> Declared:
    return {name: parse_type(text) for name, text in texts.items()}


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("int", {"type": "integer"}),
        ("number", {"type": "number"}),
        ("string", {"type": "string"}),
        ("bool", {"type": "boolean"}),
        ("unit", {"type": "null"}),
        ("json", {}),
        ("[int]", {"type": "array", "items": {"type": "integer"}}),
        ("{}", {"type": "object", "properties": {}, "additionalProperties": False}),
        (
            "{a: int, b?: json}",
            {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {}},
                "required": ["a"],
                "additionalProperties": False,
            },
        ),
        (
            "(int, bool)",
            {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "boolean"}],
                "items": False,
                "minItems": 2,
                "maxItems": 2,
            },
        ),
        ("int | unit", {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
    ],
)
def test_a_type_means_a_schema(text: str, schema: dict[str, object]) -> None:
    assert to_schema(parse_type(text), {}) == schema


def test_a_named_record_stands_at_the_root_and_its_inner_names_in_defs() -> None:
    declared = declare(Query="{text: Text}", Text="string", Unused="int")
    assert to_schema(Named("Query"), declared) == {
        "type": "object",
        "properties": {"text": {"$ref": "#/$defs/Text"}},
        "required": ["text"],
        "additionalProperties": False,
        "$defs": {"Text": {"type": "string"}},
    }


def test_a_recursive_type_refers_to_itself() -> None:
    body = {
        "type": "object",
        "properties": {
            "value": {"type": "integer"},
            "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
        },
        "required": ["value", "children"],
        "additionalProperties": False,
    }
    assert to_schema(Named("Tree"), TREE) == {**body, "$defs": {"Tree": body}}


def test_a_name_of_a_name_is_written_out_at_the_root() -> None:
    assert to_schema(Named("A"), declare(A="B", B="int")) == {"type": "integer"}


def test_a_stream_has_no_schema() -> None:
    with pytest.raises(ValueError, match="a stream has no schema"):
        to_schema(parse_type("[!int]"), {})


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ({"A": "A"}, "a type declared as itself: A"),
        ({"A": "B", "B": "A"}, "a type declared as itself: A"),
        ({"A": "int | B", "B": "string | A"}, "a type declared as itself: A"),
        ({"A": "[B] | C", "B": "int", "C": "D | unit", "D": "C"}, "a type declared as itself: C"),
        ({"A": "[B]"}, "no such type: B"),
        ({}, "no such type: A"),
    ],
)
def test_a_name_without_a_meaning_is_refused(declared: dict[str, str], why: str) -> None:
    with pytest.raises(TypeNameError) as caught:
        check_names(Named("A"), declare(**declared))
    assert str(caught.value) == why


def test_resolving_a_name_that_leads_to_itself_ends() -> None:
    with pytest.raises(TypeNameError):
        resolve(Named("A"), declare(A="B", B="A"))


@pytest.mark.parametrize("text", ["[A]", "{a?: A}", "(A, int)", "int | [A]"])
def test_recursion_behind_a_guard_is_fine(text: str) -> None:
    declared = declare(A=text)
    check_names(Named("A"), declared)
    assert not leads_to_itself("A", declared)


def test_a_chain_of_a_thousand_names_is_followed_without_recursion() -> None:
    declared = {f"T{place}": parse_type(f"T{place + 1} | [T{place}]") for place in range(1_000)}
    declared["T1000"] = Primitive("int")
    assert len(to_schema(Named("T0"), declared)) == 2


def test_streams_are_found_behind_names() -> None:
    declared = declare(A="[B]", B="!int")
    assert has_stream(Named("A"), declared)
    assert not has_stream(Named("Tree"), TREE)


STREAMS = declare(
    Ints="!int",
    Pair="(Ints, !string)",
    Nothing="unit",
    Endless="(!int, Endless)",
    Item="int",
)


@pytest.mark.parametrize(
    ("text", "stripped"),
    [
        ("!int", "int"),
        ("!!int", "!int"),
        ("![!int]", "[!int]"),
        ("(!int, !string)", "(int, string)"),
        ("((!int, !string), !bool)", "((int, string), bool)"),
        ("!(int, string)", "(int, string)"),
        ("(!int, unit)", "(int, unit)"),
        ("unit", "unit"),
        ("Ints", "int"),
        ("Pair", "(int, string)"),
        ("(Pair, Nothing)", "((int, string), Nothing)"),
        ("!Item", "Item"),
    ],
)
def test_a_stream_is_stripped_part_by_part(text: str, stripped: str) -> None:
    assert is_stream(parse_type(text), STREAMS)
    assert strip_stream(parse_type(text), STREAMS) == parse_type(stripped)


@pytest.mark.parametrize(
    "text", ["int", "Item", "(!int, string)", "(unit, int)", "[!int]", "{a: !int}", "!int | !string", "json", "Endless"]
)
def test_another_type_is_no_stream_and_stays_as_it_is(text: str) -> None:
    assert not is_stream(parse_type(text), STREAMS)
    assert strip_stream(parse_type(text), STREAMS) == parse_type(text)


def test_a_product_of_too_many_streams_is_none() -> None:
    streams = (Stream(Primitive("int")),) * (MAX_STREAMS - 1)
    assert is_stream(Product(streams), {})
    assert not is_stream(Product((*streams, *streams)), {})


def test_products_that_double_at_each_name_are_no_streams_and_take_no_time() -> None:
    declared = {f"T{place}": parse_type(f"(T{place + 1}, T{place + 1})") for place in range(60)}
    declared["T60"] = parse_type("!int")
    assert not is_stream(Named("T0"), declared)


def test_an_unknown_name_is_refused_where_a_stream_is_looked_for() -> None:
    with pytest.raises(TypeNameError):
        is_stream(parse_type("(!int, Missing)"), {})


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("int", "int"),
        ("Int", "int"),
        ("{a: int, b?: Int}", "{b?: int, a: Int}"),
        ("int | string", "string | int"),
        ("Either", "string | int"),
        ("Either | unit", "unit | string | int"),
        ("int | int", "int"),
        ("List", "Twice"),
        ("{head: int, tail: Twice} | unit", "List"),
        ("Even", "Odd"),
    ],
)
def test_types_of_one_structure_are_the_same(left: str, right: str) -> None:
    assert SAME.holds(parse_type(left), parse_type(right), NAMES_OF_SAME)
    assert SAME.holds(parse_type(right), parse_type(left), NAMES_OF_SAME)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("int", "number"),
        ("int", "[int]"),
        ("{a: int}", "{a?: int}"),
        ("{a: int}", "{b: int}"),
        ("{a: int}", "{a: int, b: int}"),
        ("(int, string)", "(string, int)"),
        ("(int, int)", "(int, int, int)"),
        ("int | string", "int"),
        ("!int", "int"),
        ("List", "Other"),
        ("[List]", "[Other]"),
    ],
)
def test_types_of_other_structures_are_not(left: str, right: str) -> None:
    assert not SAME.holds(parse_type(left), parse_type(right), NAMES_OF_SAME)


NAMES_OF_SAME = declare(
    Int="int",
    Either="int | string",
    List="{head: int, tail: List} | unit",
    Twice="unit | {head: Int, tail: {head: int, tail: Twice} | unit}",
    Other="unit | {head: int, tail: {head: string, tail: Other} | unit}",
    Even="{next: Odd}",
    Odd="{next: Even}",
)


ITSELF = "a type cannot be itself: a list, a record or a product must stand between"
COLON = "a declared name has no colon: what stands before one is a server's prefix"


def test_types_may_name_one_another_in_any_order() -> None:
    texts = {"A": "[B]", "B": "{a?: A}", "web.C": "A"}
    declared, problems = build_types(texts)
    assert problems == []
    assert declared == {name: parse_type(text) for name, text in texts.items()}


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("A", "[int", Problem(("types", "A"), 'column 5: expected "|" or "]", found the end', value="[int")),
        ("A", "A", Problem(("types", "A"), ITSELF, value="A")),
        (
            "Query",
            "{a: int, Quer: Quer}",
            Problem(("types", "Query"), "column 16: no such type: Quer", value="{a: int, Quer: Quer}", nearest="Query"),
        ),
        ("A", "strin", Problem(("types", "A"), "column 1: no such type: strin", value="strin", nearest="string")),
        ("int", "string", Problem(("types", "int"), "a built-in type has this name")),
        ("a:b", "string", Problem(("types", "a:b"), COLON)),
    ],
)
def test_a_wrong_type_is_told(name: str, text: str, problem: Problem) -> None:
    assert build_types({name: text})[1] == [problem]


def test_a_wrong_type_means_json_to_those_that_name_it() -> None:
    declared, problems = build_types({"A": "[", "B": "[A]", "C": "Missing", "D": "D | E", "E": "D", "F": "D"})
    assert [problem.path[1] for problem in problems] == ["A", "C", "D", "E"]
    assert {name: declared[name] for name in "ACDE"} == dict.fromkeys("ACDE", JSON)
    assert declared["F"] == parse_type("D")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("any", "json"),
        ("Boolean", "bool"),
        ("float", "number"),
        ("String", "string"),
        ("str", "string"),
        ("integer", "int"),
        ("Int", "int"),
        ("Qeury", "Query"),
        ("zzz", None),
    ],
)
def test_what_other_languages_call_a_type_is_told_its_name_here(name: str, meant: str | None) -> None:
    assert nearest_type(name, ["Query"]) == meant
