"""The user that a child runs as, with its own group and its other groups, looked up on this machine."""

import os
import pwd
from typing import NamedTuple


class RunAs(NamedTuple):
    """Numbers, None for the daemon's own; `groups` are all that it is in, where it is in another than the daemon's."""

    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()


def owner_of(user: int | None, group: int | None) -> RunAs:
    """The user in its own groups, or in `group` and its others; one without an account is in its own number alone."""
    if user is None:
        return RunAs() if group is None else RunAs(None, group, (group,))
    try:
        account = pwd.getpwuid(user)
    except KeyError:
        gid = user if group is None else group
        return RunAs(user, gid, (gid,))
    gid = account.pw_gid if group is None else group
    return RunAs(user, gid, tuple(os.getgrouplist(account.pw_name, gid)))


def home_of(user: int | None) -> dict[str, str]:
    """The variables that a login as the user would say of it; none for the daemon's own, or without an account."""
    if user is None:
        return {}
    try:
        account = pwd.getpwuid(user)
    except KeyError:
        return {}
    return {"HOME": account.pw_dir, "SHELL": account.pw_shell, "USER": account.pw_name, "LOGNAME": account.pw_name}
