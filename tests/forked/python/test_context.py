import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tooldispatchd.forked.python.context import ToolContext


@pytest.fixture(autouse=True)
def _own_places() -> Iterator[None]:
    """What a scratch directory is made the place of, in this process too, is put back."""
    chosen, environ = tempfile.tempdir, dict(os.environ)
    yield
    tempfile.tempdir = chosen
    os.environ.clear()
    os.environ.update(environ)


def context(*, left_s: float | None = None, scratch: str | None = None, told: list[bytes] | None = None) -> ToolContext:
    return ToolContext(id="c1", agent=None, left_s=left_s, scratch=scratch, tell=None if told is None else told.append)


def test_the_deadline_is_on_the_monotonic_clock() -> None:
    ctx = context(left_s=10.0)
    assert ctx.deadline is not None
    assert ctx.left_s is not None
    assert ctx.left_s <= 10.0 <= ctx.deadline - time.monotonic() + 1.0


def test_no_time_is_left_after_the_deadline() -> None:
    assert context(left_s=-1.0).left_s == 0.0


def test_a_call_without_a_deadline_has_all_the_time() -> None:
    ctx = context()
    assert (ctx.deadline, ctx.left_s) == (None, None)


def test_the_scratch_directory_is_made_when_it_is_asked_for(tmp_path: Path) -> None:
    ctx = context(scratch=str(tmp_path / "own"))
    assert not (tmp_path / "own").exists()
    assert ctx.scratch == ctx.scratch == tmp_path / "own"
    assert (tmp_path / "own").is_dir()


def test_progress_is_told_as_json() -> None:
    told: list[bytes] = []
    context(told=told).progress(1, 2, "half")
    assert json.loads(told[0]) == {"progress": 1, "total": 2, "message": "half"}


@pytest.mark.parametrize("arguments", [("1",), (1, "2"), (1, 2, 3)])
def test_progress_takes_numbers_and_a_string_alone(arguments: tuple[object, ...]) -> None:
    with pytest.raises(TypeError):
        context(told=[]).progress(*arguments)  # type: ignore[arg-type]  # that is what is tested
