import asyncio
import json
import os
import select
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from tooldispatchd.forked.python.context import ToolContext
from tooldispatchd.forked.python.frames import FrameKind
from tooldispatchd.providers.python.tool import CallHeader


@pytest.fixture(autouse=True)
def _own_places() -> Iterator[None]:
    """What a scratch directory is made the place of, in this process too, is put back."""
    chosen, environ = tempfile.tempdir, dict(os.environ)
    yield
    tempfile.tempdir = chosen
    os.environ.clear()
    os.environ.update(environ)


class Told:
    """A daemon that listens; the call is cancelled once anything is in its socket."""

    def __init__(self, told: list[bytes], theirs: socket.socket | None = None) -> None:
        self._told = told
        self._theirs = theirs

    def tell(self, kind: FrameKind, payload: bytes) -> None:
        assert kind in {FrameKind.UPDATE, FrameKind.LOG}
        self._told.append(payload)

    def is_cancelled(self) -> bool:
        return self._theirs is not None and bool(select.select([self._theirs], [], [], 0)[0])

    def fileno(self) -> int:
        assert self._theirs is not None
        return self._theirs.fileno()


def context(
    *, left_s: float | None = None, scratch: str | None = None, told: list[bytes] | None = None, **fields: Any
) -> ToolContext:
    call = msgspec.to_builtins(CallHeader(id="c1", left_s=left_s, scratch=scratch, updates=told is not None))
    return ToolContext(call | fields, Told([] if told is None else told))


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


def test_a_long_content_is_told_in_parts() -> None:
    told: list[bytes] = []
    context(told=told).update(content="x" * 9_000)
    assert [len(json.loads(each)["content"]) for each in told] == [4_000, 4_000, 1_000]


def test_who_wants_no_updates_is_told_none_and_the_log_all_the_same() -> None:
    ctx = context()
    ctx.update(content="x")
    ctx.progress(1)
    told: list[bytes] = []
    ctx = context(told=told)
    ctx.log("x" * 5_000, "warning")
    assert json.loads(told[0]) == {"level": "warning", "message": "x" * 4_000}


def test_a_level_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="debug, info, warning, error"):
        context().log("x", "loud")


def test_who_has_no_state_is_told_how_to_have_one() -> None:
    with pytest.raises(RuntimeError, match="state = true"):
        _ = context().state


def test_a_state_is_an_object() -> None:
    ctx = context(state={})
    ctx.state = {"n": 1}
    with pytest.raises(TypeError):
        ctx.state = [1]  # type: ignore[assignment]  # that is what is tested
    assert ctx.state == {"n": 1}


def test_a_context_can_be_read_once_the_call_is_given_up() -> None:
    ours, theirs = socket.socketpair()
    ctx = ToolContext(msgspec.to_builtins(CallHeader(id="c1")), Told([], theirs))
    with ours, theirs:
        assert select.select([ctx], [], [], 0)[0] == []
        ours.sendall(b"x")
        assert select.select([ctx], [], [], 0)[0] == [ctx]


@pytest.mark.parametrize("run", ["trio", "asyncio"])
def test_the_cancel_wakes_who_waits_for_it(run: str) -> None:
    ours, theirs = socket.socketpair()
    ctx = ToolContext(msgspec.to_builtins(CallHeader(id="c1")), Told([], theirs))

    async def under_trio() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ctx.wait_cancelled)
            await trio.testing.wait_all_tasks_blocked()
            assert not ctx.cancelled()
            ours.sendall(b"x")

    async def under_asyncio() -> None:
        waiting = asyncio.ensure_future(ctx.wait_cancelled())
        await asyncio.sleep(0)
        assert not waiting.done()
        ours.sendall(b"x")
        await asyncio.wait_for(waiting, 10)

    with ours, theirs:
        trio.run(under_trio) if run == "trio" else asyncio.run(under_asyncio())
        assert ctx.cancelled()
