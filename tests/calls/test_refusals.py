"""What wrong tokens cost a user."""

from tooldispatchd.calls.refusals import FORGET_S, Refusals, is_logged


def test_a_user_waits_longer_with_each_refusal_but_never_for_long() -> None:
    refusals = Refusals()
    waits = []
    for count in range(1, 101):
        assert refusals.note(7, 0.0) == count
        waits.append(refusals.wait_s(7, 0.0))
    assert waits[:6] == [0.0, 0.0, 0.0, 0.1, 0.2, 0.4]
    assert waits == sorted(waits)
    assert waits[-1] == 2.0


def test_nobody_waits_for_another_user_s_refusals() -> None:
    refusals = Refusals()
    for _ in range(100):
        refusals.note(7, 0.0)
    assert refusals.wait_s(8, 0.0) == 0.0


def test_refusals_are_forgotten_when_none_has_come_for_a_while() -> None:
    refusals = Refusals()
    for _ in range(100):
        refusals.note(7, 10.0)
    refusals.note(8, 60.0)
    assert refusals.wait_s(7, 10.0 + FORGET_S - 0.1) == 2.0
    assert refusals.wait_s(7, 10.0 + FORGET_S) == 0.0
    assert refusals.note(8, 10.0 + FORGET_S) == 2
    assert refusals.note(7, 10.0 + FORGET_S) == 1


def test_the_first_ten_are_logged_and_then_ever_fewer() -> None:
    assert [count for count in range(1, 101) if is_logged(count)] == [*range(1, 11), 16, 32, 64]
