"""How many lines a channel may send."""

from tooldispatchd.calls.lineallowance import LineAllowance


def test_a_second_after_a_flood_of_any_length_there_is_room_again() -> None:
    allowance = LineAllowance(1000, now=5.0)
    allowance.left -= 50_000
    allowance.refill(1000, now=5.0)
    assert (allowance.left, allowance.is_used_up) == (-1000, True)
    allowance.refill(1000, now=6.0)
    assert (allowance.left, allowance.is_used_up) == (0, True)
    allowance.refill(1000, now=6.5)
    assert (allowance.left, allowance.is_used_up) == (500, False)


def test_what_is_not_used_is_not_saved_for_longer_than_a_second() -> None:
    allowance = LineAllowance(1000, now=5.0)
    allowance.refill(1000, now=60.0)
    assert allowance.left == 1000
