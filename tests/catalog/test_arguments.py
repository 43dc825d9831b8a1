import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.catalog.arguments import (
    JSON_FEED,
    STRING,
    Each,
    Feed,
    Flag,
    Slot,
    Template,
    TemplateError,
    compile_feed,
    compile_output,
    parse_template,
    untyped_source,
    untyped_target,
)
from tooldispatchd.catalog.fromschema import outline_of
from tooldispatchd.catalog.outputs import Output
from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.specs import InputMode, OutputMode, ProcessSpec, ToolSpec
from tooldispatchd.catalog.types import Type, parse_type, show

PATH = ("tools", "weather")
DECLARED = {
    "City": parse_type("string"),
    "Query": parse_type("{city: City, days?: int}"),
    "Place": parse_type("{lat: number, lon: number}"),
    "Nothing": parse_type("unit"),
    "Tree": parse_type("{name: string, children: [Tree]}"),
    "Cities": parse_type("[City]"),
}


def spec(
    *args: str, input_mode: InputMode = "json", output_mode: OutputMode = "json", env: dict[str, str] | None = None
) -> ToolSpec:
    return ToolSpec(command=("weather",), args=args, input_mode=input_mode, output_mode=output_mode, env=env or {})


def feed_of(spec: ToolSpec, source: str) -> tuple[Feed, list[Problem]]:
    return compile_feed(spec, parse_type(source), DECLARED, PATH)


def problem_of(spec: ToolSpec, source: str) -> Problem:
    _, [problem] = feed_of(spec, source)
    return problem


def output_of(mode: OutputMode, target: str) -> tuple[Output, list[Problem]]:
    return compile_output(spec(output_mode=mode), parse_type(target), DECLARED, PATH)


# --- templates ---


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ("",)),
        ("--verbose", ("--verbose",)),
        ("${city}", (Slot("city"),)),
        ("--city=${city}", ("--city=", Slot("city"))),
        ("${lat},${lon}", (Slot("lat"), ",", Slot("lon"))),
        ("$$5", ("$5",)),
        ("$${city}", ("${city}",)),
        ("$$${city}", ("$", Slot("city"))),
        ("$HOME and $", ("$HOME and $",)),
        ("${a-b c}", (Slot("a-b c"),)),
        ("${a.b}", (Slot("a.b"),)),
        ("${files...}", (Each("files"),)),
        ("--file=${files...}", ("--file=", Each("files"))),
        ("${verbose?--verbose}", (Flag("verbose", "--verbose"),)),
        ("${n?-n=a?b}", (Flag("n", "-n=a?b"),)),
    ],
)
def test_a_template_is_text_and_fields(text: str, parts: tuple[str | Slot, ...]) -> None:
    assert parse_template(text) == Template(parts)


@pytest.mark.parametrize("text", ["${", "${city", "a ${} b", "${ci${ty}", "${...}", "${?x}", "${n...?x}"])
def test_what_begins_a_field_and_names_none_is_refused(text: str) -> None:
    with pytest.raises(TemplateError, match="begins no field"):
        parse_template(text)


@given(st.text(), st.text(st.characters(exclude_characters="{}?."), min_size=1), st.text())
def test_any_text_can_be_written_around_any_field(before: str, field: str, after: str) -> None:
    template = parse_template(f"{before.replace('$', '$$')}${{{field}}}{after.replace('$', '$$')}")
    filled = "".join(part if isinstance(part, str) else f"<{part.name}>" for part in template.parts)
    assert filled == f"{before}<{field}>{after}"


@given(st.text(st.sampled_from("${}a"), max_size=12))
def test_any_text_is_a_template_or_is_refused(text: str) -> None:
    try:
        template = parse_template(text)
    except TemplateError:
        return
    assert template.parts


# --- what goes in ---


@pytest.mark.parametrize("source", ["json", "Query", "string", "[int]"])
def test_every_input_can_be_json(source: str) -> None:
    assert feed_of(spec(), source) == (JSON_FEED, [])


@pytest.mark.parametrize("source", ["string", "City", "unit", "json", "string | unit"])
def test_text_takes_strings(source: str) -> None:
    assert feed_of(spec(input_mode="text"), source) == (Feed("text"), [])


@pytest.mark.parametrize("source", ["int", "Query", "[string]", "string | int"])
def test_text_takes_nothing_else(source: str) -> None:
    assert problem_of(spec(input_mode="text"), source) == Problem(
        (*PATH, "input_mode"), f'input_mode = "text" takes a string, and the input is {source}', value="text"
    )


def test_a_long_type_is_cut_in_a_message() -> None:
    fields = ", ".join(f"field_{number}: string" for number in range(20))
    assert len(problem_of(spec(input_mode="text"), f"{{{fields}}}").why) < 140


def test_fields_become_arguments() -> None:
    feed, problems = feed_of(spec("--days=${days}", "--", "${city}", input_mode="args"), "Query")
    assert problems == []
    assert feed == Feed(
        "args",
        templates=(Template(("--days=", Slot("days"))), Template(("--",)), Template((Slot("city"),))),
        is_record=True,
    )


@pytest.mark.parametrize("source", ["string", "City", "int", "[string]", "(int, int)", "Query | Place"])
def test_an_input_without_fields_is_one_argument(source: str) -> None:
    feed, problems = feed_of(spec("${input}", input_mode="args"), source)
    assert problems == []
    assert feed == Feed("args", templates=(Template((Slot("input"),)),), is_record=False)


def test_an_unknown_field_is_told_with_the_nearest() -> None:
    assert problem_of(spec("${city}", "in ${citty}", input_mode="args"), "Query") == Problem(
        (*PATH, "args", 1), "the input has no field citty", value="in ${citty}", nearest="city"
    )


def test_where_none_is_near_the_fields_are_told() -> None:
    assert problem_of(spec("${zzz}", input_mode="args"), "Query") == Problem(
        (*PATH, "args", 0), "the input has no field zzz", value="${zzz}", allowed='"${city}", "${days}"'
    )


OPTIONS = "{files: [string], pair: (int, int), verbose: bool, maybe?: bool, n?: int, m: int, some?: [int] | string}"


@pytest.mark.parametrize(
    "text",
    ["${files...}", "-f${files...}", "${pair...}", "${verbose?-v}", "${maybe?-m}", "${n?-n}", "${some?-s}", "${files}"],
)
def test_lists_become_arguments_and_booleans_and_what_may_be_left_out_flags(text: str) -> None:
    assert feed_of(spec(text, input_mode="args"), OPTIONS)[1] == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("${m...}", '"..." needs a list, and m is int'),
        ("${some...}", '"..." needs a list, and some is [int] | string'),
        ("${m?-m}", '"?" needs a bool or a field that may be left out, and m is int'),
        ("${files?-f}", '"?" needs a bool or a field that may be left out, and files is [string]'),
        ("${files...}${pair...}", 'an argument has one list at most, and "..." stands here more than once'),
        ("${verbose?}", '"${verbose?}" says no text that is to stand there'),
    ],
)
def test_what_cannot_be_a_list_or_a_flag_is_told(text: str, why: str) -> None:
    problem = problem_of(spec(text, input_mode="args"), OPTIONS)
    assert (problem.path, problem.why, problem.value) == ((*PATH, "args", 0), why, text)


@pytest.mark.parametrize("text", ["${fils...}", "${fils?--x}"])
def test_a_list_or_a_flag_of_an_unknown_field_is_told_with_the_nearest(text: str) -> None:
    problem = problem_of(spec(text, input_mode="args"), OPTIONS)
    assert (problem.why, problem.nearest) == ("the input has no field fils", "files")


@pytest.mark.parametrize(("source", "text"), [("[string]", "${input...}"), ("bool", "${input?--on}")])
def test_an_input_without_fields_may_be_a_list_or_a_flag(source: str, text: str) -> None:
    assert feed_of(spec(text, input_mode="args"), source)[1] == []


def test_a_record_as_a_whole_is_no_argument() -> None:
    assert problem_of(spec("${input}", input_mode="args"), "Query").why == "the input has no field input"


def test_a_field_of_what_has_none_is_told() -> None:
    assert problem_of(spec("${city}", input_mode="args"), "string") == Problem(
        (*PATH, "args", 0),
        "the input is no record and has no field city",
        value="${city}",
        allowed='"${input}"',
        nearest="input",
    )


def test_a_text_that_is_no_template_is_told() -> None:
    assert problem_of(spec("${city", "${city}", input_mode="args"), "Query") == Problem(
        (*PATH, "args", 0),
        '"${" begins no field that can be read',
        value="${city",
        allowed='"${FIELD}", "${LIST...}", "${FIELD?--text}", or "$$" for a dollar',
    )


@pytest.mark.parametrize(("source", "allowed"), [("Query", '"${city}", "${days}"'), ("string", '"${input}"')])
def test_arguments_that_use_nothing_of_the_input_are_told(source: str, allowed: str) -> None:
    assert problem_of(spec("--now", input_mode="args"), source) == Problem(
        (*PATH, "args"),
        'input_mode = "args", and no argument names a field of the input, which would be lost',
        allowed=allowed,
    )


@pytest.mark.parametrize("source", ["unit", "Nothing", "{}"])
def test_an_input_that_says_nothing_need_not_be_used(source: str) -> None:
    assert feed_of(spec("--now", input_mode="args"), source)[1] == []


@pytest.mark.parametrize("mode", ["args", "env"])
@pytest.mark.parametrize("source", ["json", "json | int"])
def test_an_input_of_which_nothing_is_known_has_no_fields(mode: InputMode, source: str) -> None:
    assert problem_of(spec("${input}", input_mode=mode), source) == Problem(
        (*PATH, "input_mode"),
        f'input_mode = "{mode}" needs a type that says what the input holds, and it is json',
        allowed='a "type" or an "input_schema"',
    )


def test_fields_become_variables() -> None:
    assert feed_of(spec(input_mode="env"), "Tree") == (
        Feed("env", variables=("name", "children"), is_record=True),
        [],
    )


def test_an_input_without_fields_is_one_variable() -> None:
    assert feed_of(spec(input_mode="env"), "[int]") == (Feed("env", variables=("INPUT",), is_record=False), [])


@pytest.mark.parametrize(
    ("field", "why"),
    [
        ("LD_PRELOAD", "names that begin with LD_ are reserved"),
        ("TOOLDISPATCHD_UPDATES_FD", "names that begin with TOOLDISPATCHD_ are reserved"),
        ("two-words", "a variable's name is letters, digits and _ after a letter or _"),
        ("PATH", "setting it can have another program run"),
        ("PYTHONPATH", "setting it can have another program run"),
        ("OPENSSL_CONF", "setting it can have another program run"),
        ("JDK_JAVA_OPTIONS", "setting it can have another program run"),
        ("TOKEN", "env.TOKEN sets it too"),
    ],
)
def test_a_field_that_may_be_no_variable_is_told(field: str, why: str) -> None:
    assert problem_of(spec(input_mode="env", env={"TOKEN": "x"}), f"{{city: string, {field}?: string}}") == Problem(
        (*PATH, "input_mode"), f'input_mode = "env": the field {field} cannot be a variable: {why}'
    )


@pytest.mark.parametrize("name", ["", "a b", "a=b", "a\0b", "1st", "é"])
def test_a_property_of_a_schema_that_may_be_no_variable_is_told(name: str) -> None:
    schema = {"type": "object", "properties": {name: {"type": "string"}}}
    _, problems = compile_feed(spec(input_mode="env"), outline_of(schema), {}, PATH)
    assert len(problems) == 1


def test_the_properties_of_a_schema_are_fields() -> None:
    schema = {"type": "object", "properties": {"city name": {"type": "string"}}}
    feed, problems = compile_feed(spec("${city name}", input_mode="args"), outline_of(schema), {}, PATH)
    assert problems == []
    assert feed.is_record


def test_the_modes_of_a_process_are_those_of_a_tool() -> None:
    process = ProcessSpec(kind="agent", command=("ask",), args=("${city}",), input_mode="args", output_mode="text")
    path = ("processes", "ask")
    assert compile_feed(process, parse_type("Query"), DECLARED, path)[1] == []
    assert compile_output(process, parse_type("int"), DECLARED, path)[1] == [
        Problem(
            ("processes", "ask", "output_mode"), 'output_mode = "text" gives a string, and the output is int', "text"
        )
    ]


# --- what comes out ---


@pytest.mark.parametrize("target", ["string", "City", "json", "string | int"])
def test_text_gives_strings(target: str) -> None:
    assert output_of("text", target) == (Output.TEXT, [])


@pytest.mark.parametrize("target", ["int", "[string]", "{a: string}", "unit"])
def test_text_gives_nothing_else(target: str) -> None:
    assert output_of("text", target)[1] == [
        Problem((*PATH, "output_mode"), f'output_mode = "text" gives a string, and the output is {target}', "text")
    ]


@pytest.mark.parametrize("target", ["[string]", "[City]", "Cities", "json"])
def test_lines_of_text_are_a_list_of_strings(target: str) -> None:
    assert output_of("lines", target) == (Output.LINES, [])


@pytest.mark.parametrize("target", ["[int]", "[Query]", "[json]", "[string | int]", "[[string]]"])
def test_lines_of_anything_else_are_json(target: str) -> None:
    assert output_of("lines", target) == (Output.JSON_LINES, [])


@pytest.mark.parametrize("target", ["string", "(int, int)", "{a: [string]}"])
def test_lines_give_nothing_else(target: str) -> None:
    assert output_of("lines", target)[1] == [
        Problem((*PATH, "output_mode"), f'output_mode = "lines" gives a list, and the output is {target}', "lines")
    ]


@pytest.mark.parametrize("target", ["json", "Query", "unit | int"])
def test_every_output_can_be_json(target: str) -> None:
    assert output_of("json", target) == (Output.JSON, [])


def test_an_output_that_says_nothing_may_be_left_out() -> None:
    assert output_of("json", "unit") == (Output.NULL, [])


# --- without a type ---


@pytest.mark.parametrize(("mode", "source"), [("json", "json"), ("text", "string"), ("args", "json"), ("env", "json")])
def test_what_an_untyped_tool_takes(mode: InputMode, source: str) -> None:
    assert show(untyped_source(spec(input_mode=mode))) == source


@pytest.mark.parametrize(("mode", "target"), [("json", "json"), ("text", "string"), ("lines", "[string]")])
def test_what_an_untyped_tool_gives(mode: OutputMode, target: str) -> None:
    assert show(untyped_target(spec(output_mode=mode))) == target


@pytest.mark.parametrize("input_mode", ["json", "text"])
@pytest.mark.parametrize("output_mode", ["json", "text", "lines"])
def test_what_an_untyped_tool_is_taken_to_be_fits_its_modes(input_mode: InputMode, output_mode: OutputMode) -> None:
    mine = spec(input_mode=input_mode, output_mode=output_mode)
    source: Type = untyped_source(mine)
    assert compile_feed(mine, source, {}, PATH)[1] == []
    assert compile_output(mine, untyped_target(mine), {}, PATH)[1] == []


@pytest.mark.parametrize(("mode", "output"), [("blocks", Output.PARTS), ("image/png", Output.FILE)])
def test_parts_and_files_have_no_type_but_json(mode: str, output: Output) -> None:
    assert output_of(mode, "json") == (output, [])
    _, (problem,) = output_of(mode, "string")
    assert problem.path == (*PATH, "output_mode")
    assert problem.why == f'output_mode = "{mode}" gives typed parts, for which there is json, and the output is string'


@pytest.mark.parametrize(("target", "is_right"), [("string", True), ("json", True), ("int", False)])
def test_a_tool_of_which_each_end_is_a_result_gives_a_string(target: str, is_right: bool) -> None:  # a case
    tool = ToolSpec(command=("grep",), exit_codes="result")
    output, problems = compile_output(tool, parse_type(target), DECLARED, PATH)
    assert (output, not problems) == (Output.TRANSCRIPT, is_right)
    assert untyped_target(tool) == STRING


def test_such_a_tool_gives_nothing_but_text() -> None:
    tool = ToolSpec(command=("grep",), exit_codes="result", output_mode="lines")
    _, problems = compile_output(tool, parse_type("[string]"), DECLARED, PATH)
    why = 'exit_codes = "result" gives a text, and output_mode = "lines" something else'
    assert problems == [Problem((*PATH, "output_mode"), why, "lines", '"text"')]
