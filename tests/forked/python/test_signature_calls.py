import dataclasses
import itertools
import uuid
from collections.abc import Sequence
from datetime import UTC, date, datetime
from types import GenericAlias
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta

from tests.examples import examples
from tests.forked.python.annotated import Color, Hit, Node, Place, Point, Size, make
from tooldispatchd.catalog.relations import STATED_INPUT, STATED_OUTPUT
from tooldispatchd.catalog.schemas import compile_check
from tooldispatchd.catalog.signatures import stated_misfit
from tooldispatchd.forked.python.signature import InputError, ResultError, describe, prepare

# --- calls ---


def test_what_a_call_leaves_out_is_left_to_the_functions_default() -> None:
    prepared = prepare(make)

    assert prepared.decode(b'{"text": "a"}') == {"text": "a"}
    assert prepared.function(**prepared.decode(b'{"text": "a", "limit": 2}')) == [Hit("a"), Hit("a")]


def test_values_come_as_the_declared_types() -> None:
    def run(*, size: Size, place: Place, point: Point, color: Color, raw: bytes, kind: Literal["a", "b"]) -> None: ...

    line = (
        b'{"size": {"width": 1}, "place": {"city": "Oslo"}, "point": [1, 2],'
        b' "color": "red", "raw": "AAE=", "kind": "a"}'
    )

    assert prepare(run).decode(line) == {
        "size": Size(1),
        "place": {"city": "Oslo"},
        "point": Point(1, 2),
        "color": Color.RED,
        "raw": b"\x00\x01",
        "kind": "a",
    }


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"text": 1}', "Expected `str`, got `int` - at `$.text`"),
        (b'{"text": "a", "limit": "2"}', "Expected `int`, got `str` - at `$.limit`"),
        (b'{"text": "a", "limit": 0}', "Expected `int` >= 1 - at `$.limit`"),
        (b'{"limit": 1}', "Object missing required field `text`"),
        (b'{"text": "a", "more": 1}', "Object contains unknown field `more`"),
        (b'["a"]', "Expected `object`, got `array`"),
        (b'{"text": "a"', "Input data was truncated"),
    ],
)
def test_an_input_of_another_type_is_refused_with_its_place(line: bytes, why: str) -> None:
    with pytest.raises(InputError) as caught:
        prepare(make).decode(line)

    assert str(caught.value) == why


def test_a_parameter_may_bear_any_name() -> None:
    def run(self: int, p0: int = 0, __class__: int = 0, copy: int = 0) -> int:
        return self

    assert prepare(run).decode(b'{"self": 1, "p0": 2, "__class__": 3}') == {"self": 1, "p0": 2, "__class__": 3}


def test_what_a_type_itself_refuses_is_a_wrong_input() -> None:
    class Even(msgspec.Struct):
        number: int

        def __post_init__(self) -> None:
            if self.number % 2:
                raise ValueError("not even")

    def run(even: Even) -> None: ...

    with pytest.raises(InputError, match="not even"):
        prepare(run).decode(b'{"even": {"number": 1}}')


def test_a_result_is_written_as_one_line() -> None:
    assert prepare(make).encode([Hit("a\n")]) == b'[{"title":"a\\n","score":1.0}]'


@pytest.mark.parametrize(
    ("result", "why"),
    [
        ([3], "the result is not of the declared type: Expected `object`, got `int` - at `$[0]`"),
        (None, "the result is not of the declared type: Expected `array`, got `null`"),
        ([Hit(title=3)], "the result is not of the declared type: Expected `str`, got `int` - at `$[0].title`"),  # type: ignore[arg-type]
        ([object()], "the result cannot be written as JSON: Encoding objects of type object is unsupported"),
        (["\ud800"], None),
        ([float("nan")], "the result is not of the declared type: Expected `object`, got `null` - at `$[0]`"),
    ],
    ids=["another type", "nothing", "an object made wrong", "no JSON", "half a pair", "not a number"],
)
def test_a_result_that_is_not_of_the_declared_type_is_refused_with_its_place(result: object, why: str | None) -> None:
    with pytest.raises(ResultError) as caught:
        prepare(make).encode(result)

    assert why is None or str(caught.value) == why


def test_a_result_that_holds_itself_is_refused() -> None:
    def run():  # type: ignore[no-untyped-def]
        pass

    result: list[object] = []
    result.append(result)

    with pytest.raises(ResultError):
        prepare(run).encode(result)


@given(st.binary(max_size=64) | st.text(max_size=64).map(str.encode))
def test_any_bytes_are_arguments_or_a_wrong_input(raw: bytes) -> None:
    prepared = prepare(make)
    try:
        arguments = prepared.decode(raw)
    except InputError:
        return
    assert arguments.keys() <= {"text", "limit"}


# --- types and their schemas agree ---

# Classes have names of their own, as those of one module have.
NUMBERS = itertools.count()
Kind = tuple[Any, st.SearchStrategy[Any]]

SCALARS: list[Kind] = [
    (int, st.integers(-(2**63), 2**63 - 1)),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (str, st.text(max_size=8)),
    (bool, st.booleans()),
    (None, st.none()),
    (bytes, st.binary(max_size=8)),
    (uuid.UUID, st.uuids()),
    (date, st.dates()),
    (datetime, st.datetimes(timezones=st.just(UTC))),
    (Color, st.sampled_from(Color)),
    (Literal["a", 1], st.sampled_from(["a", 1])),
    (Annotated[int, Meta(ge=0, le=9)], st.integers(0, 9)),
    (Any, st.just({"any": [1, None, "x"]})),
    (frozenset[int], st.frozensets(st.integers(0, 99), max_size=4)),
    (Point, st.builds(Point, st.integers(0, 9), st.integers(0, 9))),
    (Node, st.just(Node("a", Node("b")))),
]


def grown(kinds: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    def record(pair: tuple[Kind, Kind]) -> Kind:
        (one, ones), (other, others) = pair
        made = dataclasses.make_dataclass(f"Made{next(NUMBERS)}", [("one", one), ("other", other)])
        return made, st.builds(made, ones, others)

    def struct(pair: tuple[Kind, Kind]) -> Kind:
        (one, ones), (other, others) = pair
        made = msgspec.defstruct(f"Formed{next(NUMBERS)}", [("one", one), ("other", other)], forbid_unknown_fields=True)
        return made, st.builds(made, ones, others)

    pairs = st.tuples(kinds, kinds)
    return st.one_of(
        kinds.map(lambda kind: (GenericAlias(list, kind[0]), st.lists(kind[1], max_size=3))),
        kinds.map(lambda kind: (GenericAlias(Sequence, kind[0]), st.lists(kind[1], max_size=3))),
        kinds.map(
            lambda kind: (GenericAlias(dict, (str, kind[0])), st.dictionaries(st.text(max_size=3), kind[1], max_size=3))
        ),
        kinds.map(lambda kind: (kind[0] if kind[0] is None else kind[0] | None, st.none() | kind[1])),
        pairs.map(lambda pair: (GenericAlias(tuple, (pair[0][0], pair[1][0])), st.tuples(pair[0][1], pair[1][1]))),
        pairs.map(record),
        pairs.map(struct),
    )


KINDS = st.recursive(st.sampled_from(SCALARS), grown, max_leaves=5)


@settings(max_examples=examples(60))
@given(KINDS, st.data())
def test_what_the_schemas_admit_goes_in_and_comes_out_as_it_was(kind: Kind, data: st.DataObject) -> None:
    type_, values = kind

    def run(value):  # type: ignore[no-untyped-def]
        return value

    run.__annotations__ = {"value": type_, "return": type_}
    value = data.draw(values)
    raw = msgspec.json.encode({"value": value})
    described = msgspec.convert(describe(run), dict[str, Any])
    prepared = prepare(run)

    arguments = prepared.decode(raw)
    encoded = prepared.encode(arguments["value"])

    assert arguments == {"value": value}
    assert compile_check(described["input_schema"]).is_valid(msgspec.json.decode(raw))
    assert compile_check(described["output_schema"]).is_valid(msgspec.json.decode(encoded))


@settings(max_examples=examples(60))
@given(KINDS)
def test_a_function_fits_what_it_says_itself(kind: Kind) -> None:
    def run(value):  # type: ignore[no-untyped-def]
        return value

    run.__annotations__ = {"value": kind[0], "return": kind[0]}
    described = msgspec.convert(describe(run), dict[str, Any])

    assert stated_misfit(described["input_schema"], described["input_schema"], STATED_INPUT, {}) is None
    assert stated_misfit(described["output_schema"], described["output_schema"], STATED_OUTPUT, {}) is None
