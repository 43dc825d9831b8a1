import pytest

from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.types import JSON, parse_type
from tooldispatchd.catalog.typetable import build_types, nearest_type

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
