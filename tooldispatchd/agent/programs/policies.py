"""What is asked of who starts a program: a confinement with its user's groups looked up, as a policy."""

from tooldispatchd.catalog.enforcement import Enforced
from tooldispatchd.children.owners import owner_of
from tooldispatchd.forked.policy import Policy


def policy_of(enforced: Enforced) -> Policy | None:
    """The policy that enforces it; None where nothing is asked that takes one."""
    asked = enforced.confinement
    owner = owner_of(asked.user, asked.group)
    policy = Policy(
        cpu_s=asked.cpu_s,
        memory=asked.memory,
        processes=asked.processes,
        files=asked.files,
        file_size=asked.file_size,
        nice=asked.nice,
        uid=owner.uid,
        gid=owner.gid,
        groups=owner.groups,
        network=asked.network,
        read=asked.read,
        write=asked.write,
        means=enforced.means or "landlock",
    )
    return None if policy == Policy() else policy
