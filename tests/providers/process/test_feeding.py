import errno
import os

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.providers.process.runs import args
from tooldispatchd.catalog.arguments import Feed
from tooldispatchd.children.spawn import SpawnError
from tooldispatchd.providers.process.feeding import MAX_ITEMS, MAX_WORDS_BYTES, Fed, supply
from tooldispatchd.wire.faults import Code, Fault

TEXT = Feed("text")


def words(feed: Feed, line: bytes) -> tuple[str, ...]:
    fed = supply(feed, line)
    assert isinstance(fed, Fed)
    assert fed.stdin == b""
    assert fed.env == {}
    return fed.words


def variables(feed: Feed, line: bytes) -> dict[str, str]:
    fed = supply(feed, line)
    assert isinstance(fed, Fed)
    assert (fed.stdin, fed.words) == (b"", ())
    return fed.env


def test_json_is_the_line_as_it_is() -> None:
    assert supply(Feed(), b'{"n":1}\n') == Fed(b'{"n":1}\n')


def test_text_is_the_line_as_it_is() -> None:
    assert supply(TEXT, b"caf\xc3\xa9\n") == Fed(b"caf\xc3\xa9\n")


@pytest.mark.parametrize("line", [b'{"a":"%b"}\n' % (b"x" * MAX_WORDS_BYTES), b'{"a":[%b1]}\n' % (b"[]," * 30_000)])
def test_what_takes_long_to_decode_is_in_no_argument(line: bytes) -> None:
    fault = supply(args("${a}"), line)
    assert isinstance(fault, Fault)
    assert fault.code is Code.INVALID_INPUT
    assert f"{len(line)} bytes are too many for the arguments or variables of a program" in fault.detail


def test_a_field_is_one_argument_whatever_it_holds() -> None:
    line = b'{"city":"a b\\n$(rm) \'; --x","days":3}\n'
    assert words(args("--days=${days}", "${city}"), line) == ("--days=3", "a b\n$(rm) '; --x")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"files":["a","-b c"]}', ("--", "a", "-b c")),
        (b'{"files":[]}', ("--",)),
        (b"{}", ("--",)),
        (b'{"files":[1,{"x":null}]}', ("--", "1", '{"x":null}')),
    ],
)
def test_each_item_of_a_list_is_an_argument(line: bytes, expected: tuple[str, ...]) -> None:
    assert words(args("--", "${files...}"), line) == expected


def test_what_stands_around_a_list_stands_around_each_item() -> None:
    line = b'{"files":["a","b"],"dir":"d"}'
    assert words(args("-I${dir}/${files...}.h", "${files}"), line) == ("-Id/a.h", "-Id/b.h", '["a","b"]')


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"verbose":true,"n":5}', ("--verbose", "-n", "5")),
        (b'{"verbose":false,"n":0}', ("-n", "0")),
        (b'{"n":"-1"}', ("-n", "-1")),
        (b'{"verbose":null}', ()),
    ],
)
def test_a_flag_is_there_where_its_field_is_given_and_not_false(line: bytes, expected: tuple[str, ...]) -> None:
    assert words(args("${verbose?--verbose}", "${n?-n}", "${n}"), line) == expected


def test_an_argument_with_a_flag_that_is_off_is_left_out_whole() -> None:
    assert words(args("${n}${long?-long}"), b'{"n":1,"long":false}') == ()


def test_too_many_items_are_told_before_they_are_made() -> None:
    fed = supply(args("${files...}"), msgspec.json.encode({"files": [""] * (MAX_ITEMS + 1)}))
    assert isinstance(fed, Fault)
    assert fed.detail == "/files: 10001 items are too many for the arguments of a program, which are 10000 at most"


def test_a_nul_in_an_item_is_told() -> None:
    assert supply(args("${files...}"), b'{"files":["a","b\\u0000"]}') == Fault(
        Code.INVALID_INPUT, f"/files: {NUL}", {"violations": [{"path": "/files", "message": NUL}]}
    )


def test_an_empty_string_is_an_empty_argument() -> None:
    assert words(args("${city}"), b'{"city":""}\n') == ("",)


def test_a_word_with_an_absent_field_is_left_out() -> None:
    assert words(args("-v", "--days=${days}", "${city} ${days}", "${city}"), b'{"city":"Rome"}\n') == ("-v", "Rome")


def test_a_field_that_is_null_is_there() -> None:
    assert words(args("${days}"), b'{"days":null}\n') == ("null",)


@pytest.mark.parametrize(
    ("value", "word"),
    [(b"7", "7"), (b"1.5", "1.5"), (b"true", "true"), (b'{"a": ["\xc3\xa9", null]}', '{"a":["é",null]}')],
)
def test_other_values_than_strings_are_their_json(value: bytes, word: str) -> None:
    assert words(args("${x}"), b'{"x":' + value + b"}\n") == (word,)
    assert variables(Feed("env", variables=("x",), is_record=True), b'{"x":' + value + b"}\n") == {"x": word}


def test_a_template_in_a_value_is_text() -> None:
    assert words(args("${a}"), b'{"a":"${b} $$","b":"secret"}\n') == ("${b} $$",)


def test_an_input_that_is_no_record_is_one_argument() -> None:
    assert words(args("--at=${input}", is_record=False), b'"here"\n') == ("--at=here",)


def test_an_object_among_other_inputs_is_one_argument() -> None:
    assert words(args("${input}", is_record=False), b'{"input":1}\n') == ('{"input":1}',)


def test_fields_are_variables_and_absent_ones_are_none() -> None:
    feed = Feed("env", variables=("city", "days"), is_record=True)
    assert variables(feed, b'{"city":"Rome"}\n') == {"city": "Rome"}


def test_what_is_not_declared_is_no_variable() -> None:
    feed = Feed("env", variables=("city",), is_record=True)
    assert variables(feed, b'{"city":"Rome","LD_PRELOAD":"x"}\n') == {"city": "Rome"}


def test_an_input_that_is_no_record_is_one_variable() -> None:
    assert variables(Feed("env", variables=("INPUT",)), b"[1]\n") == {"INPUT": "[1]"}


NUL = "a NUL can be in no argument and in no variable of a program"


@pytest.mark.parametrize(
    "feed",
    [args("${city}", "${a/b}"), Feed("env", variables=("city", "a/b"), is_record=True)],
)
def test_a_nul_is_told_with_its_place(feed: Feed) -> None:
    assert supply(feed, b'{"city":"Rome","a/b":"x\\u0000"}\n') == Fault(
        Code.INVALID_INPUT, f"/a~1b: {NUL}", {"violations": [{"path": "/a~1b", "message": NUL}]}
    )


def test_a_nul_in_an_input_that_is_no_record_is_told() -> None:
    assert supply(args("${input}", is_record=False), b'"\\u0000"\n') == Fault(
        Code.INVALID_INPUT, NUL, {"violations": [{"path": "", "message": NUL}]}
    )


def test_a_nul_within_json_is_an_escape() -> None:
    assert words(args("${x}"), b'{"x":["\\u0000"]}\n') == ('["\\u0000"]',)


def test_the_kernels_no_to_long_arguments_names_the_longest() -> None:
    fed = supply(args("${a}", "${b}"), b'{"a":"x","b":"\xc3\xa9\xc3\xa9"}\n')
    assert isinstance(fed, Fed)
    message = "4 bytes are too many for the arguments or variables of a program"
    assert fed.refusal(SpawnError("x", os.strerror(errno.E2BIG))) == Fault(
        Code.INVALID_INPUT, f"/b: {message}", {"violations": [{"path": "/b", "message": message}]}
    )


@pytest.mark.parametrize("why", [os.strerror(errno.ENOENT), "the daemon is ending"])
def test_any_other_no_is_the_programs(why: str) -> None:
    fed = supply(args("${a}"), b'{"a":"x"}\n')
    assert isinstance(fed, Fed)
    assert fed.refusal(SpawnError("x", why)) == Fault(Code.TOOL_FAILED, f"cannot start 'x': {why}")


def test_long_arguments_without_an_input_are_the_commands() -> None:
    why = os.strerror(errno.E2BIG)
    assert Fed(b"1\n").refusal(SpawnError("x", why)) == Fault(Code.TOOL_FAILED, f"cannot start 'x': {why}")


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"))


@given(TEXTS, TEXTS)
def test_any_text_arrives_as_it_is(first: str, second: str) -> None:
    line = msgspec.json.encode({"a": first, "b": second}) + b"\n"
    assert words(args("${a}", "-${b}"), line) == (first, f"-{second}")
