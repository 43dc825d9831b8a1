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


class Stage(StrEnum):
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
    Sign.GREETED: Stage.AGREED,
    Sign.COMMON: Stage.REPEATING,
    Sign.REFUSED: Stage.INITIALIZING,
    Sign.ABSENT: Stage.INITIALIZING,
    Sign.SILENT: Stage.HOPING,
    Sign.GONE: Stage.RESPAWNING,
}

# What is not in a stage's row is the end: FAILED.
TRANSITIONS: Final[dict[Stage, dict[Sign, Stage]]] = {
    Stage.PROBING: _PROBE,
    Stage.KNOWN_MODERN: _PROBE,
    Stage.DEMANDING_MODERN: {Sign.GREETED: Stage.AGREED, Sign.COMMON: Stage.LAST_PROBE},
    Stage.REPEATING: _PROBE | {Sign.COMMON: Stage.INITIALIZING},
    Stage.LAST_PROBE: {Sign.GREETED: Stage.AGREED},
    Stage.INITIALIZING: {
        Sign.GREETED: Stage.AGREED,
        # A slow server that answered the probe after all takes the connection for a modern one.
        Sign.COMMON: Stage.LAST_PROBE,
        Sign.ABSENT: Stage.LEAVING,
        # It had still answered the probe.
        Sign.GONE: Stage.RESPAWNING,
    },
    Stage.HOPING: {
        Sign.GREETED: Stage.AGREED,
        Sign.COMMON: Stage.LAST_PROBE,
        Sign.REFUSED: Stage.LAST_PROBE,
        Sign.GONE: Stage.RESPAWNING,
    },
    Stage.KNOWN_LEGACY: {
        Sign.GREETED: Stage.AGREED,
        Sign.COMMON: Stage.LAST_PROBE,
        Sign.REFUSED: Stage.AFRESH,
        Sign.ABSENT: Stage.AFRESH,
    },
    Stage.DEMANDING_LEGACY: {Sign.GREETED: Stage.AGREED, Sign.ABSENT: Stage.LEAVING},
    Stage.LAST_INITIALIZE: {Sign.GREETED: Stage.AGREED},
    Stage.KNOWN_SSE: {
        Sign.GREETED: Stage.AGREED,
        Sign.COMMON: Stage.RETURNING,
        Sign.REFUSED: Stage.RETURNING,
        Sign.ABSENT: Stage.RETURNING,
    },
    Stage.RESPAWNING: {Sign.LINKED: Stage.DEMANDING_LEGACY},
    Stage.LEAVING: {Sign.LINKED: Stage.LAST_INITIALIZE},
    Stage.TRUSTING: {Sign.LINKED: Stage.KNOWN_SSE},
    Stage.RETURNING: {Sign.LINKED: Stage.AFRESH},
    Stage.AGREED: {},
    Stage.FAILED: {},
}

DISCOVERING: Final = frozenset(
    {Stage.PROBING, Stage.KNOWN_MODERN, Stage.DEMANDING_MODERN, Stage.REPEATING, Stage.LAST_PROBE}
)
OVER_SSE: Final = frozenset({Stage.LAST_INITIALIZE, Stage.KNOWN_SSE})
REMEMBERING: Final = frozenset({Stage.KNOWN_MODERN, Stage.KNOWN_LEGACY, Stage.KNOWN_SSE})
ENDS: Final = frozenset({Stage.AGREED, Stage.FAILED})
