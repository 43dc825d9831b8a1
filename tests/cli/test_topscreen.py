"""What `top` draws after which keys."""

from tooldispatchd.cli.topscreen import TopScreen

NOW = 1_764_000_000.0
STATUS = {
    "state": "serving",
    "uptime_s": 61.0,
    "sessions": {"open": 2},
    "calls": {"in_flight": 1, "waiting": 0, "answered": 12},
    "memory": {"rss": 1 << 26},
}
ADA = {"number": 1, "agent": "ada", "profile": "p", "in_flight": 0, "waiting": 0, "answered": 9, "faults": 0, "pid": 7}
BOB = {**ADA, "number": 2, "agent": "bob\x1b[2J", "in_flight": 1, "answered": 3, "oldest_call_s": 2.0}
TOOL = {"kind": "mcp", "provider": "docs", "in_flight": 0, "errors": 0, "faults": {"timeout": 2}, "p50_ms": 1500.0}
CALL = {
    "session": 2,
    "program": "node",
    "pid": 9,
    "id": "c1",
    "tool": "fetch",
    "state": "waiting",
    "stage": "queue",
    "age_s": 2.0,
    "provider": "docs",
}
ENDED = {
    "session": 1,
    "agent": "ada",
    "id": "c2",
    "tool": "fetch",
    "outcome": "ok",
    "ended_at": NOW - 4,
    "took_s": 0.5,
    "provider": "docs",
}


def tools(*calls: int) -> dict[str, object]:
    return {"tools": [{**TOOL, "name": f"fetch{at or ''}", "calls": count} for at, count in enumerate(calls)]}


def lines(screen: TopScreen, width: int = 80, height: int = 9) -> list[str]:
    drawn = [line.plain.rstrip() for line in screen.draw(width, height)]
    assert len(drawn) <= height
    assert max(map(len, drawn)) <= width
    return drawn


def test_agents_are_sorted_by_any_column_and_the_keys_are_told() -> None:
    screen = TopScreen()
    screen.see([STATUS, {"sessions": [ADA, BOB]}], NOW)
    assert lines(screen) == [
        "serving for 1 min 1 s, 2 sessions; calls: 1, 0 wait, 12 answered; 64.0 MiB",
        "[agents] servers  tools",
        "  agent    session  profile  calls  wait  oldest↓  answered  faults  pid",
        "> bob [2J  2        p        1      0     2 s      3         0       7",
        "  ada      1        p        0      0              9         0       7",
        *[""] * 3,
        "q quit  a agents  s servers  t tools  ↑↓ Enter into  < > sort  r reverse",
    ]
    screen.press(">")
    assert [line[:5] for line in lines(screen)[3:5]] == ["> ada", "  bob"]
    screen.press("r")
    assert [line[:5] for line in lines(screen)[3:5]] == ["> bob", "  ada"]


def test_a_daemon_that_hangs_is_said_to_and_what_was_seen_stays() -> None:
    screen = TopScreen()
    screen.see([STATUS, {"sessions": [ADA]}], NOW)
    screen.miss("the daemon did not answer within 5 s")
    assert lines(screen)[0] == "the daemon did not answer within 5 s; this is as it was before"
    assert lines(screen)[3].startswith("> ada")
    screen.see([STATUS, {"sessions": [ADA]}], NOW)
    assert lines(screen)[0].startswith("serving")


def test_what_was_chosen_stays_so_and_is_gone_into_and_left() -> None:
    screen = TopScreen()
    screen.see([STATUS, {"sessions": [ADA, BOB]}], NOW)
    screen.press("down")
    screen.see([STATUS, {"sessions": [{**ADA, "oldest_call_s": 9.0}, BOB]}], NOW)
    assert lines(screen)[3].startswith("> ada")
    screen.press("up")
    screen.press("down")
    screen.press("enter")
    assert screen.asks[2] == ("calls", {"session": 2})
    screen.see([STATUS, {"sessions": [ADA]}, {"calls": [CALL], "ended": []}], NOW)
    assert lines(screen)[1:5] == [
        "session 2, profile p, calls 1, wait 0, oldest 2 s, answered 3, faults 0, pid 7",
        "agents > bob [2J: its calls",
        "  tool   state  ended ago↓  took  agent   session  id",
        "> fetch  queue              2 s   node 9  2        c1",
    ]
    screen.press("escape")
    assert lines(screen)[1] == "[agents] servers  tools"
    assert not screen.is_over
    screen.press("q")
    assert screen.is_over


def test_tools_have_a_rate_and_calls_of_every_session() -> None:
    screen = TopScreen()
    screen.press("t")
    screen.see([STATUS, tools(10, 20)], NOW)
    screen.see([STATUS, tools(30, 21)], NOW + 2)
    assert lines(screen)[2:5] == [
        "  tool    now  per s↓  calls  errors  faults  p50    p95  longest  from",
        "> fetch   0    10.0    30     0       2       1.5 s                docs",
        "  fetch1  0    0.5     21     0       2       1.5 s                docs",
    ]
    screen.press("enter")
    assert screen.asks[2] == ("calls", {"session": None})
    other = {**ENDED, "tool": "grep"}
    screen.see([STATUS, tools(30, 21), {"calls": [CALL], "ended": [ENDED, other]}], NOW)
    assert lines(screen)[3:6] == [
        "  tool   state  ended ago↓  took    agent   session  id",
        "> fetch  queue              2 s     node 9  2        c1",
        "  fetch  ok     4 s         500 ms  ada     1        c2",
    ]


def test_the_last_fault_is_told_of_the_daemon_and_of_what_was_gone_into() -> None:
    fault = {"at": NOW - 4, "tool": "fetch", "code": "timeout", "session": 1, "detail": "it took over 60 s\x1b"}
    status = {**STATUS, "last_fault": fault}
    screen = TopScreen()
    screen.see([status, {"sessions": [ADA]}], NOW)
    assert lines(screen)[1:3] == ["last fault: fetch, 4 s ago: it took over 60 s", "[agents] servers  tools"]
    screen.press("enter")
    failed = {**ENDED, "outcome": "invalid_input", "detail": "its own", "ended_at": NOW - 9}
    screen.see([status, {"sessions": [ADA]}, {"calls": [], "ended": [failed, ENDED]}], NOW)
    assert lines(screen)[2:4] == ["last fault: fetch, 9 s ago: its own", "agents > ada: its calls"]


def test_calls_of_a_server_are_those_of_its_session_unless_it_is_shared() -> None:
    screen = TopScreen()
    screen.press("s")
    server = {"name": "docs", "state": "up", "in_flight": 1, "restarts": 0, "tools": 2}
    calls = {"calls": [CALL, {**CALL, "id": "c3", "provider": "wiki"}], "ended": [ENDED]}
    for where, found in (({"sessions": 2}, ["c1", "c2"]), ({"session": 1}, ["c2"])):
        screen.see([STATUS, {"servers": [{**server, **where}]}], NOW)
        screen.press("enter")
        screen.see([STATUS, {"servers": [{**server, **where}]}, calls], NOW)
        assert [line[-2:] for line in lines(screen)[4 : 4 + len(found)]] == found
        assert not lines(screen)[4 + len(found)]
        screen.press("escape")


def test_a_small_terminal_has_fewer_columns_and_the_rows_around_the_chosen_one() -> None:
    screen = TopScreen()
    screen.see([STATUS, {"sessions": [{**ADA, "number": at} for at in range(1, 100)], "left_out": 7}], NOW)
    assert lines(screen)[1] == "[agents] servers  tools  and 7 more"
    for _ in range(50):
        screen.press("down")
    drawn = lines(screen, 24, 12)
    assert drawn[2] == "  agent  session"
    assert [line for line in drawn if line.startswith(">")] == ["> ada    51"]
    for width, height in ((1, 1), (8, 3), (200, 50)):
        lines(screen, width, height)
