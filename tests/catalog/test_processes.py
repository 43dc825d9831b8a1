import msgspec
import pytest

from tests.catalog.test_morphisms import asked
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.morphisms import Broken, Invoke, Morphism, StageError, run_now
from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.specs import Config


def build(**tables: object) -> Catalog | list[Problem]:
    types = {"Query": "{text: string, limit?: int}", "Results": "[string]", **tables.pop("types", {})}  # type: ignore[dict-item]
    return build_catalog(msgspec.convert({**tables, "types": types}, Config))


def built(**tables: object) -> Catalog:
    catalog = build(**tables)
    assert isinstance(catalog, Catalog), catalog
    return catalog


def program(catalog: Catalog, name: str) -> Morphism:
    made = catalog.tools[name].program
    assert made is not None
    return made


def run(catalog: Catalog, name: str, value: object) -> object:
    return run_now(program(catalog, name).apply(value))


@pytest.mark.parametrize(
    ("process", "type_", "shown", "value", "result"),
    [
        ({"kind": "id"}, "int -> int", "int -> int", 1, 1),
        ({"kind": "id"}, None, "json -> json", {"a": 1}, {"a": 1}),
        ({"kind": "id", "type": "!int -> !int"}, None, "int -> int", 1, 1),
        ({"kind": "copy"}, "int -> (int, int)", "int -> (int, int)", 1, [1, 1]),
        ({"kind": "copy", "type": "!int -> (!int, !int)"}, None, "int -> (int, int)", 1, [1, 1]),
        ({"kind": "copy", "type": "!int -> !(int, int)"}, None, "int -> (int, int)", 1, [1, 1]),
        ({"kind": "copy", "type": "int -> (int, int)"}, None, "int -> (int, int)", 1, [1, 1]),
        ({"kind": "discard"}, "int -> unit", "int -> unit", 1, None),
        ({"kind": "discard", "type": "!int -> unit"}, None, "int -> unit", 1, None),
        ({"kind": "map", "map": "x + 1", "type": "!int -> !int"}, None, "int -> int", 1, 2),
        ({"kind": "map", "map": "x + 1"}, "int -> int", "int -> int", 1, 2),
        ({"kind": "map", "map": "string(x)", "type": "int -> string"}, None, "int -> string", 1, "1"),
    ],
)
def test_a_process_is_lowered_at_its_own_type_or_at_the_tool_s(
    process: dict[str, object], type_: str | None, shown: str, value: object, result: object
) -> None:
    tool = {"process": "p"} if type_ is None else {"process": "p", "type": type_}
    catalog = built(processes={"p": process}, tools={"t": tool})
    assert catalog.tools["t"].type_text == shown
    assert run(catalog, "t", value) == result


def test_the_stages_of_a_chain_take_their_types_from_the_stage_before() -> None:
    catalog = built(
        processes={
            "clean": {"kind": "map", "type": "!Query -> !Query", "map": '{"text": text + "!"}'},
            "twice": {"kind": "copy"},
            "pair": {"kind": "barrier"},
            "length": {"kind": "map", "map": "size(x[0].text) + size(x[1].text)"},
            "long": {"kind": "filter", "filter": "n > 2"},
            "all": {"kind": "plumb", "chain": ["clean", "twice", "pair", "length", "long"]},
        },
        tools={"t": {"process": "all"}},
    )
    assert catalog.processes["all"].type_text == "!Query -> !int"
    assert catalog.tools["t"].type_text == "Query -> int"
    assert run(catalog, "t", {"text": "ab"}) == 6
    with pytest.raises(StageError) as failed:
        run(catalog, "t", {"text": ""})
    assert (failed.value.stage, failed.value.position) == ("long", 5)


def test_a_message_is_looked_at_where_its_type_is_only_known_as_json() -> None:
    catalog = built(
        processes={
            "any": {"kind": "agent", "command": ["any"]},
            "search": {"kind": "agent", "type": "!Query -> !Results", "command": ["search"]},
            "all": {"kind": "plumb", "chain": ["any", "search"]},
        },
        tools={"t": {"process": "all"}},
    )
    work = program(catalog, "t").apply("x")
    assert asked(work) == Invoke("any", "x")
    with pytest.raises(StageError) as failed:
        asked(work, {"texd": "x"})
    assert (failed.value.stage, failed.value.position) == ("search", 2)
    assert isinstance(failed.value.cause, Broken)
    assert failed.value.cause.is_input
    work = program(catalog, "t").apply("x")
    asked(work)
    assert asked(work, {"text": "x"}) == Invoke("search", {"text": "x"})
    with pytest.raises(StageError) as failed:
        asked(work, ["a", 1])
    assert isinstance(failed.value.cause, Broken)
    assert not failed.value.cause.is_input


def test_messages_of_every_stream_of_a_product_are_looked_at() -> None:
    catalog = built(
        processes={
            "any": {"kind": "agent", "command": ["any"]},
            "twice": {"kind": "copy"},
            "ints": {"kind": "merge", "type": "(!int, !int) -> !int"},
            "all": {"kind": "plumb", "chain": ["any", "twice", "ints"]},
        },
        tools={"t": {"process": "all"}},
    )
    work = program(catalog, "t").apply(None)
    asked(work)
    with pytest.raises(StageError) as failed:
        asked(work, "no int")
    assert (failed.value.stage, failed.value.position) == ("ints", 3)


def test_a_tool_is_lifted_over_the_messages_of_a_chain_whether_it_is_offered_or_not() -> None:
    catalog = built(
        processes={"all": {"kind": "plumb", "chain": ["lift(up)", "lift(len)", "lift(inner)"]}, "same": {"kind": "id"}},
        tools={
            "t": {"process": "all"},
            "up": {"map": "text", "type": "Query -> string", "expose": False},
            "len": {"command": ["wc"], "type": "string -> int"},
            "inner": {"process": "same", "type": "int -> int"},
        },
    )
    assert catalog.tools["t"].type_text == "Query -> int"
    assert catalog.tools["t"].needs == ("up", "len", "inner")
    assert catalog.profiles["default"].tools == ("t", "len", "inner")
    work = program(catalog, "t").apply({"text": "abc"})
    assert asked(work) == Invoke("len", "abc", is_tool=True)
    with pytest.raises(StopIteration) as end:
        asked(work, 3)
    assert end.value.value == 3


@pytest.mark.parametrize(
    ("processes", "path", "why"),
    [
        (
            {"p": {"kind": "plumb", "chain": ["search"]}},
            ("processes", "p", "chain", 0),
            "'search' has bare types (base category); only stream morphisms can be wired into pipelines",
        ),
        (
            {"p": {"kind": "plumb", "chain": ["b"]}, "b": {"kind": "id", "type": "int -> int"}},
            ("processes", "p", "chain", 0),
            "'b' has bare types (base category); only stream morphisms can be wired into pipelines",
        ),
        (
            {"p": {"kind": "plumb", "chain": ["q"]}, "q": {"kind": "plumb", "chain": ["p"]}},
            ("processes", "q", "chain", 0),
            "a chain cannot lead back to itself: p -> q -> p",
        ),
        (
            {"p": {"kind": "plumb", "chain": ["lift(nothing)"]}},
            ("processes", "p", "chain", 0),
            "no such tool in [tools]",
        ),
        (
            {"p": {"kind": "plumb", "chain": ["lift(p)"]}},
            ("processes", "p", "chain", 0),
            "lift takes a tool, and p is a process: a chain names it as it is",
        ),
        (
            {
                "p": {"kind": "plumb", "chain": ["a", "b"]},
                "a": {"kind": "id", "type": "!int -> !int"},
                "b": {"kind": "id", "type": "!string -> !string"},
            },
            ("processes", "p", "chain", 1),
            "b takes !string, and what comes is !int: messages: int is not string",
        ),
        (
            {"p": {"kind": "plumb", "type": "!int -> !string", "chain": ["a"]}, "a": {"kind": "id"}},
            ("processes", "p", "type"),
            "the chain !int -> !int does not give !string: messages: int is not string",
        ),
        (
            {"p": {"kind": "merge", "type": "!int -> !int"}},
            ("processes", "p"),
            "merge takes several streams, (!A, !B), and not !int",
        ),
        (
            {"p": {"kind": "merge", "type": "(!int, !string) -> !int"}},
            ("processes", "p"),
            "merge takes streams of one type, and not (!int, !string)",
        ),
        (
            {"p": {"kind": "project", "project": 2, "type": "(!int, !int) -> !int"}},
            ("processes", "p", "project"),
            "there is no stream 2 in (!int, !int): they are counted from 0",
        ),
        (
            {"p": {"kind": "copy", "type": "!int -> !int"}},
            ("processes", "p", "type"),
            "copy of !int gives (!int, !int), not !int",
        ),
        (
            {"p": {"kind": "copy", "type": "int -> int"}},
            ("processes", "p", "type"),
            "copy of int gives (int, int), not int",
        ),
        (
            {"p": {"kind": "id", "type": "!int -> int"}},
            ("processes", "p", "type"),
            "!int is a stream, and the other side is none: both sides of a process are streams, or neither is",
        ),
        ({"p": {"kind": "map"}}, ("processes", "p"), 'a process of kind map needs "map"'),
        ({"p": {"kind": "id", "map": "x"}}, ("processes", "p", "map"), "a process of kind id has no map"),
        (
            {"p": {"kind": "map", "map": "x + 'a'", "type": "!int -> !int"}},
            ("processes", "p", "map"),
            "column 3: + does not take (int, string)",
        ),
    ],
)
def test_a_process_that_cannot_be_is_told_where_and_why(
    processes: dict[str, object], path: tuple[object, ...], why: str
) -> None:
    problems = build(processes=processes, tools={"search": {"inline": "id", "type": "Query -> Query"}})
    assert isinstance(problems, list)
    assert [(problem.path, problem.why) for problem in problems[:1]] == [(path, why)]


@pytest.mark.parametrize("kind", ["filter", "merge", "barrier", "project"])
def test_a_tool_cannot_be_made_of_what_is_not_total(kind: str) -> None:
    bodies: dict[str, dict[str, object]] = {
        "filter": {"filter": "true", "type": "!int -> !int"},
        "merge": {"type": "(!int, !int) -> !int"},
        "barrier": {"type": "(!int, !int) -> !(int, int)"},
        "project": {"project": 0, "type": "(!int, !int) -> !int"},
    }
    problems = build(processes={"p": {"kind": kind, **bodies[kind]}}, tools={"t": {"process": "p"}})
    assert isinstance(problems, list)
    assert [(problem.path, problem.why) for problem in problems] == [
        (("tools", "t", "process"), f"cannot lower {kind} to a tool (not total)")
    ]


@pytest.mark.parametrize(
    ("type_", "why"),
    [
        (
            "{text: int} -> Results",
            "the tool t takes {text: int}, but its process p : !Query -> !Results does not",
        ),
        ("Query -> string", "the tool t gives string, but its process p : !Query -> !Results does not"),
    ],
)
def test_a_tool_whose_type_is_not_its_process_s_is_told_both(type_: str, why: str) -> None:
    process = {"kind": "agent", "type": "!Query -> !Results", "command": ["x"]}
    problems = build(processes={"p": process}, tools={"t": {"process": "p", "type": type_}})
    assert isinstance(problems, list)
    assert [problem.why.partition(" (")[0] for problem in problems] == [why]


@pytest.mark.parametrize("kind", ["map", "filter", "project", "plumb"])
def test_a_process_without_what_its_kind_needs_is_told_once_wherever_it_is_used(kind: str) -> None:
    processes = {"p": {"kind": kind}, "all": {"kind": "plumb", "chain": ["p"]}}
    problems = build(processes=processes, tools={"t": {"process": "p"}, "u": {"process": "all"}})
    assert isinstance(problems, list)
    needed = "chain" if kind == "plumb" else kind
    assert {(problem.path, problem.why) for problem in problems} == {
        (("processes", "p"), f'a process of kind {kind} needs "{needed}"')
    }


def test_a_tool_with_schemas_is_lifted_at_the_types_that_they_say_exactly_or_at_json() -> None:
    open_record = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    closed = {**open_record, "additionalProperties": False}
    catalog = built(
        processes={
            "open": {"kind": "plumb", "chain": ["lift(o)"]},
            "closed": {"kind": "plumb", "chain": ["lift(c)"]},
            "both": {"kind": "plumb", "chain": ["lift(c)", "lift(o)"]},
        },
        tools={
            "o": {"command": ["x"], "input_schema": open_record, "output_schema": open_record},
            "c": {"command": ["x"], "input_schema": closed, "output_schema": closed},
        },
    )
    texts = {name: process.type_text for name, process in catalog.processes.items()}
    assert texts == {
        "open": "!json -> !json",
        "closed": "!{text: string} -> !{text: string}",
        "both": "!{text: string} -> !json",
    }


def test_what_is_merged_is_looked_at_where_it_only_may_be_of_the_type() -> None:
    catalog = built(
        processes={
            "m": {"kind": "merge", "type": "(!{a: int, b: int}, !{a: int, b: json}) -> !{a: int, b: int}"},
            "f": {"kind": "filter", "filter": "a == 2"},
            "all": {"kind": "plumb", "chain": ["m", "f"]},
        },
        tools={"t": {"process": "all"}},
    )
    assert run(catalog, "t", [{"a": 1, "b": 1}, {"a": 2, "b": 2}]) == {"a": 2, "b": 2}
    with pytest.raises(StageError) as failed:
        run(catalog, "t", [{"a": 1, "b": 1}, {"a": 2, "b": "text"}])
    assert failed.value.stage == "m"


def test_a_lifted_tool_that_is_made_of_a_process_keeps_its_own_types() -> None:
    catalog = built(
        processes={
            "wide": {"kind": "id", "type": "!json -> !json"},
            "all": {"kind": "plumb", "type": "!json -> !json", "chain": ["wide", "lift(f)"]},
        },
        tools={"t": {"process": "all"}, "f": {"process": "wide", "type": "int -> int"}},
    )
    assert run(catalog, "t", 1) == 1
    with pytest.raises(StageError) as failed:
        run(catalog, "t", "text")
    assert failed.value.stage == "lift(f)"


def test_a_chain_without_a_type_takes_the_one_of_where_it_stands() -> None:
    catalog = built(
        processes={
            "inner": {"kind": "plumb", "chain": ["sum"]},
            "sum": {"kind": "map", "map": "a.b + c"},
            "outer": {"kind": "plumb", "type": "!{a: {b: int}, c: int} -> !int", "chain": ["inner"]},
        },
        tools={"t": {"process": "outer"}},
    )
    assert run(catalog, "t", {"a": {"b": 1}, "c": 2}) == 3


@pytest.mark.parametrize(
    "type_", ["![!int] -> ![!int]", "!!int -> !int", "!S -> !S", "(!int, int) -> !int", "!int | !int -> !int"]
)
def test_a_stream_within_a_message_is_refused(type_: str) -> None:
    problems = build(types={"S": "{a: !int}"}, processes={"p": {"kind": "id", "type": type_}})
    assert isinstance(problems, list)
    assert [problem.path for problem in problems] == [("processes", "p", "type")]


def test_every_entry_that_is_nothing_is_told_at_once() -> None:
    problems = build(processes={"p": {"kind": "plumb", "chain": ["nope", "lift(no)", "nothing"]}})
    assert isinstance(problems, list)
    assert [problem.path[-1] for problem in problems] == [0, 1, 2]


def test_a_tool_is_not_made_of_a_tool() -> None:
    problems = build(tools={"echo": {"inline": "id"}, "t": {"process": "echo"}})
    assert isinstance(problems, list)
    assert [problem.why for problem in problems] == ["echo is a tool already, and a tool is made of a process"]


def test_what_a_chain_promises_more_than_its_last_stage_is_looked_at_as_that_stage_s() -> None:
    catalog = built(
        processes={"any": {"kind": "id"}, "all": {"kind": "plumb", "type": "!json -> !int", "chain": ["any", "any"]}},
        tools={"t": {"process": "all"}},
    )
    assert run(catalog, "t", 1) == 1
    with pytest.raises(StageError) as failed:
        run(catalog, "t", "text")
    assert (failed.value.stage, failed.value.position) == ("any", 2)
