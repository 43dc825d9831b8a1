"""The kernel kills children before the daemon."""

import os
from pathlib import Path

from tooldispatchd.children.family import open_family
from tooldispatchd.children.oomscore import STEP


def score(pid: int | str) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_bytes())


async def test_a_child_is_killed_for_memory_before_the_daemon() -> None:
    async with open_family() as family:
        child = family.spawn(["cat"])
        assert score(child.pid) >= min(score(os.getpid()) + STEP, 1000)
        await child.kill()
