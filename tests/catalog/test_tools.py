import pytest
from msgspec import UNSET, UnsetType

from tooldispatchd.catalog.expressions.door import FailedEvaluation
from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.rest.declared import build_apis
from tooldispatchd.catalog.specs import Config, ToolSpec
from tooldispatchd.catalog.tools import DeclaredTool, build_tools

TYPES = {"Query": "{text: string, limit?: int}", "Results": "[{title: string}]", "Queries": "!Query"}


def build(**tool: object) -> DeclaredTool:
    config = Config(types=TYPES, tools={"t": ToolSpec(**tool)})  # type: ignore[arg-type]
    tools, _processes, problems = build_tools(config, {}, {}, build_apis(config))
    assert problems == []
    return tools["t"]


def problems_of(**tool: object) -> list[Problem]:
    config = Config(types=TYPES, tools={"t": ToolSpec(**tool)})  # type: ignore[arg-type]
    tools, _processes, problems = build_tools(config, {}, {}, build_apis(config))
    assert tools == {}
    return problems


def test_a_typed_command_has_both_schemas() -> None:
    tool = build(command=("x",), type="Query -> Results", title="Search", description="Searches.")
    assert (tool.name, tool.title, tool.description, tool.type_text) == ("t", "Search", "Searches.", "Query -> Results")
    assert tool.input_schema["type"] == "object"
    assert tool.output_schema["type"] == "array"
    assert tool.input.is_valid({"text": "x"})
    assert not tool.input.is_valid({"text": 1})
    assert tool.output.is_valid([{"title": "x"}])
    assert not tool.output.is_valid([{}])
    assert tool.shown_schema == tool.input_schema
    assert not tool.wrapped
    assert tool.expression is None


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        ({"command": ("x",)}, "json -> json"),
        ({"inline": "id"}, "json -> json"),
        ({"inline": "copy"}, "json -> (json, json)"),
        ({"inline": "discard"}, "json -> unit"),
        ({"map": "input"}, "json -> json"),
        ({"command": ("x",), "input_schema": {"type": "object"}}, "schema -> json"),
        ({"command": ("x",), "output_schema": {"type": "object"}}, "json -> schema"),
        ({"inline": "id", "type": "Query -> {limit?: int, text: string}"}, "Query -> {limit?: int, text: string}"),
        ({"inline": "copy", "type": "int -> (int, int)"}, "int -> (int, int)"),
        ({"inline": "discard", "type": "Query -> unit"}, "Query -> unit"),
    ],
)
def test_what_is_not_said_is_inferred(tool: dict[str, object], text: str) -> None:
    assert build(**tool).type_text == text


def test_an_untyped_command_takes_and_gives_anything() -> None:
    tool = build(command=("x",))
    assert tool.input.is_valid([1])
    assert tool.output.is_valid(None)
    assert tool.wrapped


def test_a_tool_whose_input_is_no_record_is_shown_wrapped() -> None:
    tool = build(inline="id", type="[Query] -> [Query]")
    assert tool.wrapped
    assert tool.shown_schema == {
        "type": "object",
        "properties": {"input": {"type": "array", "items": {"$ref": "#/$defs/Query"}}},
        "required": ["input"],
        "additionalProperties": False,
        "$defs": tool.input_schema["$defs"],
    }


@pytest.mark.parametrize(
    ("tool", "missing"),
    [
        ({"command": ("x",), "type": "Query -> json"}, {}),
        ({"command": ("x",), "type": "{} -> json"}, {}),
        ({"command": ("x",), "input_schema": {"type": "object"}}, {}),
        ({"command": ("x",), "type": "unit -> json"}, None),
        ({"command": ("x",), "type": "json -> json"}, UNSET),
        ({"command": ("x",), "type": "int | unit -> json"}, UNSET),
    ],
)
def test_a_missing_input_means_an_empty_record_or_unit_or_nothing(
    tool: dict[str, object], missing: dict[str, object] | UnsetType | None
) -> None:
    assert build(**tool).missing_input == missing


def test_a_map_has_its_expression() -> None:
    expression = build(map="score * 2", type="int -> int").expression
    assert expression is not None
    assert expression.evaluate(21) == 42


def test_a_map_reads_its_fields_from_a_schema_too() -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "xs": {"type": "array", "items": {"type": "number"}}},
        "required": ["n"],
    }
    tool = build(map="n * 2 + xs.size()", input_schema=schema, output_schema={"type": "integer"})
    assert tool.expression is not None
    assert tool.expression.evaluate({"n": 1, "xs": [1], "more": 1}) == 3
    assert tool.expression.evaluate({"n": 1}) == FailedEvaluation('the input has no "xs"')
    assert [problem.path for problem in problems_of(map="m", input_schema=schema)] == [("tools", "t", "map")]


def test_any_schema_can_be_a_maps_input() -> None:
    schema = {"type": ["object"], "properties": {"n": {"$ref": "#/$defs/n"}}, "$defs": {"n": {}}}
    tool = build(map="v.n", input_schema=schema)
    assert tool.expression is not None
    assert tool.expression.evaluate({"n": 1}) == 1


TYPE = ("tools", "t", "type")


@pytest.mark.parametrize(
    ("tool", "problems"),
    [
        (
            {},
            [
                Problem(
                    ("tools", "t"),
                    "a tool has exactly one way to run, this one has none",
                    allowed="process, mcp, inline, map, command, python, rest, native, builtin",
                )
            ],
        ),
        (
            {"inline": "id", "map": "x"},
            [
                Problem(
                    ("tools", "t"),
                    "a tool has exactly one way to run, this one has inline and map",
                    allowed="process, mcp, inline, map, command, python, rest, native, builtin",
                )
            ],
        ),
        (
            {"inline": "id", "args": ("x",), "env": {"A": "b"}, "cwd": "/"},
            [
                Problem(("tools", "t", "args"), "only a tool with command has args"),
                Problem(("tools", "t", "env"), "only a tool with command or python has env"),
                Problem(("tools", "t", "cwd"), "only a tool with command or python has cwd"),
            ],
        ),
        (
            {"command": ("x",), "type": "int -> int", "input_schema": {}, "output_schema": {}},
            [
                Problem(("tools", "t", "input_schema"), "type and input_schema exclude each other"),
                Problem(("tools", "t", "output_schema"), "type and output_schema exclude each other"),
            ],
        ),
        (
            {"command": ("x",), "type": "int"},
            [Problem(TYPE, 'column 4: expected "|" or "->", found the end', value="int", allowed='"A -> B"')],
        ),
        (
            {"command": ("x",), "type": "Query -> Resluts"},
            [Problem(TYPE, "column 10: no such type: Resluts", value="Query -> Resluts", nearest="Results")],
        ),
        (
            {"command": ("x",), "type": "int -> !string"},
            [
                Problem(
                    TYPE,
                    "column 8: a tool gives one message at a time, and !string is or holds a stream",
                    value="int -> !string",
                    allowed="the type without !",
                )
            ],
        ),
        (
            {"command": ("x",), "type": "Queries -> int"},
            [
                Problem(
                    TYPE,
                    "column 1: a tool takes one message at a time, and Queries is or holds a stream",
                    value="Queries -> int",
                    allowed="the type without !",
                )
            ],
        ),
        (
            {"inline": "id", "type": "int -> string"},
            [Problem(TYPE, "id of int gives int, not string", value="int -> string", allowed='"int -> int"')],
        ),
        (
            {"inline": "copy", "type": "int -> (int, string)"},
            [
                Problem(
                    TYPE,
                    "copy of int gives (int, int), not (int, string)",
                    value="int -> (int, string)",
                    allowed='"int -> (int, int)"',
                )
            ],
        ),
        (
            {"inline": "discard", "type": "Query -> Query"},
            [
                Problem(
                    TYPE, "discard of Query gives unit, not Query", value="Query -> Query", allowed='"Query -> unit"'
                )
            ],
        ),
        (
            {"command": ("x",), "input_schema": {"type": 3}, "output_schema": {"$ref": "#/none"}},
            [
                Problem(
                    ("tools", "t", "input_schema"),
                    'cannot use this schema: at /type: 3 is not one of "array", "boolean", "integer", "null", "number",'
                    ' "object" or "string"',
                ),
                Problem(("tools", "t", "output_schema"), "cannot use this schema: Pointer '/none' does not exist"),
            ],
        ),
        (
            {"map": "score * 2", "type": "number -> number"},
            [
                Problem(
                    ("tools", "t", "map"),
                    "column 7: * does not take (number, int);"
                    " int and number do not mix: write 2.0 for 2, or double(x) for x",
                    value="score * 2",
                )
            ],
        ),
        (
            {"map": "score", "type": "string -> int"},
            [
                Problem(
                    ("tools", "t", "map"),
                    "column 1: the expression makes string, but the tool's output is int",
                    value="score",
                )
            ],
        ),
    ],
)
def test_a_wrong_tool_is_told(tool: dict[str, object], problems: list[Problem]) -> None:
    assert problems_of(**tool) == problems


def test_a_type_that_is_too_deep_as_a_schema_is_told() -> None:
    text = "{a: " * 40 + "int" + "}" * 40
    (problem,) = problems_of(command=("x",), type=f"{text} -> int")
    assert problem.path == TYPE
    assert problem.why.endswith("the schema is nested deeper than 64")


def test_all_problems_are_told_at_once_and_right_tools_are_built() -> None:
    config = Config(
        types={"A": "[", "B": "[A]"},
        tools={
            "good": ToolSpec(inline="id"),
            "a b": ToolSpec(inline="id"),
            "bad": ToolSpec(type="B -> C"),
            "named": ToolSpec(type="B -> B", inline="id"),
        },
    )
    tools, _processes, problems = build_tools(config, {}, {}, build_apis(config))
    assert list(tools) == ["good", "named"]
    assert [problem.path for problem in problems] == [
        ("types", "A"),
        ("tools", "a b"),
        ("tools", "bad"),
        ("tools", "bad", "type"),
    ]
