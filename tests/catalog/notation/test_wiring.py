import pytest

from tests.catalog.notation.reading import table, wrong


def chain(body: str) -> object:
    """The chain of a plumb with the ports `i` and `o`."""
    return table(f"let f = plumb(i, o) {{ {body} }}", "processes", "f", "chain")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("i ; a ; o", ["a"]),
        ("i;a;b;o", ["a", "b"]),
        ("i ; a  a ; b  b ; o", ["a", "b"]),
        ("b ; o  i ; a  a ; b", ["a", "b"]),
        ("i ; a, a ; o,", ["a"]),
        ("spawn a(i, c) spawn b(c, o) let c : !int = channel", ["a", "b"]),
        ("let c : !int = channel; spawn a(i, c); c ; b ; o", ["a", "b"]),
        ("let c : !int = channel, i ; a ; c ; b ; o", ["a", "b"]),
        ("i ; lift(t) ; o", ["lift(t)"]),
        ("i ; lift(t)  lift(t) ; a ; o", ["lift(t)", "a"]),
        ("i ; t ; lift(t) ; o", ["t", "lift(t)"]),
        ("spawn a(i, c) spawn a(c, o) let c : !int = channel", ["a", "a"]),
        ("i ; Fs.a ; o", ["Fs.a"]),
    ],
)
def test_statements_that_form_one_path_are_a_chain(body: str, expected: list[str]) -> None:
    assert chain(body) == expected


def test_the_short_form_may_name_a_process_twice() -> None:
    assert table("let f = plumb { a ; a }", "processes", "f", "chain") == ["a", "a"]


def test_what_has_no_name_gets_one_in_order() -> None:
    text = "let f = plumb { map(x) ; id ; filter(y) ; project(2) ; filter(z).w ; copy ; barrier ; merge ; discard }"
    processes = table(text, "processes")
    assert isinstance(processes, dict)
    assert processes.pop("f") == {
        "kind": "plumb",
        "chain": [
            "f.map1", "f.id2", "f.filter3", "f.project4", "f.filter5", "f.map6", "f.copy7", "f.barrier8", "f.merge9",
            "f.discard10",
        ],
    }  # fmt: skip
    assert processes == {
        "f.map1": {"kind": "map", "map": "x"},
        "f.id2": {"kind": "id"},
        "f.filter3": {"kind": "filter", "filter": "y"},
        "f.project4": {"kind": "project", "project": 2},
        "f.filter5": {"kind": "filter", "filter": "z"},
        "f.map6": {"kind": "map", "map": "input.w"},
        "f.copy7": {"kind": "copy"},
        "f.barrier8": {"kind": "barrier"},
        "f.merge9": {"kind": "merge"},
        "f.discard10": {"kind": "discard"},
    }


def test_a_declared_name_is_not_taken() -> None:
    assert table("let f = plumb { map(x) } let f.map1 = id", "processes", "f", "chain") == ["f.map2"]


def test_the_name_of_what_has_none_is_bounded() -> None:
    name = "a" * 126
    assert wrong(f"let {name} = plumb {{ map(x) }}") == [
        "1:146: this gets a name of its own, and a name has at most 128 characters"
    ]


@pytest.mark.parametrize(
    ("body", "problems"),
    [
        ("i ; a ; o  a ; b ; o", ['a fork: "a" leads to "o" and "b", and a chain is linear']),
        ("i ; a ; b ; a ; o", ['a fork: "a" leads to "b" and "o", and a chain is linear']),
        ("i ; a ; b ; a", ['a loop: "b" leads back to "a", and a chain is linear']),
        ("i ; a ; a ; o", ['a loop: "a" leads back to "a", and a chain is linear']),
        ("i ; a ; i", ['a loop: "a" leads back to "i", and a chain is linear']),
        ("i ; a  b ; o", ['nothing reads what "a" gives: the path ends before "o"']),
        ("a ; o", ['the port "i" is never read']),
        ("", ['the port "i" is never read']),
        ("i ; o", ["there is no process between the ports"]),
        ("i", ['the port "i" is never read']),
        ("i ; a ; o  b", ['"b" is not on the path from "i" to "o"']),
        ("i ; a ; o  b ; c  c ; b", ['"b" is not on the path from "i" to "o"']),
        ("i ; a ; o  b ; a", ['"a" is fed by "b" too, and a chain is linear']),
        ("i ; a ; o ; b", ['"o" is where the path ends, and "b" reads it']),
        ("i ; a ; o  let c : !int = channel", ['the channel "c" is never used']),
        ("i ; a ; o  let c : !int = channel c ; b", ['the channel "c" is never written']),
        ("i ; a ; o  let c : !int = channel b ; c", ['the channel "c" is never read']),
        ("i ; a ; c  let c : !int = channel", ['the channel "c" is never read']),
        ("spawn a(i, o, i)", ["spawn a(…) takes what it reads and what it writes"]),
        ("let cha : !int = channel spawn a(i, chan)", ['no port or channel of this plumb is named "chan" [cha]']),
        ("let i : !int = channel i ; a ; o", ['"i" is a port of this plumb already']),
    ],
)
def test_statements_that_form_no_path_say_why(body: str, problems: list[str]) -> None:
    found = wrong(f"let f = plumb(i, o) {{ {body} }}")
    assert [each.partition(": ")[2] for each in found] == problems
