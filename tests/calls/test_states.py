import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.calls.memory import Holding, Memory
from tooldispatchd.calls.states import States

NAMES = st.sampled_from(["a", "b"])
STEPS = st.lists(st.tuples(st.sampled_from(["enter", "end", "withdraw"]), NAMES, st.integers(0, 9)), max_size=60)


@pytest.fixture
def states() -> States[int]:
    return States(Holding(Memory(1 << 20).share(0)))


def test_the_second_waits_for_the_first(states: States[int]) -> None:
    assert states.enter("a", 1)
    assert not states.enter("a", 2)
    assert states.enter("b", 3)
    assert states.leave("a") == 2
    assert states.leave("a") is None
    assert states.enter("a", 4)


def test_who_is_not_there_any_more_is_passed_over(states: States[int]) -> None:
    for call in (1, 2, 3):
        states.enter("a", call)
    states.withdraw("a", 2)
    assert states.leave("a") == 3


def test_what_is_kept_is_there_until_the_end(states: States[int]) -> None:
    assert states.value("a") == b"{}"
    assert states.keep("a", b'{"n":1}')
    assert (states.value("a"), states.value("b")) == (b'{"n":1}', b"{}")
    states.close()
    assert states.value("a") == b"{}"


def test_what_there_is_no_room_for_leaves_what_was_there() -> None:
    holding = Holding(Memory(100_000).share(0))
    states: States[int] = States(holding)
    assert states.keep("a", b'{"n":1}')
    assert not states.keep("a", b"x" * 60_000)
    assert (states.value("a"), holding.held) == (b'{"n":1}', 7)


@given(STEPS)
def test_one_call_of_a_name_has_its_turn_and_nothing_that_it_writes_is_lost(steps: list[tuple[str, str, int]]) -> None:
    holding = Holding(Memory(1 << 20).share(0))
    states: States[int] = States(holding)
    waiting: dict[str, list[int]] = {"a": [], "b": []}
    done = {"a": 0, "b": 0}
    number = 0
    for step, name, which in steps:
        line = waiting[name]
        if step == "enter":
            number += 1
            line.append(number)
            assert states.enter(name, number) == (len(line) == 1)
        elif step == "end" and line:
            # A call counts what it found, as a tool would.
            count = int(states.value(name).strip(b"{}") or 0) + 1
            assert states.keep(name, b"{%d}" % count)
            done[name] += 1
            line.pop(0)
            assert states.leave(name) == (line[0] if line else None)
        elif step == "withdraw" and len(line) > 1:
            call = line.pop(1 + which % (len(line) - 1))
            states.withdraw(name, call)
    assert {name: int(states.value(name).strip(b"{}") or 0) for name in done} == done
    assert holding.held == sum(len(states.value(name)) for name in done if done[name])
