import pytest

from tooldispatchd.catalog.types import (
    MAX_DEPTH,
    Field,
    ListOf,
    Named,
    Primitive,
    Product,
    Record,
    Stream,
    TypeTextError,
    Union,
    column_of,
    parse_arrow,
    parse_type,
    show,
    show_arrow,
)

INT = Primitive("int")
TEXT = Primitive("string")


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("int", INT),
        (" ( int ) ", INT),
        ("Query", Named("Query")),
        ("search.Query-2", Named("search.Query-2")),
        ("[int]", ListOf(INT)),
        ("{}", Record(())),
        ("{a: int, b?: [string]}", Record((Field("a", INT), Field("b", ListOf(TEXT), optional=True)))),
        ("{int: int, a-b: int}", Record((Field("int", INT), Field("a-b", INT)))),
        ("(int, string)", Product((INT, TEXT))),
        ("int | string | unit", Union((INT, TEXT, Primitive("unit")))),
        ("int | (string | unit)", Union((INT, TEXT, Primitive("unit")))),
        ("[int | string]", ListOf(Union((INT, TEXT)))),
        ("!int", Stream(INT)),
        ("!(int, string)", Stream(Product((INT, TEXT)))),
        ("!int | string", Union((Stream(INT), TEXT))),
        ("!(int | string)", Stream(Union((INT, TEXT)))),
        ("!!json", Stream(Stream(Primitive("json")))),
        ("{\n\ta:\r\n bool }", Record((Field("a", Primitive("bool")),))),
    ],
)
def test_a_text_means_its_type(text: str, type_: object) -> None:
    assert parse_type(text) == type_


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "column 1: expected a type, found the end"),
        ("   ", "column 4: expected a type, found the end"),
        ("int int", 'column 5: expected "|" or the end, found "int"'),
        ("int |", "column 6: expected a type, found the end"),
        ("| int", 'column 1: expected a type, found "|"'),
        ("[int", 'column 5: expected "|" or "]", found the end'),
        ("[]", 'column 2: expected a type, found "]"'),
        ("()", 'column 2: expected a type, found ")"'),
        ("(int,)", 'column 6: expected a type, found ")"'),
        ("(int", 'column 5: expected "|", "," or ")", found the end'),
        ("{", 'column 2: expected a field\'s name or "}", found the end'),
        ("{a}", 'column 3: expected ":" or "?", found "}"'),
        ("{a? int}", 'column 5: expected ":", found "int"'),
        ("{a: int b: int}", 'column 9: expected "|", "," or "}", found "b"'),
        ("{a: int,}", 'column 9: expected a field\'s name, found "}"'),
        ("{a.b: int}", 'column 2: expected a field\'s name or "}", found "a.b"'),
        ("{a: int, a: int}", 'column 10: the field "a" stands here twice'),
        ("prefix:name", 'column 7: expected "|" or the end, found ":"'),
        ("_x", 'column 1: expected a type, found "_x"'),
        ("é", 'column 1: expected a type, found "é"'),
        ("int -> int", 'column 5: expected the end, found "->"'),
        ("3", 'column 1: expected a type, found "3"'),
        ("a" * 50 + " b", 'column 52: expected "|" or the end, found "b"'),
        ("x.", 'column 2: expected "|" or the end, found "."'),
    ],
)
def test_a_wrong_text_is_told_with_its_column(text: str, message: str) -> None:
    with pytest.raises(TypeTextError) as caught:
        parse_type(text)
    assert str(caught.value) == message


@pytest.mark.parametrize("text", ["int -> string", "int->string", "(int)  ->\nstring"])
def test_an_arrow_is_two_types(text: str) -> None:
    assert parse_arrow(text) == (INT, TEXT)


def test_a_hyphen_before_an_arrow_is_no_part_of_the_name() -> None:
    assert parse_arrow("A-b->C-") == (Named("A-b"), Named("C-"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("int", 'column 4: expected "|" or "->", found the end'),
        ("-> int", 'column 1: expected a type, found "->"'),
        ("int ->", "column 7: expected a type, found the end"),
        ("int -> int -> int", 'column 12: expected the end, found "->"'),
        ("int - > int", 'column 5: expected "|" or "->", found "-"'),
    ],
)
def test_a_wrong_arrow_is_told_with_its_column(text: str, message: str) -> None:
    with pytest.raises(TypeTextError) as caught:
        parse_arrow(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("(", ")"), ("{a: ", "}"), ("!", "")])
def test_nesting_is_bounded(opening: str, closing: str) -> None:
    deepest = MAX_DEPTH - 1
    parse_type(opening * deepest + "int" + closing * deepest)
    with pytest.raises(TypeTextError, match="nested at most 64 deep"):
        parse_type(opening * 3_000)


def test_a_long_text_is_refused_before_it_is_read() -> None:
    with pytest.raises(TypeTextError, match="at most 16384 characters"):
        parse_type("int | " * 10_000 + "int")


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (Stream(Union((INT, TEXT))), "!(int | string)"),
        (Union((Stream(INT), TEXT)), "!int | string"),
        (Record((Field("a", INT), Field("b", TEXT, optional=True))), "{a: int, b?: string}"),
        (Product((INT, ListOf(Named("T")))), "(int, [T])"),
    ],
)
def test_a_type_is_shown_as_its_text(type_: Union | Stream | Record | Product, text: str) -> None:
    assert show(type_) == text
    assert show_arrow(INT, type_) == f"int -> {text}"


def test_a_name_is_found_where_it_is_a_type_not_where_it_is_a_field() -> None:
    assert column_of("{Query: int, Query?: Query} -> int", "Query") == 22
    assert column_of("int -> int", "Query") == 1
