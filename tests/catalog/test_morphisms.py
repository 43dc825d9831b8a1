from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.catalog.morphisms import (
    MAX_MESSAGES,
    TOTAL,
    Bundle,
    Invoke,
    LowerError,
    Morphism,
    StageError,
    StreamMorphism,
    Work,
    asking,
    compose,
    copying,
    discarding,
    filtering,
    function,
    identity,
    lift,
    lower,
    merging,
    projecting,
    run_now,
    synchronising,
)
from tooldispatchd.catalog.types import JSON, UNIT, Primitive, Product, Stream, Type

INT = Primitive("int")
INTS = Stream(INT)
TWO = Product((INTS, INTS))

# Functions of plain integers, some of which drop, repeat or nest what they are given: none of that may matter.
FUNCTIONS: dict[str, Callable[[object], object]] = {
    "negate": lambda value: -value,  # type: ignore[operator]
    "list": lambda value: [value, value],
    "record": lambda value: {"value": value},
    "constant": lambda _value: 7,
    "null": lambda _value: None,
    "empty": lambda _value: [],
}
functions = st.sampled_from(sorted(FUNCTIONS)).map(lambda name: function(name, JSON, JSON, FUNCTIONS[name]))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def run(tool: Morphism, value: object) -> object:
    return run_now(tool.apply(value))


def asked(work: Work, answer: object = None) -> object:
    """What a run asks for next; it may pause before that."""
    ask = work.send(answer)
    while ask is None:
        ask = next(work)
    return ask


def flow(process: StreamMorphism, bundle: Bundle) -> object:
    return run_now(process.feed(bundle))


@given(functions, st.integers())
def test_lowering_what_was_lifted_gives_the_tool_back(tool: Morphism, value: object) -> None:
    again = lower(lift(tool), {})
    assert (again.source, again.target) == (tool.source, tool.target)
    assert run(again, value) == run(tool, value)


@given(st.lists(values))
def test_lifting_the_identity_gives_the_identity(messages: list[object]) -> None:
    tool = function("id", JSON, JSON, lambda value: value)
    assert flow(lift(tool), list(messages)) == flow(identity("id", Stream(JSON)), list(messages)) == messages


@given(st.lists(st.integers()))
def test_lifting_a_composite_is_composing_what_is_lifted(messages: list[object]) -> None:
    first = function("first", INT, INT, lambda value: value + 1)  # type: ignore[operator]
    second = function("second", INT, INT, lambda value: value * 2)  # type: ignore[operator]
    both = function("both", INT, INT, lambda value: (value + 1) * 2)  # type: ignore[operator]
    few = messages[:MAX_MESSAGES]
    assert flow(compose("chain", (lift(first), lift(second))), list(few)) == flow(lift(both), list(few))


@given(functions, st.integers())
def test_the_identity_before_or_after_a_process_changes_nothing(tool: Morphism, value: int) -> None:
    process = lift(tool)
    nothing = identity("id", Stream(JSON))
    before, after = compose("before", (nothing, process)), compose("after", (process, nothing))
    assert flow(before, [value]) == flow(after, [value]) == flow(process, [value])


@given(functions, functions, functions, st.integers())
def test_how_a_chain_is_bracketed_changes_nothing(
    first: Morphism, second: Morphism, third: Morphism, value: int
) -> None:
    f, g, h = (lift(function(tool.name, JSON, JSON, _total(tool))) for tool in (first, second, third))
    left = compose("left", (compose("inner", (f, g)), h))
    right = compose("right", (f, compose("inner", (g, h))))
    assert run(lower(left, {}), value) == run(lower(right, {}), value)


def _total(tool: Morphism) -> Callable[[object], object]:
    """A function of any value: `negate` knows numbers only."""
    return lambda value: run(tool, value) if type(value) is int else [value]


@given(st.lists(values, max_size=MAX_MESSAGES // 2), st.sampled_from([0, 1]))
def test_copying_and_discarding_one_side_is_the_identity(messages: list[object], side: int) -> None:
    chain = compose("chain", (copying("copy", INTS), projecting("project", TWO, side)))
    assert flow(chain, list(messages)) == messages


@given(values)
def test_a_lowered_copy_gives_the_message_twice_and_a_lowered_discard_gives_null(value: object) -> None:
    source = Stream(JSON)
    assert run(lower(copying("copy", source), {}), value) == [value, value]
    assert run(lower(discarding("discard", source), {}), value) is None


@given(values)
def test_copies_that_are_synchronised_are_pairs(value: object) -> None:
    chain = compose("chain", (copying("copy", INTS), synchronising("barrier", TWO, Stream(Product((INT, INT))))))
    assert run(lower(chain, {}), value) == run(lower(copying("copy", INTS, as_pairs=True), {}), value)


@pytest.mark.parametrize("kind", ["filter", "merge", "barrier", "project"])
def test_what_is_not_total_cannot_be_lowered(kind: str) -> None:
    processes = {
        "filter": filtering("x", INTS, bool),
        "merge": merging("x", TWO, INTS),
        "barrier": synchronising("x", TWO, Stream(Product((INT, INT)))),
        "project": projecting("x", TWO, 0),
    }
    with pytest.raises(LowerError, match=rf"\Acannot lower {kind} to a tool \(not total\)\Z"):
        lower(processes[kind], {})


def test_the_total_kinds_are_those_that_give_one_message_for_one() -> None:
    assert sorted(TOTAL) == ["agent", "copy", "discard", "id", "lift", "map", "plumb"]


@pytest.mark.parametrize(
    ("source", "target", "types"),
    [
        (INTS, INTS, (INT, INT)),
        (INTS, TWO, (INT, Product((INT, INT)))),
        (INTS, UNIT, (INT, UNIT)),
        (Product((INTS, TWO)), UNIT, (Product((INT, Product((INT, INT)))), UNIT)),
    ],
)
def test_a_lowered_process_has_its_types_without_streams(source: Type, target: Type, types: tuple[Type, Type]) -> None:
    process = StreamMorphism("p", "agent", source, target, identity("p", source).feed)
    tool = lower(process, {})
    assert (tool.source, tool.target) == types


def test_a_process_that_gives_no_message_or_two_is_told_apart_when_it_runs() -> None:
    none = compose(
        "chain", (identity("first", INTS), filtering("keep", INTS, lambda _value: False), identity("z", INTS))
    )
    with pytest.raises(StageError) as failed:
        run(lower(none, {}), 1)
    assert (failed.value.stage, failed.value.position) == ("keep", 2)
    assert failed.value.cause == "it gave no message for one: a tool gives exactly one"
    two = compose("chain", (copying("copy", INTS), merging("merge", TWO, INTS)))
    with pytest.raises(StageError) as failed:
        run(lower(two, {}), 1)
    assert (failed.value.stage, failed.value.position) == ("merge", 2)
    assert failed.value.cause == "it gave 2 messages for one: a tool gives exactly one"


def test_the_first_stage_after_which_there_was_not_one_message_is_told_also_past_copies_and_chains() -> None:
    keep = filtering("keep", INTS, lambda _value: False)
    chains = {
        "copied": compose("copied", (keep, copying("copy", INTS), synchronising("barrier", TWO, INTS))),
        "copied apart": compose("copied apart", (keep, copying("copy", INTS))),
        "nested": compose("nested", (identity("a", INTS), compose("inner", (keep, identity("b", INTS))))),
        "mended": compose("mended", (copying("copy", INTS), merging("merge", TWO, INTS), keep)),
    }
    told = {}
    for name, chain in chains.items():
        with pytest.raises(StageError) as failed:
            run(lower(chain, {}), 1)
        told[name] = (failed.value.stage, failed.value.position)
    assert told == {"copied": ("keep", 1), "copied apart": ("keep", 1), "nested": ("keep", 2), "mended": ("merge", 2)}


def test_messages_that_double_without_end_are_stopped() -> None:
    twice = (copying("copy", INTS), merging("merge", TWO, INTS))
    with pytest.raises(StageError, match="more than 64 messages of one call are on their way"):
        flow(compose("chain", twice * 7), [1])


def test_a_stage_that_fails_says_which_it_was_in_the_outermost_chain() -> None:
    def refuse(_value: object) -> object:
        raise StageError("second", "no")

    inner = compose("inner", (identity("first", INTS), lift(function("second", INT, INT, refuse))))
    with pytest.raises(StageError) as failed:
        flow(compose("outer", (identity("a", INTS), identity("b", INTS), inner)), [1])
    assert (failed.value.stage, failed.value.position) == ("second", 3)


def test_what_runs_elsewhere_is_asked_for_in_order_and_sent_its_result() -> None:
    agent = lift(asking("agent", INT, INT, is_tool=False, output=None))
    tool = lift(asking("search", INT, INT, is_tool=True, output=None))
    chain = compose("chain", (agent, tool))
    assert not chain.is_now
    work = lower(chain, {}).apply(1)
    assert asked(work) == Invoke("agent", 1)
    assert asked(work, 2) == Invoke("search", 2, is_tool=True)
    with pytest.raises(StopIteration) as end:
        asked(work, 3)
    assert end.value.value == 3
    with pytest.raises(RuntimeError, match="asked for agent"):
        run_now(lower(chain, {}).apply(1))
