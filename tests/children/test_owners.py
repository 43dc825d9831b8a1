import grp
import os
import pwd

from tooldispatchd.children.owners import RunAs, owner_of


def test_nobody_else_is_asked_for() -> None:
    assert owner_of(None, None) == RunAs(None, None, ())


def test_a_group_alone_is_the_only_one() -> None:
    assert owner_of(None, 7) == RunAs(None, 7, (7,))


def test_a_user_is_in_its_own_groups() -> None:
    account = pwd.getpwuid(0)
    others = {group.gr_gid for group in grp.getgrall() if account.pw_name in group.gr_mem}
    uid, gid, groups = owner_of(0, None)
    assert (uid, gid) == (0, account.pw_gid)
    assert set(groups) == {account.pw_gid, *others}


def test_another_group_takes_the_place_of_a_users_own() -> None:
    account = pwd.getpwuid(0)
    assert owner_of(0, 54_321) == RunAs(0, 54_321, tuple(os.getgrouplist(account.pw_name, 54_321)))


def test_a_user_without_an_account_has_its_own_number_as_its_group() -> None:
    assert owner_of(54_321, None) == RunAs(54_321, 54_321, (54_321,))
    assert owner_of(54_321, 7) == RunAs(54_321, 7, (7,))
