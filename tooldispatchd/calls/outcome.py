"""How a call ends: an `Answer` from a tool, or a `Fault` of the daemon; and what it may say before, an `Update`.

A provider returns one of the two as a value; what it raises is a defect, and the call's guard answers it with
`internal_error`.
"""

import msgspec

from tooldispatchd.wire.faults import Fault


class Answer(msgspec.Struct, frozen=True):
    """A tool's own answer. `is_error` is true only where the tool itself said that it failed (MCP `isError`)."""

    content: str
    is_error: bool = False


class Update(msgspec.Struct, frozen=True):
    """How far a running call is: `progress` of `total` in units of the tool's own, words, or a part of the content."""

    progress: float | None = None
    total: float | None = None
    message: str | None = None
    content: str | None = None


Outcome = Answer | Fault
