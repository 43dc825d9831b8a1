"""What `status` draws: tables of at most a terminal's width. Names of agents, tools and servers never steer it."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text

from tooldispatchd.cli.dialogue import printable

Seen = dict[str, Any]
# One screen holds no more.
MOST_ROWS: Final = 10
# So wide a cell is not cut for the sake of others.
WHOLE: Final = 11
# Of names, with which all else has room in eighty columns.
NAME: Final = 20
# Of an agent, as `tree` has it too: without a word its row would look like a part of the one above.
UNNAMED: Final = "agent"
# A heading, a text, and its style.
_Row = tuple[str, str, str]
_UNITS: Final = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
_SMALL_UNITS: Final = (("us", 1e-6), ("ms", 1e-3))
_STYLES: Final = {"dead": "red", "opening": "yellow", "up": "green", "draining": "yellow", "closed": "dim"}
# Of servers.
_STATES: Final = ("up", "asleep", "opening", "dead", "kept", "spare")
_URGENCY: Final = {"dead": 0, "opening": 1}
# Of those who hold most memory, on one line.
MOST_USERS: Final = 3


def status_screen(seen: Seen, now: float) -> list[Table | Text]:
    """The pieces of the screen, from above."""
    pieces: list[Table | Text] = [_whole(seen["status"], now)]
    sessions, servers = seen.get("sessions", []), seen.get("servers", [])
    if sessions:
        pieces += [Text(), *_sessions(sessions, now)]
    if servers:
        pieces += [Text(), *_servers(servers)]
    tools = [(title, seen["status"].get(key, [])) for title, key in (("slowest", "slowest"), ("failing", "failing"))]
    pieces += [piece for title, found in tools if found for piece in (Text(), _tools(title, found))]
    return pieces


def _whole(status: Seen, now: float) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for heading, text, style in (*_identity(status, now), *_load(status), *_health(status, now)):
        table.add_row(heading, _text(text, style))
    return table


def _identity(status: Seen, now: float) -> Iterator[_Row]:
    state, config = status.get("state", ""), status.get("config")
    about = f"{lasting(status)}, version {status.get('version')}, pid {status.get('pid')}"
    yield "daemon", f"{about}, uid {status.get('uid')}", _STYLES.get(state, "")
    if status.get("drain_left_s") is not None:
        calls, sessions = status.get("calls", {}), status.get("sessions", {})
        waits = f"{counted(calls.get('in_flight'), 'calls')} of {counted(sessions.get('open'), 'sessions')}"
        yield "waits for", f"{waits}, for {span(status['drain_left_s'])} more at most", "yellow"
    if config:
        age = span(now - config.get("loaded_at", now))
        yield "config", f"{config.get('path')} {config.get('sha256', '')[:12]}, read {age} ago", ""
        if (generation := config.get("generation")) is not None:
            yield "", f"generation {generation}", ""
    yield "listening", ", ".join(status.get("listening", [])), ""


def lasting(status: Seen) -> str:
    """The daemon's state, and since when it runs."""
    state, up = status.get("state", ""), span(status.get("uptime_s", 0))
    return f"{state} for {up}" if state == "serving" else f"{state}, started {up} ago"


def _load(status: Seen) -> Iterator[_Row]:
    sessions, calls, processes = (status.get(name, {}) for name in ("sessions", "calls", "processes"))
    open_ones = f"{sessions.get('open')} of {sessions.get('limit')}, {sessions.get('opened')} in all"
    yield "sessions", f"{open_ones}; {counted(status.get('channels'), 'channels')}", ""
    in_flight = f"{calls.get('in_flight')} in flight, {calls.get('waiting')} waiting"
    answered = f"{calls.get('answered')} answered, {calls.get('faults')} with a fault"
    yield "calls", f"{in_flight}, {counted(status.get('jobs'), 'jobs')}; {answered}", ""
    if servers := _counts(status.get("servers", {}), _STATES):
        yield "servers", servers, ""
    places = f"{processes.get('in_use')} of {processes.get('places')} places, {processes.get('waiting')} wait"
    forkers = _counts(processes, ("launchers", "warm_parents"))
    children = counted(processes.get("children"), "child processes")
    yield "processes", f"{children}; {places}{forkers and '; '}{forkers}", ""


def _health(status: Seen, now: float) -> Iterator[_Row]:
    memory, turn, log = (status.get(name, {}) for name in ("memory", "longest_turn", "log"))
    held = f"{size(memory.get('held'))} of {size(memory.get('limit'))} held"
    yield "memory", f"{held}, {size(memory.get('rss'))} resident", ""
    if greediest := memory.get("greediest"):
        yield "", f"most: {', '.join(map(_user, greediest[:MOST_USERS]))}", ""
    if fault := status.get("last_fault"):
        yield "fault", f"the last: {fault_told(fault, now)}", "red"
    if near := ", ".join(f"{each['limit']} {each['used']} of {each['of']}" for each in status.get("near", [])):
        yield "near", near, "yellow"
    yield "loop", f"longest turn {turn.get('ms')} ms: {turn.get('task')}", ""
    yield "log", f"{log.get('level')}{_lost('; lines lost: {}', log)}", "red" if log.get("lost") else ""
    if audit := status.get("audit"):
        lost, failure = _lost("records lost: {}", audit), audit.get("failure")
        fails = "" if failure is None else f"fails for {span(now - failure['since'])}: {failure['why']}"
        waits = f"{counted(audit['waiting'], 'records')} to be written" if audit.get("waiting") else ""
        said = "; ".join(filter(None, (fails, lost or "nothing lost", waits)))
        yield "audit", said, "red" if lost or fails else ""


def _counts(numbers: Seen, names: Iterable[str]) -> str:
    """Those that are not 0."""
    return ", ".join(counted(numbers[name], name.replace("_", " ")) for name in names if numbers.get(name))


def _lost(words: str, counted: Seen) -> str:
    return words.format(counted["lost"]) if counted.get("lost") else ""


def _user(user: Seen) -> str:
    whose = "shared servers" if user["uid"] is None else f"uid {user['uid']}"
    return f"{whose} {size(user['held'])}"


def agent_name(seen: Seen) -> str:
    """Name an agent, one without a name by its program and process."""
    program = f"{seen['program']} {seen.get('pid')}" if "program" in seen else UNNAMED
    return str(seen.get("agent") or program)


def fault_told(fault: Seen, now: float) -> str:
    """Tell of a fault: when, of which tool, and its sentence."""
    return f"{fault['tool']}, {span(now - fault['at'])} ago: {fault['detail']}"


def _sessions(sessions: Sequence[Seen], now: float) -> list[Table | Text]:
    busiest = sorted(sessions, key=lambda each: (each.get("oldest_call_s", -1.0), each["number"]), reverse=True)
    rows = [
        [
            agent_name(each),
            each["number"],
            each["profile"],
            each["uid"],
            each.get("pid", ""),
            span(now - each["opened_at"]),
            each["in_flight"],
            "" if "oldest_call_s" not in each else span(each["oldest_call_s"]),
        ]
        for each in busiest[:MOST_ROWS]
    ]
    headings = ("agent", "session", "profile", "uid", "pid", "age", "calls", "oldest")
    return [_table(headings, rows), *_more(sessions)]


def _servers(servers: Sequence[Seen]) -> list[Table | Text]:
    # What is wrong comes first.
    shown = sorted(servers, key=lambda one: (_URGENCY.get(one["state"], 2), one["name"]))[:MOST_ROWS]
    rows = [
        [
            each["name"],
            _text(each["state"], _STYLES.get(each["state"], "")),
            counted(each["sessions"], "sessions") if "sessions" in each else f"session {each.get('session')}",
            each.get("revision", ""),
            each["tools"],
            each["restarts"],
            each["in_flight"],
        ]
        for each in shown
    ]
    table = _table(("server", "state", "of", "revision", "tools", "restarts", "calls"), rows)
    errors = dict.fromkeys(each["last_error"] for each in shown if "last_error" in each)
    told = Table(box=None, show_header=False, pad_edge=False)
    told.add_column(style="red", no_wrap=True, overflow="ellipsis")
    for error in errors:
        told.add_row(_text(error))
    return [table, *_more(servers), *([told] if errors else [])]


def _tools(title: str, tools: Sequence[Seen]) -> Table:
    rows = [
        [
            each["name"] or "no tool",
            each["calls"],
            each["errors"],
            sum(each["faults"].values()),
            *(span(each[key] / 1000) if key in each else "" for key in ("p50_ms", "p95_ms", "max_ms")),
        ]
        for each in tools
    ]
    return _table((title, "calls", "errors", "faults", "p50", "p95", "longest"), rows)


def _table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """Names, which stand first, give way where there is no room; the rest does as far as it is long itself."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    named = [[middle(printable(str(row[0]))), *row[1:]] for row in rows]
    cells = [[each if isinstance(each, Text) else _text(str(each)) for each in row] for row in named]
    for at, heading in enumerate(headings):
        widest = max([len(heading), *(len(row[at]) for row in cells)])
        least, most = (min(widest, WHOLE), None) if at else (None, NAME)
        table.add_column(heading, no_wrap=True, overflow="ellipsis", min_width=least, max_width=most)
    for row in cells:
        table.add_row(*row)
    return table


def _more(things: Sequence[object]) -> list[Text]:
    return [Text(f"and {len(things) - MOST_ROWS} more", "dim")] if len(things) > MOST_ROWS else []


def _text(text: str, style: str = "") -> Text:
    return Text(printable(text), style)


def middle(name: str, width: int = NAME) -> str:
    """A name that is too wide is cut in the middle: many begin alike, and end with what tells them apart."""
    if cell_len(name) <= width:
        return name
    kept = width - 1
    return f"{set_cell_size(name, kept - kept // 2)}…{name[-(kept // 2) :]}"


def counted(number: object, things: str) -> str:
    """So many `things`, which has the plural."""
    one = things.removesuffix("es") if things.endswith("sses") else things.removesuffix("s")
    return f"{number} {one if number == 1 else things}"


def span(seconds: float) -> str:
    """A duration: of less than a minute two digits, else its two largest units."""
    for name, unit in _SMALL_UNITS:
        if 0 < seconds / unit < 999.5:
            return f"{_two_digits(seconds / unit)} {name}"
    if 0 < seconds < 59.5:
        return f"{_two_digits(seconds)} s"
    left, parts = max(round(seconds), 0), []
    for name, unit in _UNITS:
        if left >= unit:
            parts.append(f"{left // unit} {name}")
            left %= unit
    return " ".join(parts[:2]) or "0 s"


def _two_digits(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0") if number < 9.95 else f"{number:.0f}"


def size(count: int | None) -> str:
    """Bytes in a unit in which they are a small number."""
    if count is None:
        return "?"
    for name, unit in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} bytes"
