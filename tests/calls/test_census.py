"""Sessions by user."""

import pytest

from tooldispatchd.calls.census import Census


def test_a_user_is_full_at_the_limit_and_has_room_again() -> None:
    census = Census({0})
    census.enter(5)
    census.enter(5)
    assert (census.is_full_for(5, 2), census.is_full_for(6, 2), census.total, census.most) == (True, False, 2, 2)
    census.leave(5)
    assert (census.is_full_for(5, 2), census.total) == (False, 1)


def test_users_at_home_have_no_bound_of_their_own() -> None:
    census = Census({0, 7})
    census.enter(7)
    assert (census.is_full_for(7, 1), census.most) == (False, 0)


def test_nobody_leaves_who_is_not_there() -> None:
    with pytest.raises(KeyError):
        Census({0}).leave(5)
