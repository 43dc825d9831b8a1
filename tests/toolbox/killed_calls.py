"""Calls that are killed at any step and at any moment, each in a child: `killed_calls DIRECTORY`.

Prints what was there after each, as JSON. It is a program since a test's own process, with all that pytest and the
other tests have imported, takes five times as long to fork.
"""

import contextlib
import fcntl
import functools
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from tests.examples import examples
from tests.forked.python.test_context import context
from tooldispatchd.forked.python.context import ToolContext
from tooldispatchd.toolbox.editing import Edit, multi_edit
from tooldispatchd.toolbox.jsonfiles import json_write
from tooldispatchd.toolbox.moving import copy, move
from tooldispatchd.toolbox.writing import write

OLD: Final = {"x": '{"a": "' + "o" * 10_000 + '"}'}
NEW: Final = '{"a": "' + "n" * 20_000 + '"}'
TREE: Final = {"tree/a": "1", "tree/b/c": "2"}

Call = Callable[[ToolContext], object]
Files = dict[str, str]
CASES: Final[list[tuple[str, Call, Files, Files]]] = [
    ("write", lambda ctx: write(ctx, "x", NEW), OLD, {"x": NEW}),
    ("write_new", lambda ctx: write(ctx, "y", NEW), OLD, {**OLD, "y": NEW}),
    (
        "multi_edit",
        lambda ctx: multi_edit(ctx, "x", [Edit("o" * 10_000, "p"), Edit("p", "n" * 20_000)]),
        OLD,
        {"x": NEW},
    ),
    ("json_write", lambda ctx: json_write(ctx, "x", "/a", '"' + "n" * 20_000 + '"'), OLD, {"x": NEW}),
    ("move", lambda ctx: move(ctx, "x", "y"), OLD, {"y": OLD["x"]}),
    ("move_over", lambda ctx: move(ctx, "x", "y", overwrite=True), {**OLD, "y": NEW}, {"y": OLD["x"]}),
    ("copy", lambda ctx: copy(ctx, "x", "y", overwrite=True), {**OLD, "y": NEW}, {"x": OLD["x"], "y": OLD["x"]}),
    (
        "copy_tree",
        lambda ctx: copy(ctx, "tree", "other"),
        TREE,
        {**TREE, "other/a": "1", "other/b/c": "2"},
    ),
]


def lay_out(files: Files) -> None:
    for path in [*Path().rglob("*")]:
        if path.is_file():
            path.unlink()
    for path in sorted(Path().rglob("*"), reverse=True):
        path.rmdir()
    for name, content in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(content)


def standing() -> Files:
    """What is there once nobody is at it any more."""
    directory = os.open(".", os.O_RDONLY)
    fcntl.flock(directory, fcntl.LOCK_EX)
    os.close(directory)
    return {str(path): path.read_text() for path in Path().rglob("*") if path.is_file()}


def forked(call: Call, before: Callable[[], object]) -> int:
    """A process of its own, with a session of its own, that calls; it ends with 0."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            before()
            call(context(state={}, options={"guard": "off"}))
        finally:
            os._exit(0)
    return pid


# Whatever else changes files is a function of `posix` too.
LOOKING: Final = {"fspath", "getpid", "lstat", "readlink", "scandir", "stat"}


def kill_at(step: int) -> None:
    """Have this process kill its group before the system call number `step` that may change something."""
    left, own = step, os.getpid()

    def count(_frame: object, event: str, function: object) -> None:
        nonlocal left
        is_one = getattr(function, "__module__", "") == "posix" and getattr(function, "__name__", "") not in LOOKING
        if event == "c_call" and is_one and os.getpid() == own:
            left -= 1
            if left == 0:
                os.killpg(own, signal.SIGKILL)

    sys.setprofile(count)


def told(old: Files, new: Files) -> str:
    """Which of them is there."""
    found = standing()
    return "old" if found == old else "new" if found == new else f"neither: {found}"[:300]


def at_any_step(call: Call, old: Files, new: Files) -> Iterator[str]:
    """What is there after a call that was killed at its first step, its second, …; at last after a whole one."""
    lay_out(old)
    step, status = 0, 1
    while status:
        step += 1
        _, status = os.waitpid(forked(call, functools.partial(kill_at, step)), 0)
        found = told(old, new)
        yield found
        if found == "new" and status:
            lay_out(old)


def at_any_time(call: Call, old: Files, new: Files) -> Iterator[str]:
    """What is there after each of some calls that were killed at any time."""
    chance = random.Random(1)
    for _ in range(examples(25)):
        lay_out(old)
        pid = forked(call, lambda: None)
        time.sleep(chance.uniform(0, 0.01))
        with contextlib.suppress(ProcessLookupError):
            # It leads no group yet.
            os.killpg(pid, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        yield told(old, new)


def main() -> None:
    """Play all of them in the directory, which is emptied."""
    os.chdir(sys.argv[1])
    played = {
        name: {"steps": [*at_any_step(call, old, new)], "times": [*at_any_time(call, old, new)]}
        for name, call, old, new in CASES
    }
    print(json.dumps(played))


if __name__ == "__main__":
    main()
