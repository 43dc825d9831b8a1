"""What `tree` draws, as text of eighty columns."""

import io

from rich.console import Console

from tooldispatchd.cli.treescreen import tree_screen

NOW = 1_764_000_000.0
ADA = {"number": 1, "agent": "ada\x1b[2J", "profile": "default", "state": "open", "uid": 1000, "opened_at": NOW - 90}
HELPER = {"number": 2, "profile": "helper", "state": "open", "uid": 1000, "opened_at": NOW - 12, "parent": 1, "root": 1}
PYTHON = {"program": "python3", "pid": 4711}
CALLS = [
    {"session": 1, "tool": "research", "state": "running", "age_s": 12.2, "child": 2, "job": "job-1"},
    {"session": 2, "tool": "fetch", "state": "waiting", "stage": "queue", "age_s": 3.0, "above": 1},
]


def ended(session: int, tool: str, outcome: str, ago_s: float, took_s: float, **more: object) -> dict[str, object]:
    return {"session": session, "tool": tool, "outcome": outcome, "ended_at": NOW - ago_s, "took_s": took_s, **more}


ENDED = [
    ended(3, "grep", "ok", 300, 0.2, profile="helper", parent=1, root=1, **PYTHON),
    ended(2, "grep", "ok", 8, 1.25, profile="helper", parent=1, root=1),
    ended(2, "grep", "ok", 5, 0.2, profile="helper", parent=1, root=1),
    ended(1, "fetch", "timeout", 65, 60.1, profile="default"),
    ended(9, "grep", "error", 600, 0.01, profile="other", agent="bob", parent=8, root=7),
]


def drawn(seen: dict[str, object], width: int = 80) -> list[str]:
    console = Console(file=io.StringIO(), width=width, no_color=True)
    for piece in tree_screen(seen, NOW):
        console.print(piece)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_agents_stand_below_the_calls_that_they_serve() -> None:
    seen = {"sessions": [ADA, HELPER], "calls": CALLS, "ended": ENDED, "left_out": 4}
    assert drawn(seen) == [
        "ada [2J  session 1, default, uid 1000, 1 min 30 s",
        "├── research  running for 12 s, job-1",
        "│   └── agent  session 2, helper, uid 1000, 12 s",
        "│       ├── fetch  waiting for 3 s: queue",
        "│       └── grep  2 ok, the last 5 s ago, 1.2 s at most",
        "├── fetch  1 timeout, the last 1 min 5 s ago, 1 min at most",
        "└── python3 4711  session 3, helper, closed",
        "    └── grep  1 ok, the last 5 min ago, 200 ms at most",
        "bob  session 9, other, closed",
        "└── grep  1 error, the last 10 min ago, 10 ms at most",
        "and 4 more",
    ]
    assert max(map(len, drawn(seen, 30))) == 30


def test_a_daemon_without_agents_has_no_tree() -> None:
    said = "no agent is connected, and none has called a tool in the last ten minutes"
    assert drawn({"sessions": [], "calls": [], "ended": []}) == [said]
