"""What `top` shows, and what its keys do: three lists, and the calls of what was chosen in one of them. Pure.

agents ◀─a s t─▶ servers ◀─a s t─▶ tools
   │                │                │      Enter into the chosen one, Esc back
   └────────────────┴────────────────┴──▶ its calls: those in flight, and those of the last ten minutes
"""

from collections.abc import Callable, Mapping
from textwrap import wrap
from typing import Any, Final, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from tooldispatchd.cli.dialogue import printable
from tooldispatchd.cli.screens import NAME, Seen, agent_name, counted, fault_told, lasting, middle, size, span

CALLS: Final = "calls"
# A screen that is narrower shows no less.
_LEAST_COLUMNS: Final = 2
_BETWEEN: Final = "  "
_LIST_KEYS: Final = "q quit  a agents  s servers  t tools  ↑↓ Enter into  < > sort  r reverse"
_CALLS_KEYS: Final = "q quit  Esc back  ↑↓ move  < > sort  r reverse"


class _Column(NamedTuple):
    """`value` is what it is sorted by: all texts, or all numbers; None of what is not known."""

    heading: str
    value: Callable[[Seen], Any]
    shown: Callable[[Any], str] = str


class _List(NamedTuple):
    """What is asked for, what tells one entry from the others, and the columns, the first ones never left out."""

    ask: str
    key: Callable[[Seen], object]
    sorted_by: int
    columns: tuple[_Column, ...]


def _milliseconds(value: float) -> str:
    return span(value / 1000)


def _server_of(row: Seen) -> str:
    return counted(row["sessions"], "sessions") if "sessions" in row else f"session {row.get('session')}"


LISTS: Final[Mapping[str, _List]] = {
    "agents": _List(
        "sessions",
        lambda row: row["number"],
        5,
        (
            _Column("agent", agent_name),
            _Column("session", lambda row: row["number"]),
            _Column("profile", lambda row: row["profile"]),
            _Column("calls", lambda row: row["in_flight"]),
            _Column("wait", lambda row: row["waiting"]),
            _Column("oldest", lambda row: row.get("oldest_call_s"), span),
            _Column("answered", lambda row: row["answered"]),
            _Column("faults", lambda row: row["faults"]),
            _Column("pid", lambda row: row.get("pid")),
        ),
    ),
    "servers": _List(
        "servers",
        lambda row: (row["name"], row.get("session")),
        1,
        (
            _Column("server", lambda row: row["name"]),
            _Column("state", lambda row: row["state"]),
            _Column("of", _server_of),
            _Column("calls", lambda row: row["in_flight"]),
            _Column("restarts", lambda row: row["restarts"]),
            _Column("tools", lambda row: row["tools"]),
            _Column("pid", lambda row: row.get("pid")),
        ),
    ),
    "tools": _List(
        "tools",
        lambda row: (row["name"], row["kind"], row["provider"]),
        2,
        (
            _Column("tool", lambda row: row["name"] or "no tool"),
            _Column("now", lambda row: row["in_flight"]),
            _Column("per s", lambda row: row.get("per_s"), lambda rate: f"{rate:.1f}"),
            _Column("calls", lambda row: row["calls"]),
            _Column("errors", lambda row: row["errors"]),
            _Column("faults", lambda row: sum(row["faults"].values())),
            _Column("p50", lambda row: row.get("p50_ms"), _milliseconds),
            _Column("p95", lambda row: row.get("p95_ms"), _milliseconds),
            _Column("longest", lambda row: row.get("max_ms"), _milliseconds),
            _Column("from", lambda row: row["provider"]),
        ),
    ),
    CALLS: _List(
        CALLS,
        lambda row: (row["session"], row["id"], row.get("ended_at")),
        2,
        (
            _Column("tool", lambda row: row["tool"]),
            _Column("state", lambda row: row.get("outcome") or row.get("stage") or row["state"]),
            _Column("ended ago", lambda row: row.get("ago_s"), span),
            _Column("took", lambda row: row.get("took_s", row.get("age_s")), span),
            _Column("agent", agent_name),
            _Column("session", lambda row: row["session"]),
            _Column("id", lambda row: row["id"]),
        ),
    ),
}
# Of these the least comes first, and texts are in the order of the alphabet; of all other numbers the most.
_LEAST_FIRST: Final = {"session", "pid", "ended ago"}


class TopScreen:
    """One screen, from what was `seen` last and the keys that were pressed since it was made."""

    def __init__(self) -> None:
        self.is_over = False
        self._list = "agents"
        # The entry whose calls are shown.
        self._into: Seen | None = None
        self._chosen: dict[str, object] = {}
        self._sorted_by = {name: each.sorted_by for name, each in LISTS.items()}
        self._reversed: set[str] = set()
        self._status: Seen = {}
        self._entries: list[Seen] = []
        self._calls: list[Seen] = []
        self._left_out = 0
        self._missed = ""
        self._counted: dict[object, int] = {}
        self._counted_at = 0.0
        self._now = 0.0

    # --- what is seen ---

    @property
    def asks(self) -> list[tuple[str, dict[str, object]]]:
        """What has to be asked for, with the fields."""
        asks: list[tuple[str, dict[str, object]]] = [("status", {}), (LISTS[self._list].ask, {})]
        if self._into is not None:
            asks.append((CALLS, {"session": self._into["number"] if self._list == "agents" else None}))
        return asks

    def see(self, answers: list[Seen], now: float) -> None:
        """The answers to `asks`, at `now` in Unix seconds."""
        self._missed, self._now = "", now
        self._status, listed = answers[:2]
        self._entries = listed[LISTS[self._list].ask]
        self._left_out = answers[-1].get("left_out", 0)
        if self._list == "tools":
            self._count(now)
        if self._into is not None:
            key = LISTS[self._list].key
            self._into = next((row for row in self._entries if key(row) == key(self._into)), self._into)
            ended = [{**call, "ago_s": now - call["ended_at"]} for call in answers[2]["ended"]]
            self._calls = [call for call in (*answers[2]["calls"], *ended) if self._is_of(self._into, call)]

    def miss(self, why: str) -> None:
        """There were no answers: what was seen last stays, and is said to be old."""
        self._missed = why

    def _count(self, now: float) -> None:
        key, passed_s = LISTS["tools"].key, now - self._counted_at
        for row in self._entries:
            if key(row) in self._counted and passed_s > 0:
                row["per_s"] = (row["calls"] - self._counted[key(row)]) / passed_s
        self._counted, self._counted_at = {key(row): row["calls"] for row in self._entries}, now

    def _is_of(self, entry: Seen, call: Seen) -> bool:
        if self._list == "agents":
            return bool(call["session"] == entry["number"])
        if self._list == "servers":
            return call.get("provider") == entry["name"] and entry.get("session") in {None, call["session"]}
        return (call["tool"], call.get("provider", "")) == (entry["name"], entry["provider"])

    # --- keys ---

    def press(self, key: str) -> None:
        """Do what a key stands for, if it does."""
        lists = {name[0]: name for name in ("agents", "servers", "tools")}
        if key == "q":
            self.is_over = True
        elif key in lists:
            self._list, self._into, self._entries = lists[key], None, []
        elif key == "enter" and self._into is None:
            self._into, self._calls = self._chosen_row(), []
        elif key in {"escape", "backspace"}:
            self._into = None
        elif key in {"up", "k", "down", "j"}:
            self._move(1 if key in {"down", "j"} else -1)
        elif key in {"<", ">", "left", "right"}:
            self._sort(1 if key in {">", "right"} else -1)
        elif key == "r":
            self._reversed ^= {self._shown}

    @property
    def _shown(self) -> str:
        return self._list if self._into is None else CALLS

    def _sort(self, step: int) -> None:
        columns = len(LISTS[self._shown].columns)
        self._sorted_by[self._shown] = (self._sorted_by[self._shown] + step) % columns
        self._reversed.discard(self._shown)

    def _move(self, step: int) -> None:
        rows = self._rows()
        if rows:
            at = min(max(self._at(rows) + step, 0), len(rows) - 1)
            self._chosen[self._shown] = LISTS[self._shown].key(rows[at])

    def _chosen_row(self) -> Seen | None:
        rows = self._rows()
        return rows[self._at(rows)] if rows else None

    def _at(self, rows: list[Seen]) -> int:
        key, chosen = LISTS[self._shown].key, self._chosen.get(self._shown)
        return next((at for at, row in enumerate(rows) if key(row) == chosen), 0)

    def _rows(self) -> list[Seen]:
        column = LISTS[self._shown].columns[self._sorted_by[self._shown]]
        rows = self._entries if self._into is None else self._calls
        known = [row for row in rows if column.value(row) is not None]
        unknown = [row for row in rows if column.value(row) is None]
        is_number = bool(known) and not isinstance(column.value(known[0]), str)
        known.sort(key=column.value, reverse=is_number and column.heading not in _LEAST_FIRST)
        # What has not ended comes before what has; else what is not known comes last.
        ordered = [*unknown, *known] if column.heading == "ended ago" else [*known, *unknown]
        return ordered[::-1] if self._shown in self._reversed else ordered

    # --- drawing ---

    def draw(self, width: int, height: int) -> list[Text]:
        """As many lines as there is room for, none wider than `width`; the last one tells the keys."""
        rows, above = self._rows(), [*self._above(), self._title()]
        keys = _LIST_KEYS if self._into is None else _CALLS_KEYS
        below = [Text(line, "dim") for line in wrap(keys, max(width, 1))]
        room = max(height - len(above) - len(below) - 1, 1)
        at = self._at(rows)
        first = max(min(at - room // 2, len(rows) - room), 0)
        table = self._table(rows, width, slice(first, first + room), at - first)
        lines = [*above, *table, *[Text()] * (room + 1 - len(table)), *below]
        for line in lines:
            line.truncate(width, overflow="ellipsis")
        return lines[-height:] if len(lines) > height else lines

    def _above(self) -> list[Text]:
        status = self._status
        sessions, calls = status.get("sessions", {}), status.get("calls", {})
        said = (
            f"{lasting(status)}, {counted(sessions.get('open'), 'sessions')}; "
            f"calls: {calls.get('in_flight')}, {calls.get('waiting')} wait, {calls.get('answered')} answered; "
            f"{size(status.get('memory', {}).get('rss'))}"
        )
        if self._missed:
            return [_text(f"{self._missed}; this is as it was before", "red"), *self._about()]
        near = ", ".join(f"{each['limit']} {each['used']} of {each['of']}" for each in status.get("near", []))
        failed = [{**call, "at": call["ended_at"]} for call in self._calls if "detail" in call]
        fault = self._status.get("last_fault") if self._into is None else failed[-1] if failed else None
        told = [] if fault is None else [_text(f"last fault: {fault_told(fault, self._now)}", "red")]
        return [_text(said), *([_text(f"near: {near}", "yellow")] if near else []), *self._about(), *told]

    def _about(self) -> list[Text]:
        """What is known of the entry whose calls are shown."""
        if self._into is None:
            return []
        columns = LISTS[self._list].columns[1:]
        known = [
            f"{each.heading} {each.shown(each.value(self._into))}" for each in columns if _is_told(each, self._into)
        ]
        error = self._into.get("last_error")
        return [_text(", ".join(known)), *([_text(str(error), "red")] if error else [])]

    def _title(self) -> Text:
        more = f" and {self._left_out} more" if self._left_out else ""
        if self._into is not None:
            name = LISTS[self._list].columns[0].value(self._into)
            title = _text(f"{self._list} > {name}: its calls", "bold")
            return title.append(more, "dim")
        title = Text()
        for name in ("agents", "servers", "tools"):
            title.append(f"[{name}]" if name == self._list else f" {name} ", "bold" if name == self._list else "dim")
        return title.append(more, "dim")

    def _table(self, rows: list[Seen], width: int, shown: slice, chosen: int) -> list[Text]:
        each, by = LISTS[self._shown], self._sorted_by[self._shown]
        mark = "↑" if self._shown in self._reversed else "↓"
        headings = [column.heading + (mark if at == by else "") for at, column in enumerate(each.columns)]
        cells = [[_cell(column, row) for column in each.columns] for row in rows[shown]]
        for row in cells:
            row[0] = middle(row[0])
        widths = [max(map(cell_len, column)) for column in zip(headings, *cells, strict=True)]
        widths[0] = min(widths[0], NAME)
        # Of a narrow terminal the last columns fall off.
        while len(widths) > _LEAST_COLUMNS and sum(widths) + len(_BETWEEN) * len(widths) > width:
            widths.pop()
        lines = [Text(f"{_BETWEEN}{_fitted(headings, widths)}", "bold")]
        for at, row in enumerate(cells):
            is_chosen = at == chosen
            lines.append(
                Text(f"{'> ' if is_chosen else _BETWEEN}{_fitted(row, widths)}", "reverse" if is_chosen else "")
            )
        return lines if cells else [*lines, Text(f"{_BETWEEN}none", "dim")]


def _is_told(column: _Column, row: Seen) -> bool:
    return column.value(row) not in {None, ""}


def _cell(column: _Column, row: Seen) -> str:
    value = column.value(row)
    return "" if value is None else printable(column.shown(value))


def _fitted(cells: list[str], widths: list[int]) -> str:
    return _BETWEEN.join(
        set_cell_size(cell, width) if cell_len(cell) <= width else f"{set_cell_size(cell, width - 1)}…"
        for cell, width in zip(cells, widths, strict=False)
    )


def _text(text: str, style: str = "") -> Text:
    return Text(printable(text), style)
