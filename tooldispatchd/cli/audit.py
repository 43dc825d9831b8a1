"""`tooldispatchd audit`: which calls there were, and what they came to, from the store that the configuration names."""

import argparse
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tooldispatchd.cli.jsontext import escaped

if TYPE_CHECKING:
    # The help needs none of it.
    from tooldispatchd.audit.door import AuditFilter, AuditReader, CallRecord, StoreNote

EPILOG: Final = """\
The store is read, not the daemon: it need not run, and whoever asks must be able to read the file, as the daemon's user
can, or its database. --since takes a time ago (90s, 30m, 12h, 7d) or a day or time (2026-11-26, 2026-11-26T08:00),
local where it names no zone.

The table shows when each call came, whose it was, how it ended (ok, error: the tool said that it failed, or the code of
a fault), how long it waited and ran, and the sizes of input and answer. --json prints a line for each, with all that is
known; and one where records are missing, of which the table tells on stderr.

--totals sums calls, bytes, tokens and cost --by agent, tool, provider, profile, session, uid, outcome or day, or by
several of these with commas; or by tree: an agent that came in from outside, with all that it called. Tokens and cost
are what tools told in their details; tokens of others are a fourth of their answers' bytes. The numbers of sessions
begin anew with each run of the daemon.

exit codes: 0 done; 1 the store cannot be read; 2 usage or configuration
"""
UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
LIMIT: Final = 50
# Often enough to seem at once.
FOLLOW_S: Final = 0.5
# An estimate, for English and for JSON.
BYTES_A_TOKEN: Final = 4
HEADINGS: Final = ("time", "session", "agent", "tool", "ended", "waited ms", "ran ms", "in", "out")
# Of a time as it is shown, the day.
DAY: Final = len("2026-11-26")
# So many of these are words.
WORDS: Final = 5
# Of a record, those fields that tell one sum from the others.
BY: Final[Mapping[str, tuple[str, ...]]] = {
    "agent": ("profile", "agent", "uid"),
    "tree": ("run", "root"),
    "tool": ("tool",),
    "provider": ("provider",),
    "profile": ("profile",),
    "session": ("run", "session"),
    "uid": ("uid",),
    "outcome": ("outcome", "code"),
    "day": ("day",),
}
TOTALS: Final = ("calls", "failed", "in", "out", "tokens", "cost", "ran s")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--config", type=Path, metavar="FILE", help="the configuration; by default the one of serve")
    where.add_argument("--store", metavar="STORE", help="the store itself, as the configuration names it")
    parser.add_argument("--since", type=moment, metavar="WHEN", help="only calls that came since then")
    parser.add_argument("--agent", metavar="NAME", help="only those of the agent of that name on its channel")
    parser.add_argument("--profile", metavar="NAME", help="only those of sessions of that profile")
    parser.add_argument("--session", type=int, metavar="N", help="only those of sessions of that number")
    parser.add_argument("--tool", metavar="NAME", help="only those of that tool, or of tools of a pattern")
    parser.add_argument("--failed", action="store_true", help="only errors and faults")
    parser.add_argument("--slow", type=float, metavar="MS", help="only those that took so many milliseconds or more")
    parser.add_argument("--limit", type=int, default=LIMIT, metavar="N", help=f"the last N; 0 for all ({LIMIT})")
    parser.add_argument("--json", action="store_true", help="print lines of JSON")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--follow", action="store_true", help="then print calls as they come")
    how.add_argument("--totals", nargs="?", const="agent", choices=("agent", "tree"), help="print sums instead")
    parser.add_argument("--by", type=_fields, metavar="FIELD,…", help=f"the sums of --totals by: {', '.join(BY)}")


def moment(text: str) -> float:
    """A time of the command line, in Unix seconds. Raises `ValueError`."""
    from datetime import datetime

    if text[:-1].isdecimal() and text[-1] in UNITS:
        return time.time() - int(text[:-1]) * UNITS[text[-1]]
    return datetime.fromisoformat(text).timestamp()


def _fields(text: str) -> tuple[str, ...]:
    """Read the fields of `--by`, each once."""
    words = text.split(",")
    if unknown := [word for word in words if word not in BY]:
        raise argparse.ArgumentTypeError(f"there is no {unknown[0]!r}: {', '.join(BY)} are allowed")
    return tuple(dict.fromkeys(field for word in words for field in BY[word]))


def run(arguments: argparse.Namespace) -> int:
    """Print; the exit code."""
    from tooldispatchd.audit.door import AuditFilter, AuditStoreError, open_reader
    from tooldispatchd.catalog.auditspec import STORES, file_store, is_database
    from tooldispatchd.config.configuration import ConfigError

    try:
        store = arguments.store or _configured(arguments.config)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    if store is None or not (file_store(store) or is_database(store)):
        why = "the configuration has no audit.store" if store is None else f"a store is {STORES}"
        print(f"tooldispatchd: {why}", file=sys.stderr)
        return 2
    by = arguments.by or (BY[arguments.totals] if arguments.totals else None)
    if arguments.follow and by is not None:
        print("tooldispatchd: --by is of --totals, which do not --follow", file=sys.stderr)
        return 2
    wanted = AuditFilter(
        since=arguments.since,
        agent=arguments.agent,
        profile=arguments.profile,
        session=arguments.session,
        tool=arguments.tool,
        failed=arguments.failed,
        slow_ms=arguments.slow,
    )
    try:
        reader = open_reader(store)
        try:
            _tell_notes(reader, wanted, is_json=arguments.json)
            if by is not None:
                _print_totals(reader, wanted, by, is_json=arguments.json)
            else:
                _print_calls(reader, wanted, arguments)
        finally:
            reader.close()
    except (AuditStoreError, OverflowError) as error:
        # No store has a number so large.
        print(f"tooldispatchd: {error}", file=sys.stderr)
        return 1
    return 0


def _configured(path: Path | None) -> str | None:
    from tooldispatchd.config.configuration import find_configuration, read_audit

    return read_audit(path or find_configuration(os.environ), os.environ).store


def _tell_notes(reader: "AuditReader", wanted: "AuditFilter", *, is_json: bool) -> None:
    """What is missing of what is asked for."""
    from msgspec import json

    notes = reader.notes(wanted.since or 0.0)
    # The last one of each run counts all.
    removed = {note.run: note for note in notes if note.event == "removed"}
    for note in [*(note for note in notes if note.event != "removed"), *removed.values()]:
        if (why := _missing(note)) is None:
            continue
        if is_json:
            print(escaped(json.encode(note).decode()))
        else:
            print(f"tooldispatchd: warning: {_time(note.at)}: {why}", file=sys.stderr)


def _missing(note: "StoreNote") -> str | None:
    if note.event == "lost":
        return f"{note.count} records were lost"
    if note.event == "removed":
        return f"the oldest {note.count} records of then were removed, to keep the others within audit.max_bytes"
    if note.event != "unclosed":
        return None
    return f"the run {note.run} was killed: its last records are missing"


def _print_calls(reader: "AuditReader", wanted: "AuditFilter", arguments: argparse.Namespace) -> None:
    from msgspec import json

    records = reader.latest(wanted, max(0, arguments.limit))
    widths: list[int] = []
    while True:
        if arguments.json:
            for record in records:
                print(escaped(json.encode(record).decode()))
        else:
            rows = [_row(record) for record in records]
            if not widths:
                rows.insert(0, HEADINGS)
                widths = _widths(rows)
            _print_table(rows, widths, words=WORDS)
        if not arguments.follow:
            return
        sys.stdout.flush()
        time.sleep(FOLLOW_S)
        records = reader.news(wanted)
        if reader.has_missed:
            print("tooldispatchd: warning: some records were removed before they could be shown", file=sys.stderr)


def _row(record: "CallRecord") -> tuple[str, ...]:
    ended = record.code or record.outcome
    ended += "".join(f", {mark}" for mark in (record.approval, record.cache) if mark is not None)
    spent = f"{record.waited_ms:.1f}", f"{record.ran_ms:.1f}"
    who = record.agent or record.profile or f"uid {record.uid}"
    return (
        _time(record.at),
        str(record.session),
        *(_shown(each) for each in (who, record.tool, ended)),
        *spent,
        str(record.bytes_in),
        str(record.bytes_out),
    )


def _shown(text: str) -> str:
    """A word of an agent, without what would steer the terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _time(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def _print_table(rows: Iterable[tuple[str, ...]], widths: Sequence[int], *, words: int) -> None:
    """The first columns are words, to the left; all others numbers, to the right."""
    for row in rows:
        left = [cell.ljust(width) for cell, width in zip(row[:words], widths, strict=False)]
        right = [cell.rjust(width) for cell, width in zip(row[words:], widths[words:], strict=True)]
        print("  ".join([*left, *right]).rstrip())


def _widths(rows: Iterable[tuple[str, ...]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


class _Sum:
    """What some calls came to."""

    def __init__(self) -> None:
        self.calls = self.failed = self.bytes_in = self.bytes_out = self.tokens = 0
        self.cost = self.ran_s = 0.0

    def add(self, record: "CallRecord") -> None:
        self.calls += 1
        self.failed += record.outcome != "ok"
        self.bytes_in += record.bytes_in
        self.bytes_out += record.bytes_out
        self.tokens += -(-record.bytes_out // BYTES_A_TOKEN) if record.tokens is None else record.tokens
        self.cost += record.cost or 0.0
        self.ran_s += record.ran_ms / 1000

    def fields(self) -> dict[str, object]:
        return {
            "calls": self.calls,
            "failed": self.failed,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "tokens": self.tokens,
            "cost": round(self.cost, 6),
            "ran_s": round(self.ran_s, 3),
        }


def _print_totals(reader: "AuditReader", wanted: "AuditFilter", by: Sequence[str], *, is_json: bool) -> None:
    from msgspec import json

    sums: dict[tuple[object, ...], _Sum] = {}
    for record in reader.all(wanted):
        key = tuple(_time(record.at)[:DAY] if field == "day" else getattr(record, field) for field in by)
        sums.setdefault(key, _Sum()).add(record)
    if is_json:
        for key, total in sums.items():
            print(escaped(json.encode({**dict(zip(by, key, strict=True)), **total.fields()}).decode()))
        return
    rows = [
        (*("" if value is None else _shown(str(value)) for value in key), *map(str, total.fields().values()))
        for key, total in sums.items()
    ]
    rows.insert(0, (*by, *TOTALS))
    _print_table(rows, _widths(rows), words=len(by))
