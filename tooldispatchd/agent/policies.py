"""What is asked of who starts a program: a confinement with its user's groups looked up, as a policy."""

import os
import pwd

from tooldispatchd.catalog.enforcement import Enforced
from tooldispatchd.forked.policy import Policy


def policy_of(enforced: Enforced) -> Policy | None:
    """The policy that enforces it; None where nothing is asked that takes one."""
    asked = enforced.confinement
    uid, gid, groups = _owner(asked.user, asked.group)
    policy = Policy(
        cpu_s=asked.cpu_s,
        memory=asked.memory,
        processes=asked.processes,
        files=asked.files,
        file_size=asked.file_size,
        nice=asked.nice,
        uid=uid,
        gid=gid,
        groups=groups,
        network=asked.network,
        read=asked.read,
        write=asked.write,
        means=enforced.means or "landlock",
    )
    return None if policy == Policy() else policy


def _owner(user: int | None, group: int | None) -> tuple[int | None, int | None, tuple[int, ...]]:
    """The user, its group and its other groups; a user without an account has none of these but its own number."""
    if user is None:
        return None, group, () if group is None else (group,)
    try:
        account = pwd.getpwuid(user)
    except KeyError:
        gid = user if group is None else group
        return user, gid, (gid,)
    gid = account.pw_gid if group is None else group
    return user, gid, tuple(os.getgrouplist(account.pw_name, gid))
