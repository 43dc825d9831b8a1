"""What `status` draws: tables of at most a terminal's width. Names of agents, tools and servers never steer it."""

from collections.abc import Sequence
from typing import Any, Final

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
_UNITS: Final = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
_STYLES: Final = {"dead": "red", "opening": "yellow", "up": "green", "draining": "yellow", "closed": "dim"}


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
    state = status.get("state", "")
    about = f"{state} for {span(status.get('uptime_s', 0))}, version {status.get('version')}, pid {status.get('pid')}"
    table.add_row("daemon", _text(f"{about}, uid {status.get('uid')}", _STYLES.get(state, "")))
    config = status.get("config")
    if config:
        age = span(now - config.get("loaded_at", now))
        generation = config.get("generation")
        table.add_row("config", _text(f"{config.get('path')} {config.get('sha256', '')[:12]}, read {age} ago"))
        if generation is not None:
            table.add_row("", _text(f"generation {generation}"))
    table.add_row("listening", _text(", ".join(status.get("listening", []))))
    sessions, calls = status.get("sessions", {}), status.get("calls", {})
    table.add_row(
        "sessions",
        _text(
            f"{sessions.get('open')} of {sessions.get('limit')}, {sessions.get('opened')} in all; "
            f"{status.get('channels')} channels"
        ),
    )
    table.add_row(
        "calls",
        _text(
            f"{calls.get('in_flight')} in flight, {calls.get('waiting')} of them wait, {status.get('jobs')} are jobs; "
            f"{calls.get('answered')} answered, {calls.get('faults')} with a fault"
        ),
    )
    processes, memory = status.get("processes", {}), status.get("memory", {})
    table.add_row(
        "processes",
        _text(
            f"{processes.get('children')} children; {processes.get('in_use')} of {processes.get('places')} places, "
            f"{processes.get('waiting')} wait"
        ),
    )
    table.add_row(
        "memory",
        _text(f"{size(memory.get('held'))} of {size(memory.get('limit'))} held, {size(memory.get('rss'))} resident"),
    )
    near = ", ".join(f"{each['limit']} {each['used']} of {each['of']}" for each in status.get("near", []))
    if near:
        table.add_row("near", _text(near, "yellow"))
    turn = status.get("longest_turn", {})
    table.add_row("loop", _text(f"longest turn {turn.get('ms')} ms: {turn.get('task')}"))
    table.add_row("log", _text(str(status.get("log", {}).get("level"))))
    return table


def _sessions(sessions: Sequence[Seen], now: float) -> list[Table | Text]:
    busiest = sorted(sessions, key=lambda each: (each.get("oldest_call_s", -1.0), each["number"]), reverse=True)
    rows = [
        [
            each.get("agent", ""),
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
    shown = sorted(servers, key=lambda one: (one["state"] != "dead", one["name"]))[:MOST_ROWS]
    rows = [
        [
            each["name"],
            _text(each["state"], _STYLES.get(each["state"], "")),
            f"{each['sessions']} sessions" if "sessions" in each else f"session {each.get('session')}",
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
            *(f"{each[key]:.4g} ms" if key in each else "" for key in ("p50_ms", "p95_ms", "max_ms")),
        ]
        for each in tools
    ]
    return _table((title, "calls", "errors", "faults", "p50", "p95", "longest"), rows)


def _table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """Names, which stand first, give way where there is no room; the rest does as far as it is long itself."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    cells = [[each if isinstance(each, Text) else _text(str(each)) for each in row] for row in rows]
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


def span(seconds: float) -> str:
    """A duration in its two largest units."""
    left, parts = max(round(seconds), 0), []
    for name, unit in _UNITS:
        if left >= unit:
            parts.append(f"{left // unit} {name}")
            left %= unit
    return " ".join(parts[:2]) or "0 s"


def size(count: int | None) -> str:
    """Bytes in a unit in which they are a small number."""
    if count is None:
        return "?"
    for name, unit in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} bytes"
