"""Files of stored outputs: large ones, and many, are removed beside the loop."""

from pathlib import Path

import pytest
import trio

from tests.daemon.spawned import PATIENCE_S
from tooldispatchd.agent.calls.spool import AT_ONCE, AT_ONCE_BYTES, Spool


def made(directory: Path, count: int) -> list[str]:
    paths = [directory / str(number) for number in range(count)]
    for path in paths:
        path.touch()
    return [str(path) for path in paths]


@pytest.mark.parametrize(("count", "size"), [(1, AT_ONCE_BYTES + 1), (AT_ONCE + 1, 0)])
async def test_large_files_and_many_are_removed_in_no_turn_of_the_loop(tmp_path: Path, count: int, size: int) -> None:
    paths = made(tmp_path, count)
    async with trio.open_nursery() as home:
        Spool(None, 0, home).discard(paths, size)
        assert len(list(tmp_path.iterdir())) == count
    assert list(tmp_path.iterdir()) == []


async def test_a_few_small_ones_are_removed_at_once(tmp_path: Path) -> None:
    paths = made(tmp_path, AT_ONCE)
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as home:
            Spool(None, 0, home).discard([*paths, str(tmp_path / "none")][1:], AT_ONCE_BYTES)
            assert [path.name for path in tmp_path.iterdir()] == ["0"]
