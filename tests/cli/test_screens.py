"""What `status` draws, as text of eighty columns."""

import io

from rich.console import Console

from tooldispatchd.cli.screens import size, span, status_screen

NOW = 1_764_000_000.0
STATUS = {
    "version": "0.1.0",
    "pid": 71,
    "uid": 1000,
    "state": "serving",
    "uptime_s": 93784.0,
    "listening": ["unix:/run/dispatch.sock"],
    "sessions": {"open": 2, "opened": 17, "limit": 20000},
    "channels": 3,
    "calls": {"in_flight": 1, "waiting": 0, "answered": 230, "faults": 2},
    "jobs": 0,
    "servers": {"asleep": 0, "opening": 1, "up": 20, "dead": 2, "kept": 0, "spare": 3},
    "processes": {"children": 3, "places": 8, "in_use": 1, "waiting": 0, "launchers": 2, "warm_parents": 1},
    "memory": {"held": 90_000, "limit": 536870912, "rss": 55_000_000, "greediest": [{"uid": 1000, "held": 80_000}]},
    "near": [{"limit": "processes", "used": 7, "of": 8}],
    "slowest": [],
    "failing": [
        {"name": "fetch[red]", "calls": 9, "errors": 1, "faults": {"timeout": 2}, "p50_ms": 1.5, "p95_ms": 1200.0}
    ],
    "longest_turn": {"ms": 2.1, "task": "front"},
    "log": {"level": "info", "lost": 12},
    "audit": {"lost": 3, "waiting": 700, "failure": {"since": NOW - 90, "why": "cannot write to a.db: disk full"}},
    "last_fault": {"at": NOW - 4, "tool": "fetch", "code": "timeout", "session": 2, "detail": "it took over 60 s\x1b"},
}
SESSIONS = [
    {"number": 1, "profile": "p", "uid": 1000, "program": "node", "pid": 9, "opened_at": NOW - 60, "in_flight": 0},
    {
        "number": 2,
        "agent": "ada\x1b[2J",
        "profile": "p",
        "uid": 0,
        "opened_at": NOW - 7200,
        "in_flight": 1,
        "oldest_call_s": 2.0,
    },
]
SERVERS = [
    {
        "name": "steady",
        "state": "up",
        "session": 1,
        "revision": "2025-11-25",
        "tools": 3,
        "restarts": 0,
        "in_flight": 1,
    },
    {
        "name": "a server with a long name",
        "state": "dead",
        "sessions": 12,
        "tools": 0,
        "restarts": 4,
        "in_flight": 0,
        "last_error": "it ended with exit code 3, and then said a great deal about the reasons for which it had to",
    },
]


def drawn(seen: dict[str, object], width: int = 80) -> list[str]:
    console = Console(file=io.StringIO(), width=width, no_color=True)
    for piece in status_screen(seen, NOW):
        console.print(piece)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_the_screen_of_a_busy_daemon() -> None:
    assert drawn({"status": STATUS, "sessions": SESSIONS, "servers": SERVERS}) == [
        "daemon     serving for 1 d 2 h, version 0.1.0, pid 71, uid 1000",
        "listening  unix:/run/dispatch.sock",
        "sessions   2 of 20000, 17 in all; 3 channels",
        "calls      1 in flight, 0 waiting, 0 jobs; 230 answered, 2 with a fault",
        "servers    20 up, 1 opening, 2 dead, 3 spare",
        "processes  3 child processes; 1 of 8 places, 0 wait; 2 launchers, 1 warm parent",
        "memory     87.9 KiB of 512.0 MiB held, 52.5 MiB resident",
        "           most: uid 1000 78.1 KiB",
        "fault      the last: fetch, 4 s ago: it took over 60 s",
        "near       processes 7 of 8",
        "loop       longest turn 2.1 ms: front",
        "log        info; lines lost: 12",
        "audit      fails for 1 min 30 s: cannot write to a.db: disk full; records lost:",
        "           3; 700 records to be written",
        "",
        "agent    session  profile  uid   pid  age    calls  oldest",
        "ada [2J  2        p        0          2 h    1      2 s",
        "node 9   1        p        1000  9    1 min  0",
        "",
        "server                state  of           revision    tools  restarts  calls",
        "a server w…long name  dead   12 sessions              0      4         0",
        "steady                up     session 1    2025-11-25  3      0         1",
        "it ended with exit code 3, and then said a great deal about the reasons for whi…",
        "",
        "failing     calls  errors  faults  p50     p95    longest",
        "fetch[red]  9      1       2       1.5 ms  1.2 s",
    ]


def test_what_is_as_it_should_be_takes_no_room() -> None:
    quiet = {
        "servers": {"up": 0, "dead": 0},
        "log": {"level": "info", "lost": 0},
        "audit": {"lost": 0, "waiting": 0, "failure": None},
    }
    lines = drawn({"status": {**STATUS, **quiet, "memory": {"greediest": []}}})
    assert [line for line in lines if line.startswith(("servers", "log", "audit", "      "))] == [
        "log        info",
        "audit      nothing lost",
    ]


def test_a_daemon_that_drains_says_what_it_waits_for() -> None:
    draining = {"state": "draining", "uptime_s": 60.0, "drain_left_s": 40.0, "sessions": {"open": 1}}
    assert drawn({"status": {**STATUS, **draining}})[:2] == [
        "daemon     draining, started 1 min ago, version 0.1.0, pid 71, uid 1000",
        "waits for  1 call of 1 session, for 40 s more at most",
    ]


def test_no_screen_is_wider_than_its_terminal() -> None:
    for width in (40, 80, 200):
        lines = drawn({"status": STATUS, "sessions": SESSIONS * 9, "servers": SERVERS * 9}, width)
        assert max(map(len, lines)) <= width
        assert "and 8 more" in lines


def test_spans_and_sizes_are_in_units_of_their_own() -> None:
    spans = (0, 0.0000419, 0.000166, 0.0012, 0.9999, 1.25, 12.2, 59.6, 111.6, 3600, 90061)
    said = ["0 s", "42 us", "166 us", "1.2 ms", "1 s", "1.2 s", "12 s", "1 min", "1 min 52 s", "1 h", "1 d 1 h"]
    assert [span(seconds) for seconds in spans] == said
    assert [size(count) for count in (None, 12, 2048, 3 << 30)] == ["?", "12 bytes", "2.0 KiB", "3.0 GiB"]
