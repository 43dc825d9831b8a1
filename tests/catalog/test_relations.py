from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.catalog.random_types import STREAMED, declarations, restated
from tooldispatchd.catalog.meanings import Declared, options_of
from tooldispatchd.catalog.relations import COMPATIBLE, MADE, SAME
from tooldispatchd.catalog.types import (
    JSON,
    Field,
    ListOf,
    Named,
    Primitive,
    Product,
    Record,
    Stream,
    Type,
    TypeNameError,
    Union,
    parse_type,
    parts,
)

DECLARED = {
    "Int": parse_type("int"),
    "List": parse_type("{head: int, tail: List} | unit"),
    "Other": parse_type("unit | {head: int, tail: {head: string, tail: Other} | unit}"),
    "Loose": parse_type("{head: json, tail: Loose} | unit"),
    "Any": parse_type("{a: Any} | Really"),
    "Really": parse_type("unit | json"),
    "Even": parse_type("{next: Odd}"),
    "Odd": parse_type("{next: Even}"),
    "Tree": parse_type("{value: int, left?: Tree}"),
}


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("int", "Int"),
        ("json", "int"),
        ("json", "!int"),
        ("{a: json}", "{a: [int]}"),
        ("!json", "!{a: int}"),
        ("(json, int)", "(string, json)"),
        ("int | json", "string"),
        ("Any", "[bool]"),
        ("{a: int} | {a: string}", "{a: json}"),
        ("{a: int, b?: string}", "{b?: string, a: int}"),
        ("List", "Loose"),
        ("Other", "Loose"),
        ("Even", "Odd"),
    ],
)
def test_types_go_together(left: str, right: str) -> None:
    assert COMPATIBLE.holds(parse_type(left), parse_type(right), DECLARED)
    assert COMPATIBLE.difference(parse_type(left), parse_type(right), DECLARED) is None


@pytest.mark.parametrize(
    ("left", "right", "where"),
    [
        ("int", "string", "int is not string"),
        ("Int", "[Int]", "int is not [Int]"),
        ("!int", "int", "!int is not int"),
        ("!int", "!string", "messages: int is not string"),
        ("(!int, !Int)", "(!int, !string)", "item 2: messages: int is not string"),
        ("(int, int)", "(int, int, int)", "(int, int) is not (int, int, int)"),
        ("{limit: int}", "{limit: string}", "field limit: int is not string"),
        ("{a: [{b: int}]}", "{a: [{b: bool}]}", "field a: items: field b: int is not bool"),
        ("{a: int}", "{a: int, b: string}", "field b: there is none in {a: int}"),
        ("{a: int, b: int}", "{b: int}", "field a: there is none in {b: int}"),
        ("{a?: int}", "{a: int}", "field a: optional is not required"),
        ("{a: int}", "{a?: int}", "field a: required is not optional"),
        ("int | unit", "int", "int | unit is not int"),
        ("int | unit", "int | string", "unit is not string"),
        ("{a: int} | unit", "unit | {a: string}", "field a: int is not string"),
        ("[json]", "int", "[json] is not int"),
        ("List", "Other", "field tail: field head: int is not string"),
        ("[Other]", "[List]", "items: field tail: field head: string is not int"),
        (
            "{a:{b:{c:{d:{e:{f:{g:{h:{i:int}}}}}}}}}",
            "{a:{b:{c:{d:{e:{f:{g:{h:{i:bool}}}}}}}}}",
            "field a: field b: field c: field d: field e: field f: field g: field h: {i: int} is not {i: bool}",
        ),
    ],
)
def test_types_that_do_not_go_together_are_told_apart_at_the_first_place(left: str, right: str, where: str) -> None:
    assert not COMPATIBLE.holds(parse_type(left), parse_type(right), DECLARED)
    assert COMPATIBLE.difference(parse_type(left), parse_type(right), DECLARED) == where


@pytest.mark.parametrize(
    ("made", "wanted", "why"),
    [
        ("int", "int", None),
        ("int", "number", None),
        ("number", "int", "number is not int"),
        ("json", "{a: int}", None),
        ("{a: json}", "{a: int}", None),
        ("{a: int}", "{a: int, b?: int}", None),
        ("{a: int}", "{a: int, b: int}", "field b: there is none in {a: int}"),
        ("{b: int}", "{a: int}", "field a: there is none in {b: int}"),
        ("{a: {b: string}}", "{a: {b: int}}", "field a: field b: string is not int"),
        ("[{a: int}]", "[{a: string}]", "items: field a: int is not string"),
        ("{a: int}", "string | {a: int}", None),
        ("{a: int}", "string | {b: int}", "{a: int} is not string | {b: int}"),
        ("{value: int, left: {value: int}}", "Tree", None),
        ("{value: int, left: {value: bool}}", "Tree", "field left: field value: bool is not int"),
        ("[int]", "(int, int)", None),
        ("string", "[string]", "string is not [string]"),
    ],
)
def test_what_is_surely_not_of_a_type_is_told(made: str, wanted: str, why: str | None) -> None:
    assert MADE.difference(parse_type(made), parse_type(wanted), DECLARED) == why


def test_a_long_type_is_cut_in_the_words() -> None:
    long = Record(tuple(Field(f"field{number}", JSON) for number in range(50)))
    assert COMPATIBLE.difference(long, Primitive("int"), {}) == (
        "{field0: json, field1: json, field2: json, field3: json, field4: json, field5: … is not int"
    )


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(TypeNameError):
        COMPATIBLE.holds(Primitive("int"), Named("Missing"), {})


def test_types_with_more_pairs_than_are_looked_at_go_together_only_where_they_are_written_alike() -> None:
    lists = tuple(ListOf(Record((Field(f"field{number}", Primitive("int")),))) for number in range(400))
    assert COMPATIBLE.holds(Union(lists), Named("Lists"), {"Lists": Union(lists)})
    found = COMPATIBLE.difference(Union(lists), Union((*lists[1:], ListOf(JSON))), {})
    assert str(found).endswith(", as far as types of this size are compared")


class CountedName(str):
    """A field's name that counts how often anything looks at it."""

    __slots__ = ()
    looks: ClassVar[int] = 0

    def __hash__(self) -> int:
        CountedName.looks += 1
        return super().__hash__()

    def __format__(self, spec: str) -> str:
        CountedName.looks += 1
        return super().__format__(spec)


def test_a_type_is_looked_at_as_a_whole_some_times_however_many_options_it_is_compared_with() -> None:
    names = [CountedName(f"field{number}") for number in range(20)]
    records = [
        Record((*(Field(name, Primitive("int")) for name in names), Field(f"own{number}", JSON)))
        for number in range(150)
    ]
    CountedName.looks = 0
    left, right = Union(tuple(map(ListOf, records[1:]))), Union(tuple(map(ListOf, records[:-1])))
    assert COMPATIBLE.difference(left, right, {}) is not None
    assert CountedName.looks < 20 * (2 * 150 * 20)


class Reference:
    """What is meant, said without cleverness: types agree where nothing within 40 steps tells them apart."""

    def __init__(self, declared: Declared) -> None:
        self.declared = declared
        self.known: dict[tuple[Type, Type, int], bool] = {}

    def agree(self, left: Type, right: Type, depth: int = 40) -> bool:
        key = (left, right, depth)
        if key not in self.known:
            self.known[key] = self.options_agree(left, right, depth)
        return self.known[key]

    def options_agree(self, left: Type, right: Type, depth: int) -> bool:
        lefts, rights = options_of(left, self.declared), options_of(right, self.declared)
        if depth == 0 or JSON in lefts or JSON in rights:
            return True
        return all(any(self.fit(one, other, depth) for other in rights) for one in lefts) and all(
            any(self.fit(one, other, depth) for one in lefts) for other in rights
        )

    def fit(self, one: Type, other: Type, depth: int) -> bool:
        match one, other:
            case Primitive(), Primitive():
                return one == other
            case Record(fields), Record(others):
                types = {(field.name, field.optional): field.type for field in others}
                return {(field.name, field.optional) for field in fields} == types.keys() and all(
                    self.agree(field.type, types[field.name, field.optional], depth - 1) for field in fields
                )
            case (ListOf(), ListOf()) | (Product(), Product()) | (Stream(), Stream()):
                pairs = zip(parts(one), parts(other), strict=False)
                return len(parts(one)) == len(parts(other)) and all(self.agree(*pair, depth - 1) for pair in pairs)
            case _:
                return False


@given(st.data(), STREAMED, declarations())
def test_what_is_the_same_goes_together(data: st.DataObject, type_: Type, declared: dict[str, Type]) -> None:
    other = data.draw(restated(type_, declared))
    assert SAME.holds(type_, other, declared)
    assert COMPATIBLE.holds(type_, other, declared)
    assert COMPATIBLE.difference(type_, other, declared) is None


@given(STREAMED, STREAMED, declarations())
def test_types_go_together_as_the_definition_says(left: Type, right: Type, declared: dict[str, Type]) -> None:
    expected = Reference(declared).agree(left, right)
    assert COMPATIBLE.holds(left, right, declared) is expected
    assert COMPATIBLE.holds(right, left, declared) is expected
    assert (COMPATIBLE.difference(left, right, declared) is None) is expected


@st.composite
def changed(draw: st.DrawFn, type_: Type, declared: Declared) -> Type:
    """A type with one part of it, or behind its names, replaced by another primitive type."""
    match type_:
        case Named(name) if draw(st.booleans()):
            return draw(changed(declared[name], declared))
        case Record(fields) if fields:
            place = draw(st.integers(0, len(fields) - 1))
            field = fields[place]
            other = Field(field.name, draw(changed(field.type, declared)), field.optional)
            return Record((*fields[:place], other, *fields[place + 1 :]))
        case ListOf(item):
            return ListOf(draw(changed(item, declared)))
        case Stream(item):
            return Stream(draw(changed(item, declared)))
        case Product((first, *rest)):
            return Product((draw(changed(first, declared)), *rest))
        case _:
            return draw(st.sampled_from([Primitive("int"), Primitive("bool"), JSON]))


@given(st.data(), STREAMED, declarations())
def test_a_type_changed_at_one_place_goes_with_it_as_the_definition_says(
    data: st.DataObject, type_: Type, declared: dict[str, Type]
) -> None:
    other = data.draw(changed(type_, declared))
    expected = Reference(declared).agree(type_, other)
    assert COMPATIBLE.holds(type_, other, declared) is expected
    assert COMPATIBLE.holds(other, type_, declared) is expected
    assert (COMPATIBLE.difference(type_, other, declared) is None) is expected
    assert (COMPATIBLE.difference(other, type_, declared) is None) is expected
