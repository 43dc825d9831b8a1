"""Tools called directly in a process, as a resident worker does: it is afterwards what it was before."""

import asyncio
import ctypes
import gc
import locale
import os
import resource
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

import pytest
import trio

from tests.conftest import children, open_descriptors
from tests.toolbox.callers import Caller
from tests.toolbox.pdfs import pdf
from tooldispatchd.forked import libc
from tooldispatchd.forked.python.context import InvalidInputError, ToolContext, ToolFailedError
from tooldispatchd.forked.python.functions import find_function
from tooldispatchd.toolbox.leftovers import PR_GET_CHILD_SUBREAPER
from tooldispatchd.toolbox.sets import SETS

# Of each tool calls that succeed and calls that fail, in the order in which they are made.
CALLS: Final[list[tuple[str, dict[str, Any]]]] = [
    ("write", {"path": "new/a.txt", "content": "one\n"}),
    ("write", {"path": "new/a.txt", "content": "two\n"}),
    ("write", {"path": "new", "content": ""}),
    ("read", {"path": "new/a.txt"}),
    ("read", {"path": "x.pdf"}),
    ("read", {"path": "latin"}),
    ("read", {"path": "pipe"}),
    ("edit", {"path": "new/a.txt", "old": "two", "new": "three"}),
    ("edit", {"path": "new/a.txt", "old": "two", "new": "three"}),
    ("multi_edit", {"path": "new/a.txt", "edits": []}),
    ("diff", {"diff": "@@ -1 +1 @@\n-three\n+four\n", "path": "new/a.txt"}),
    ("diff", {"diff": "no diff"}),
    ("list", {}),
    ("list", {"path": "none"}),
    ("tree", {}),
    ("tree", {"path": "none"}),
    ("glob", {"pattern": "**"}),
    ("glob", {"pattern": "/"}),
    ("grep", {"pattern": "four"}),
    ("grep", {"pattern": "("}),
    ("json_write", {"path": "b.json", "pointer": "", "value": '{"a": 1}'}),
    ("json_write", {"path": "b.json", "pointer": "/x/y", "value": "1"}),
    ("json_read", {"path": "b.json", "pointer": "/a"}),
    ("json_read", {"path": "b.json", "pointer": "/b"}),
    ("copy", {"source": "new", "target": "tree"}),
    ("copy", {"source": "new/a.txt", "target": "b.json", "overwrite": True}),
    ("copy", {"source": "pipe", "target": "other"}),
    ("move", {"source": "tree", "target": "moved"}),
    ("move", {"source": "tree", "target": "moved"}),
    ("delete", {"path": "moved", "recursive": True}),
    ("delete", {"path": "moved"}),
    ("bash", {"command": "cd /; umask 077; ulimit -n 50; export A=1; setsid sleep 1000 & trap '' TERM"}),
    ("bash", {"command": "sleep 1000", "timeout_s": 1}),
    ("bash", {"command": "true", "cwd": "none"}),
    ("python", {"code": "import os; os.chdir('/'); os.umask(0); os.fork()"}),
    ("python", {"code": "1 / 0"}),
    ("current_date", {"timezone": "Europe/Berlin"}),
    ("current_date", {"timezone": "Berln"}),
    ("sleep", {"seconds": 0.01}),
    ("introspect", {"level": "all"}),
    ("environment", {}),
    ("scratchpad", {"action": "set", "key": "a", "value": "b"}),
    ("scratchpad", {"action": "set"}),
    ("fetch", {"url": "http://127.0.0.1:9/"}),
    ("fetch", {"url": "ftp://127.0.0.1"}),
    ("search", {"query": "x"}),
]
OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "bash": {"session": True},
    "python": {"session": True},
    "fetch": {"private": True},
    "search": {"search": {"engine": "searxng", "url": "http://127.0.0.1:9"}},
}
LIMITS: Final = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]


def prctl_says(option: int) -> int:
    found = ctypes.c_int()
    libc.prctl(option, ctypes.addressof(found))
    return found.value


def of_this_process() -> dict[str, object]:
    """All that a call could leave changed."""
    umask = os.umask(0)
    os.umask(umask)
    return {
        "directory": Path.cwd(),
        "umask": umask,
        "handlers": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "blocked": signal.pthread_sigmask(signal.SIG_BLOCK, []),
        "timers": [
            signal.getitimer(kind)[1] for kind in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
        ],
        "limits": {kind: resource.getrlimit(kind) for kind in LIMITS},
        "variables": dict(os.environ),
        "descriptors": open_descriptors(),
        "children": children(),
        "adopts orphans": prctl_says(PR_GET_CHILD_SUBREAPER),
        "threads": set(threading.enumerate()),
        "priority": os.getpriority(os.PRIO_PROCESS, 0),
        "session and group": (os.getsid(0), os.getpgid(0)),
        "path": list(sys.path),
        "hooks": (sys.excepthook, sys.stdin, sys.stdout, sys.stderr, sys.getrecursionlimit(), sys.gettrace()),
        "temporary files": tempfile.tempdir,
        "locale": locale.setlocale(locale.LC_ALL),
        "warnings": list(warnings.filters),
    }


def left_by(before: dict[str, object], after: dict[str, object]) -> dict[str, object]:
    """What is another one than before; a thread of somebody else's may have ended meanwhile."""
    threads = cast("set[threading.Thread]", after["threads"]) - cast("set[threading.Thread]", before["threads"])
    left = {name: value for name, value in after.items() if value != before[name] and name != "threads"}
    return {**left, "threads": threads} if threads else left


def called(tool: str, ctx: ToolContext, fields: dict[str, Any]) -> None:
    tool_set = next(each for each in SETS.values() if tool in each.tools)
    function = cast("Callable[..., Any]", find_function(f"tooldispatchd.toolbox.{tool_set.tools[tool].function}"))
    wanted = {"ctx": ctx} if "ctx" in function.__annotations__ else {}
    try:
        if asyncio.iscoroutinefunction(function):
            trio.run(lambda: function(**fields, **wanted))
        else:
            function(**fields, **wanted)
    except (InvalidInputError, ToolFailedError):
        pass


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("x.pdf").write_bytes(pdf("a page"))
    Path("latin").write_bytes("Füße und Öl, auch größere Bäume.\n".encode("cp1252") * 9)
    os.mkfifo("pipe")
    tempfile.gettempdir()
    return tmp_path


def test_a_call_leaves_its_process_as_it_was(caller: Caller, here: Path) -> None:
    before = of_this_process()
    for tool, fields in CALLS:
        called(tool, caller.ctx(state={}, left_s=30.0, **OPTIONS.get(tool, {"guard": "off"})), fields)
        if left := left_by(before, of_this_process()):
            # What a site is fetched with is left to the collector.
            gc.collect()
            left = left_by(before, of_this_process())
        assert left == {}, (tool, fields)


def test_each_tool_is_among_those_calls() -> None:
    assert {tool for tool, _ in CALLS} == {tool for tool_set in SETS.values() for tool in tool_set.tools}
