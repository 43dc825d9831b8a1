"""Which revision to speak with a server: the next step, from the results of those before. No clock, no tasks.

`server/discover` comes first because a modern server need not know `initialize`. Any answer that does not show a modern
server shows an older one, whatever its code, except where it says nothing of the revision: the server cannot be
reached, refuses the credentials, or is out of order (MCP 2026-07-28, "Versioning", "Backward Compatibility"). What is
remembered of a server is believed until it proves wrong: then all begins anew, once.

    PROBING ──────── no word of a modern server ──────▶ INITIALIZING ── 400, 404, 405 ──▶ LEAVING ─▶ LAST_INITIALIZE
      ├─ -32022 ─▶ REPEATING ─────── the same ───────────▶ │ └─ -32022 ─▶ LAST_PROBE ─▶ AGREED             │
      ├─ silence ─▶ HOPING ─── any error ──────────────────│─────────────────┘                             ▼
      │               └─▶ AGREED                           ├─▶ AGREED                                    AGREED
      ├─▶ AGREED                                           │
      └── the process ended ──▶ RESPAWNING ◀───────────────┘
                                     └─▶ DEMANDING_LEGACY ─▶ AGREED

With a server of which something is remembered it begins at KNOWN_LEGACY, KNOWN_MODERN or TRUSTING, and at PROBING once
more where that was wrong.
"""

from enum import StrEnum
from typing import Final

import msgspec
from msgspec import UnsetType

from tooldispatchd.providers.mcp.dialects import Dialect, Legacy, Modern
from tooldispatchd.providers.mcp.greeting import (
    ACCEPTED,
    CLIENT,
    MODERN,
    OFFERED,
    Greeting,
    known,
    quoted,
    read_discovery,
    read_greeting,
    read_supported,
)
from tooldispatchd.providers.mcp.logmessages import printable
from tooldispatchd.providers.mcp.messages import (
    HEADER_MISMATCH,
    MISSING_CAPABILITY,
    UNSUPPORTED_REVISION,
    Incoming,
    error_in,
    error_words,
)
from tooldispatchd.providers.mcp.remembered import Era
from tooldispatchd.wire.faults import Code, Fault


class NegotiationStage(StrEnum):
    """The answer that is waited for, or the step to be done."""

    PROBING = "probing"
    """The first `server/discover`, to a server of which nothing is known."""
    KNOWN_MODERN = "known modern"
    """The first `server/discover`, to a server that is remembered to know it."""
    DEMANDING_MODERN = "demanding modern"
    """`server/discover`, where nothing else is wanted."""
    REPEATING = "repeating"
    """`server/discover` once more, in a revision that the server named."""
    LAST_PROBE = "last probe"
    """The same, and nothing is left after it."""
    INITIALIZING = "initializing"
    HOPING = "hoping"
    """`initialize`, to a server that was silent: perhaps it was only slow to start."""
    KNOWN_LEGACY = "known legacy"
    """`initialize`, to a server that is remembered to want it."""
    DEMANDING_LEGACY = "demanding legacy"
    """`initialize`, where nothing else is wanted, or left."""
    LAST_INITIALIZE = "last initialize"
    """`initialize` over the older way."""
    KNOWN_SSE = "known sse"
    """The same, as is remembered of the server."""
    RESPAWNING = "respawning"
    LEAVING = "leaving"
    """The older way is to be taken."""
    TRUSTING = "trusting"
    """The older way is to be taken, as is remembered of the server."""
    RETURNING = "returning"
    """The older way was wrong."""
    AFRESH = "afresh"
    """The first stage of a negotiation that remembers nothing."""
    AGREED = "agreed"
    FAILED = "failed"


class Sign(StrEnum):
    """The result of a step."""

    GREETED = "greeted"
    COMMON = "common"
    """An error that names a modern revision known here."""
    FOREIGN = "foreign"
    """The server speaks only revisions that are not known here."""
    REFUSED = "refused"
    """Any other answer, or one that cannot be read."""
    ABSENT = "absent"
    """HTTP says that there is nothing to POST to."""
    SILENT = "silent"
    GONE = "gone"
    """The process ended."""
    OUTAGE = "outage"
    """Something that is no evidence of what the server speaks."""
    LINKED = "linked"
    """The new link is there."""


_PROBE: Final = {
    Sign.GREETED: NegotiationStage.AGREED,
    Sign.COMMON: NegotiationStage.REPEATING,
    Sign.REFUSED: NegotiationStage.INITIALIZING,
    Sign.ABSENT: NegotiationStage.INITIALIZING,
    Sign.SILENT: NegotiationStage.HOPING,
    Sign.GONE: NegotiationStage.RESPAWNING,
}

# What is not in a stage's row is the end: FAILED.
TRANSITIONS: Final[dict[NegotiationStage, dict[Sign, NegotiationStage]]] = {
    NegotiationStage.PROBING: _PROBE,
    NegotiationStage.KNOWN_MODERN: _PROBE,
    NegotiationStage.DEMANDING_MODERN: {
        Sign.GREETED: NegotiationStage.AGREED,
        Sign.COMMON: NegotiationStage.LAST_PROBE,
    },
    NegotiationStage.REPEATING: _PROBE | {Sign.COMMON: NegotiationStage.INITIALIZING},
    NegotiationStage.LAST_PROBE: {Sign.GREETED: NegotiationStage.AGREED},
    NegotiationStage.INITIALIZING: {
        Sign.GREETED: NegotiationStage.AGREED,
        # A slow server that answered the probe after all takes the connection for a modern one.
        Sign.COMMON: NegotiationStage.LAST_PROBE,
        Sign.ABSENT: NegotiationStage.LEAVING,
        # It had still answered the probe.
        Sign.GONE: NegotiationStage.RESPAWNING,
    },
    NegotiationStage.HOPING: {
        Sign.GREETED: NegotiationStage.AGREED,
        Sign.COMMON: NegotiationStage.LAST_PROBE,
        Sign.REFUSED: NegotiationStage.LAST_PROBE,
        Sign.ABSENT: NegotiationStage.LEAVING,
        Sign.GONE: NegotiationStage.RESPAWNING,
    },
    NegotiationStage.KNOWN_LEGACY: {
        Sign.GREETED: NegotiationStage.AGREED,
        Sign.COMMON: NegotiationStage.LAST_PROBE,
        Sign.REFUSED: NegotiationStage.AFRESH,
        Sign.ABSENT: NegotiationStage.AFRESH,
    },
    NegotiationStage.DEMANDING_LEGACY: {Sign.GREETED: NegotiationStage.AGREED, Sign.ABSENT: NegotiationStage.LEAVING},
    NegotiationStage.LAST_INITIALIZE: {Sign.GREETED: NegotiationStage.AGREED},
    NegotiationStage.KNOWN_SSE: {
        Sign.GREETED: NegotiationStage.AGREED,
        Sign.COMMON: NegotiationStage.RETURNING,
        Sign.REFUSED: NegotiationStage.RETURNING,
        Sign.ABSENT: NegotiationStage.RETURNING,
    },
    NegotiationStage.RESPAWNING: {Sign.LINKED: NegotiationStage.DEMANDING_LEGACY},
    NegotiationStage.LEAVING: {Sign.LINKED: NegotiationStage.LAST_INITIALIZE},
    NegotiationStage.TRUSTING: {Sign.LINKED: NegotiationStage.KNOWN_SSE},
    NegotiationStage.RETURNING: {Sign.LINKED: NegotiationStage.AFRESH},
    NegotiationStage.AGREED: {},
    NegotiationStage.FAILED: {},
}

DISCOVERING: Final = frozenset(
    {
        NegotiationStage.PROBING,
        NegotiationStage.KNOWN_MODERN,
        NegotiationStage.DEMANDING_MODERN,
        NegotiationStage.REPEATING,
        NegotiationStage.LAST_PROBE,
    }
)
OVER_SSE: Final = frozenset({NegotiationStage.LAST_INITIALIZE, NegotiationStage.KNOWN_SSE})
REMEMBERING: Final = frozenset(
    {NegotiationStage.KNOWN_MODERN, NegotiationStage.KNOWN_LEGACY, NegotiationStage.KNOWN_SSE}
)
ENDS: Final = frozenset({NegotiationStage.AGREED, NegotiationStage.FAILED})


# A server on this machine answers in milliseconds, once it runs; one that ignores what it does not know costs this
# much, once in the daemon's life.
PROBE_S: Final = 3.0
# One that is known to answer may be slow to start; a third of the usual limit on the whole handshake.
TRUST_S: Final = 10.0

DISCOVER: Final = "server/discover"
INITIALIZE: Final = "initialize"

# Only a modern server has these codes (2026-07-28): headers that say something else than the body, a capability that
# the client lacks.
_MODERN_CODES: Final = frozenset({HEADER_MISMATCH, MISSING_CAPABILITY})

# HTTP statuses that say nothing of the revision: credentials refused, too many requests, too late.
_NO_EVIDENCE: Final = frozenset({401, 403, 407, 408, 425, 429})
# How a server of the two endpoints answers a POST to the one that is only read (2025-11-25, "Backwards Compatibility").
_ABSENT: Final = frozenset({400, 404, 405})

# Of what a server says for itself: a reason, which ends up in a log.
MAX_WORDS: Final = 500

# What a fault of the whole server repeats of the failed request's.
_TOLD: Final = frozenset({"http_status", "retry_after_ms", "missing_scopes"})


class Send(msgspec.Struct, frozen=True):
    """Send this request, written in `dialect`, and say what came of it; within `limit_s` seconds, where there is one.

    Neither request may be cancelled by a notification; an answer that comes too late is ignored.
    """

    method: str
    params: dict[str, object]
    dialect: Dialect
    limit_s: float | None = None


class Respawn(msgspec.Struct, frozen=True):
    """End the link, and open a new one of the way that is configured."""


class Older(msgspec.Struct, frozen=True):
    """End the link, and open one of the older way."""


class Agreed(msgspec.Struct, frozen=True):
    """Done. Unless the dialect is a modern one, the server waits for `notifications/initialized` before all else."""

    dialect: Dialect
    greeting: Greeting
    era: Era


class NegotiationFailure(msgspec.Struct, frozen=True):
    """The negotiation failed; `why` follows the server's name, and `extras` are added to the fault."""

    why: str
    extras: dict[str, object] = {}


Step = Send | Respawn | Older | Agreed | NegotiationFailure

_LIMITS_S: Final = {
    NegotiationStage.PROBING: PROBE_S,
    NegotiationStage.REPEATING: PROBE_S,
    NegotiationStage.KNOWN_MODERN: TRUST_S,
}


class Negotiation:
    """One server, from the first word to an agreement or a failure.

    `protocol` is a revision, the only one that is accepted then, or `auto`; `remembered` is what the server was found
    to speak before, and `is_mistaken` says that it proved wrong. `may_probe` is false where the way itself is older
    than 2026-07-28.
    """

    def __init__(
        self,
        protocol: str,
        remembered: Era | None,
        *,
        capabilities: dict[str, object],
        is_http: bool,
        has_older_way: bool,
        may_probe: bool = True,
    ) -> None:
        self.is_mistaken = False
        self._capabilities = capabilities
        self._is_http = is_http
        self._has_older_way = has_older_way
        self._wanted = ACCEPTED | set(MODERN) if protocol == "auto" else frozenset({protocol})
        self._offered = OFFERED if protocol == "auto" else protocol
        self._modern = MODERN[-1]
        self._agreed: Agreed | None = None
        self._failed = NegotiationFailure("it was not asked")
        self._afresh = NegotiationStage.DEMANDING_LEGACY
        if protocol in MODERN:
            self._afresh = NegotiationStage.DEMANDING_MODERN
        elif protocol == "auto" and may_probe:
            self._afresh = NegotiationStage.PROBING
        self._stage = self._afresh
        # A configured revision wins over the era that is remembered, except for the way to it.
        if remembered is Era.SSE and has_older_way and self._afresh is not NegotiationStage.DEMANDING_MODERN:
            self._stage = NegotiationStage.TRUSTING
        elif remembered in {Era.LEGACY, Era.MODERN} and self._afresh is NegotiationStage.PROBING:
            is_modern = remembered is Era.MODERN
            self._stage = NegotiationStage.KNOWN_MODERN if is_modern else NegotiationStage.KNOWN_LEGACY

    @property
    def step(self) -> Step:
        """What to do now.

        To read it is to do it: after `Respawn` and `Older` the next step is what to send over the new link. Where that
        cannot be opened, `refused` or `ended` says so.
        """
        if self._stage is NegotiationStage.AGREED:
            assert self._agreed is not None
            return self._agreed
        if self._stage is NegotiationStage.FAILED:
            return self._failed
        if self._stage in {NegotiationStage.RESPAWNING, NegotiationStage.RETURNING}:
            self._apply(Sign.LINKED)
            return Respawn()
        if self._stage in {NegotiationStage.LEAVING, NegotiationStage.TRUSTING}:
            self._apply(Sign.LINKED)
            return Older()
        if self._stage in DISCOVERING:
            return Send(DISCOVER, {}, Modern(self._modern, self._capabilities), _LIMITS_S.get(self._stage))
        offered: dict[str, object] = {"protocolVersion": self._offered, "capabilities": self._capabilities}
        return Send(INITIALIZE, {**offered, "clientInfo": CLIENT}, Legacy())

    # --- what came of it ---------------------------------------------------------------------------------------------

    def answered(self, reply: Incoming) -> None:
        error = error_in(reply)
        if error is not None:
            words, code = error_words(error)
            supported = read_supported(error) if code == UNSUPPORTED_REVISION else None
            if supported:
                self._take_revisions(supported)
            else:
                is_modern = self._is_http and self._stage in DISCOVERING and code in _MODERN_CODES
                why = f"it refused {self._method}: {printable(words, MAX_WORDS)}"
                self._fail(Sign.FOREIGN if is_modern else Sign.REFUSED, why)
        elif isinstance(reply.result, UnsetType):
            self._fail(Sign.REFUSED, f"its answer to {self._method} holds no result")
        elif self._stage in DISCOVERING:
            found = read_discovery(reply.result)
            if isinstance(found, Greeting):
                self._agreed = Agreed(Modern(found.revision, self._capabilities), found, Era.MODERN)
                self._apply(Sign.GREETED)
            elif found:
                self._take_revisions(found)
            else:
                self._fail(Sign.REFUSED, f"its answer to {DISCOVER} cannot be read")
        else:
            said = read_greeting(reply.result, self._wanted & ACCEPTED)
            if isinstance(said, Greeting):
                era = Era.SSE if self._stage in OVER_SSE else Era.LEGACY
                self._agreed = Agreed(Legacy(said.revision), said, era)
                self._apply(Sign.GREETED)
            else:
                self._fail(Sign.REFUSED, said)

    def refused(self, fault: Fault) -> None:
        """There is no answer that could be read: HTTP said no (`http_status`), or it was over the bound (`limit`)."""
        reason = fault.extras.get("reason")
        if "limit" in fault.extras:
            self._fail(Sign.REFUSED, f"its answer to {self._method} is too large")
        elif self._stage in DISCOVERING and fault.code is Code.TOOL_FAILED and "http_status" not in fault.extras:
            # It has got the request, and ended the response, or the connection, without an answer.
            self._fail(Sign.SILENT, f"it did not answer {self._method}: {reason}")
        else:
            self._take_failure(reason if isinstance(reason, str) else fault.detail, fault.extras)

    def timed_out(self) -> None:
        self._fail(Sign.SILENT, f"it did not answer {self._method}")

    def ended(self, why: str, extras: dict[str, object] | None = None) -> None:
        """The link ended, or a new one cannot be opened: `why` and `extras`, as of a `LinkError`."""
        if self._is_http:
            self._take_failure(why, extras or {})
        else:
            self._fail(Sign.GONE, why, extras)

    def _take_failure(self, why: str, extras: dict[str, object]) -> None:
        status = extras.get("http_status")
        told = {key: value for key, value in extras.items() if key in _TOLD}
        # Also a success is no answer here, of another kind of content for example.
        if not isinstance(status, int) or status // 100 not in {2, 4} or status in _NO_EVIDENCE:
            self._fail(Sign.OUTAGE, why, told)
        else:
            self._fail(Sign.ABSENT if status in _ABSENT else Sign.REFUSED, why, told)

    def _take_revisions(self, supported: list[str]) -> None:
        """The server speaks these, and not in the way in which it was spoken to."""
        common = next((each for each in reversed(MODERN) if each in supported), None)
        why = f"it speaks protocol revision {quoted(supported)}; {known(self._wanted)}"
        if common is not None:
            self._modern = common
            self._fail(Sign.COMMON, why)
        else:
            self._fail(Sign.REFUSED if ACCEPTED & set(supported) else Sign.FOREIGN, why)

    # --- the machine -------------------------------------------------------------------------------------------------

    def _fail(self, sign: Sign, why: str, extras: dict[str, object] | None = None) -> None:
        """Go on as the table says; `why` is told if that is the end."""
        if self._stage is NegotiationStage.LAST_PROBE:
            why = f"{self._failed.why}; then {why}"
        self._failed = NegotiationFailure(why, extras or {})
        self._apply(sign)

    def _apply(self, sign: Sign) -> None:
        if self._stage in ENDS:
            raise RuntimeError(f"negotiation is over ({self._stage}): {sign}")
        stage = TRANSITIONS[self._stage].get(sign, NegotiationStage.FAILED)
        if stage is NegotiationStage.LEAVING and not self._has_older_way:
            stage = NegotiationStage.FAILED
        if self._stage in REMEMBERING and stage not in ENDS:
            self.is_mistaken = True
        self._stage = self._afresh if stage is NegotiationStage.AFRESH else stage

    @property
    def _method(self) -> str:
        return DISCOVER if self._stage in DISCOVERING else INITIALIZE
