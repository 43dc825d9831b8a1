"""One record of the audit, and one note about the audit itself; how a record is made of a call that has ended. Pure."""

from functools import cache
from hashlib import sha256
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Raw

from tooldispatchd.calls.canonical import in_order
from tooldispatchd.calls.endedcall import EndedCall
from tooldispatchd.catalog.globs import NameList
from tooldispatchd.catalog.masker import Masker

# Ids, and names of tools that there are not, are as long as an agent likes.
MAX_WORD: Final = 256
# Of an input, and of an answer, where payloads are kept.
MAX_PAYLOAD: Final = 16 * 1024
# A larger input is hashed as its tool got it: to decode it, the writer would hold the interpreter's lock for too long.
MAX_SORTED_BYTES: Final = 128 * 1024
# Where the ids stand in a `traceparent`.
_TRACE_ID: Final = slice(3, 35)

OutcomeWord = Literal["ok", "error", "fault"]


class CallRecord(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One call, as a store keeps it; `n` is its number there, 0 where it has none.

    `at` is in Unix seconds. `run` names one life of a daemon: only within it are `session` and `root` unambiguous.
    `input_sha256` is that of the input as compact JSON with its keys in order; of what is no JSON, or over 128 KiB, of
    its bytes. `tokens` and `cost` are what the tool said in its details.
    """

    at: float
    run: str
    profile: str | None
    agent: str | None
    uid: int
    session: int
    root: int
    call: str
    tool: str
    provider: str | None
    input_sha256: str | None
    bytes_in: int
    bytes_out: int
    waited_ms: float
    ran_ms: float
    total_ms: float
    outcome: OutcomeWord
    code: str | None = None
    approval: str | None = None
    cache: str | None = None
    trace: str | None = None
    tokens: int | None = None
    cost: float | None = None
    input: str | None = None
    output: str | None = None
    n: int = 0


COLUMNS: Final = CallRecord.__struct_fields__[:-1]


class StoreNote(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What happened to the audit itself.

    A run is `opened` and `closed`. Of one that was not closed, because the daemon was killed, the next one says that it
    is `unclosed`, and how many records are missing at most, with None where that is not known. `lost` says how many
    were not written. `removed` says how many the run has taken away before their time to have room for others: in all
    until then, since its former notes may be gone too. `pid` is the daemon's.
    """

    event: Literal["opened", "closed", "unclosed", "lost", "removed"]
    at: float
    run: str
    pid: int
    count: int | None = None


class AuditFilter(msgspec.Struct, frozen=True):
    """Which records are wanted: all that keep to each of these; `tool` is a name or a pattern."""

    since: float | None = None
    agent: str | None = None
    profile: str | None = None
    session: int | None = None
    tool: str | None = None
    failed: bool = False
    slow_ms: float | None = None

    def admits(self, record: CallRecord) -> bool:
        """Whether a record is wanted."""
        return (
            (self.since is None or record.at >= self.since)
            and (self.agent is None or record.agent == self.agent)
            and (self.profile is None or record.profile == self.profile)
            and (self.session is None or record.session == self.session)
            and (not self.failed or record.outcome != "ok")
            and (self.slow_ms is None or record.total_ms >= self.slow_ms)
            and (self.tool is None or _named(self.tool).admits(record.tool))
        )

    def where(self) -> tuple[str, list[object]]:
        """The same for a database, but for `tool`: a condition in SQL with `?`, and what stands there."""
        stated = (
            ("at >= ?", self.since),
            ("agent = ?", self.agent),
            ("profile = ?", self.profile),
            ("session = ?", self.session),
            ("total_ms >= ?", self.slow_ms),
        )
        conditions = [text for text, value in stated if value is not None]
        conditions += ["outcome <> 'ok'"] if self.failed else []
        return " AND ".join(conditions) or "1 = 1", [value for _, value in stated if value is not None]


@cache
def _named(tool: str) -> NameList:
    return NameList((tool,))


class AuditStoreError(Exception):
    """A store cannot be opened, written or read; the message says why."""


class _Told(msgspec.Struct):
    """What a tool may tell in its details."""

    tokens: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    cost: float | None = None


_NOTHING: Final = _Told()
_decode: Final = msgspec.json.Decoder().decode
_decode_told: Final = msgspec.json.Decoder(_Told).decode


def digest_of_input(line: bytes | bytearray) -> str:
    """See `CallRecord.input_sha256`."""
    if len(line) > MAX_SORTED_BYTES:
        return sha256(line).hexdigest()
    try:
        return sha256(in_order(_decode(line))).hexdigest()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return sha256(line).hexdigest()


def record_of(ended: EndedCall, run: str, masker: Masker) -> CallRecord:
    """The record of a call; `masker` takes secrets out of its payload."""
    caller, line = ended.caller, ended.input
    told = _NOTHING if ended.details is None else _told_in(ended.details)
    has_payload = ended.content is not None
    return CallRecord(
        int(ended.at * 1000) / 1000,
        run,
        caller.profile,
        caller.agent,
        caller.uid,
        caller.session,
        caller.root,
        ended.id[:MAX_WORD],
        ended.tool[:MAX_WORD],
        ended.provider,
        None if line is None else digest_of_input(line),
        ended.bytes_in,
        ended.bytes_out,
        _ms(ended.waited_s),
        _ms(ended.total_s - ended.waited_s),
        _ms(ended.total_s),
        "fault" if ended.code is not None else "error" if ended.is_error else "ok",
        ended.code,
        ended.approval,
        ended.cache,
        None if ended.trace is None else ended.trace[_TRACE_ID],
        told.tokens,
        told.cost,
        _payload(line[: MAX_PAYLOAD + masker.longest], masker) if has_payload and line is not None else None,
        None if ended.content is None else masker.mask_cut(ended.content)[:MAX_PAYLOAD],
    )


def _ms(seconds: float) -> float:
    """To three places, in a fourth of the time that `round` takes."""
    return int(seconds * 1_000_000) / 1000


def _payload(line: bytes | bytearray, masker: Masker) -> str:
    # What is masked is shorter then, so that the end, where half a secret may stand, is recorded too.
    return masker.mask_cut(line.decode(errors="replace"))[:MAX_PAYLOAD]


def _told_in(details: Raw) -> _Told:
    try:
        return _decode_told(details)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # They are for the agent's runtime, and may mean something else by these names.
        return _NOTHING
