"""The step that gives a call the answer to an equal one: kept from before, or of one that is under way.

Two calls are equal where their keys are: what the tool is, who asks (unless its scope is shared; where each session has
a server of its own for the tool, in which session), in which form, and the input, in which 1 and 1.0 are one number and
the order of an object's members says nothing. Texts are compared as they are: a tool may tell `é` from `e` with an
accent, as file systems do.

    take: kept ─▶ an answer        equal call under way ─▶ wait for it        else on to the tool
    give: keep the answer
    leave: hand what came of it to those that wait
"""

import hashlib
import secrets
from collections.abc import Callable, Hashable
from functools import partial
from typing import Final, Literal

import msgspec
import trio
from msgspec import Raw

from tooldispatchd.agent.calls.call import Call
from tooldispatchd.agent.calls.step import Step
from tooldispatchd.agent.steps.trying import has_failed
from tooldispatchd.calls.answercache import AnswerCache, CachedAnswer, CallLookup
from tooldispatchd.calls.canonical import canonical, in_order
from tooldispatchd.calls.flights import Flights
from tooldispatchd.calls.outcome import Answer, Outcome
from tooldispatchd.calls.stages import WAITS, StepOrder, Waits
from tooldispatchd.catalog.caching import Caching
from tooldispatchd.catalog.schemas import ACCEPT, is_light
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import QuotedText

_KEY_BYTES: Final = 32
# The numbers of sessions begin anew with each daemon, and the cache may outlive it.
_DAEMON: Final = secrets.token_hex(16)

_encode: Final = msgspec.json.Encoder().encode

# What a call waits for that is its session's alone.
_OF_SESSION: Final = frozenset({StepOrder.OWN_PLACE, StepOrder.STATE})

# What came of a call, and when.
Landed = tuple[Outcome, float]


def _nothing_shown() -> str | None:
    return None


class ToolIdentity(msgspec.Struct, frozen=True):
    """What a tool is: `parts` gives its tables, its schemas and its credentials, as values of Structs and JSON.

    `shown` gives the token that it is called with now, where that may change while the daemon runs. Its answers leave
    the cache with those of its `server`, "" where it is none's. It `is_per_session` where each session has a server
    of its own for it, which may know something that those of others do not.
    """

    parts: Callable[[], tuple[object, ...]]
    server: str = ""
    shown: Callable[[], str | None] = _nothing_shown
    is_per_session: bool = False


class CacheStep(Step):
    """The step of one plan."""

    __slots__ = ("_answers", "_caching", "_digest", "_flights", "_tool")

    def __init__(
        self,
        answers: AnswerCache,
        flights: Flights[Call, Landed],
        caching: Caching,
        tool: ToolIdentity,
    ) -> None:
        super().__init__(StepOrder.CACHE)
        self._answers = answers
        self._flights = flights
        self._caching = caching
        self._tool = tool
        self._digest: bytes | None = None

    def take(self, call: Call) -> Outcome | Literal[Waits.WAITS] | None:
        lookup = call.lookup
        if lookup is None:
            key = self._key(call)
            if key is None:
                return None
            lookup = call.lookup = CallLookup(key)
        now = trio.current_time()
        landed = self._flights.take(call)
        if landed is not None:
            lookup.age_s = now - landed[1]
            return landed[0]
        cached = self._answers.get(lookup.key, now) if self._caching.keeps_s else None
        if cached is not None:
            lookup.age_s = now - cached.made_at
            return cached.answer
        lookup.era = self._era
        return WAITS if self._caching.is_joined and self._joins(call, lookup.key) else None

    def _joins(self, call: Call, key: bytes) -> bool:
        # What a part of another call holds through that one, the first may be waiting for.
        if call.above is not None and key in self._flights:
            return False
        return not self._flights.enter(key, call, partial(_is_joinable, call))

    def give(self, call: Call, outcome: Outcome) -> None:
        lookup = call.lookup
        if lookup is None:
            return
        now = trio.current_time()
        self._land(call, outcome, now)
        # What was cleared meanwhile, or asked with another token, may have been answered otherwise.
        if not isinstance(outcome, Answer) or outcome.is_error or lookup.era != self._era:
            return
        if self._caching.keeps_s and outcome.size <= self._answers.max_answer_bytes:
            assert call.plan is not None
            cached = CachedAnswer(lasting(outcome), call.plan.name, self._tool.server, now, now + self._caching.keeps_s)
            self._answers.put(lookup.key, cached, now)

    def leave(self, call: Call, outcome: Outcome) -> None:
        if call.lookup is None:
            return
        if isinstance(outcome, Fault) and outcome.code is Code.TIMEOUT:
            # It came from outside, and was not given; the tool's own limit says as much of the tool as a failure.
            self._land(call, outcome, trio.current_time())
        for each in self._flights.leave(call):
            each.retake()

    def _land(self, call: Call, outcome: Outcome, now: float) -> None:
        """Let those that wait for the call have what came of it, unless that was the call's own affair."""
        if not self._caching.is_joined or has_failed(call, outcome) is None:
            return
        if isinstance(outcome, Fault):
            outcome = outcome.ran(may_have=call.ran_at is not None)
        self._flights.land(call, (outcome, now))

    @property
    def _era(self) -> Hashable:
        return self._answers.era(self._tool.server), self._tool.shown()

    def _key(self, call: Call) -> bytes | None:
        """The key of an input that can be compared in the loop; else None."""
        plan, context, wanted = call.plan, call.context, call.wanted
        assert plan is not None
        if not is_light(call.line, ACCEPT):
            return None
        try:
            line = bytes(call.line) if plan.read.as_text else canonical(call.line)
        except RecursionError:
            return None
        if self._digest is None:
            self._digest = digest_of(plan.offered, *self._tool.parts())
        session = (_DAEMON, context.lineage.number) if self._tool.is_per_session else None
        who = None if self._caching.is_shared else (context.profile, context.account.uid, session)
        asked = _encode((who, self._tool.shown(), context.workspace, wanted.kind, wanted.details))
        return hashlib.blake2b(self._digest + asked + line, digest_size=_KEY_BYTES).digest()


def _is_joinable(call: Call, first: Call) -> bool:
    """Tell whether a call may join an equal one: that runs, or waits where the call itself would have to."""
    if first.is_running or first.context is call.context:
        return True
    assert first.plan is not None
    waits_in = first.plan.steps[first.taken - 1].order
    return first.context.profile == call.context.profile and waits_in not in _OF_SESSION


def digest_of(*parts: object) -> bytes:
    """Of values of Structs and JSON. Never to be shown: secrets can be tried against a digest."""
    return hashlib.blake2b(in_order(parts), digest_size=_KEY_BYTES).digest()


def lasting(answer: Answer) -> Answer:
    """The answer with bytes of its own: what comes from a server or a checker is freed, or overwritten, after use."""
    return msgspec.structs.replace(
        answer,
        content=_lasting_text(answer.content),
        blocks=answer.blocks.copy() if isinstance(answer.blocks, Raw) else _lasting_quoted(answer.blocks),
        details=None if answer.details is None else answer.details.copy(),
    )


def _lasting_text(text: str | QuotedText) -> str | QuotedText:
    return text if isinstance(text, str) else QuotedText(bytes(text.literal), text.size)


def _lasting_quoted(text: QuotedText | None) -> QuotedText | None:
    return None if text is None else QuotedText(bytes(text.literal), text.size)
