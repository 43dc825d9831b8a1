"""The stages of a negotiation with a server, as a table; `negotiation` says what each means on the wire.

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


class NegotiationStage(StrEnum):
    """What is waited for, or to be done."""

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
    """Whatever a negotiation begins with that remembers nothing."""
    AGREED = "agreed"
    FAILED = "failed"


class Sign(StrEnum):
    """What came of it."""

    GREETED = "greeted"
    COMMON = "common"
    """An error that names a modern revision known here."""
    FOREIGN = "foreign"
    """It is known what the server speaks, and it is nothing known here."""
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
    """There is the new link that was asked for."""


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
