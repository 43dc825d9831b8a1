"""What was decided about calls of one session, and is meant for later ones: this input of a tool, or all. Pure."""

from collections.abc import Hashable
from typing import Final

import msgspec

from tooldispatchd.wire.faults import Code, Fault

# Of one session; the oldest is forgotten for a new one.
MAX_REMEMBERED: Final = 1_024
# As much of somebody's words as a model should read.
MAX_REASON: Final = 2_000


class Approval(msgspec.Struct, frozen=True):
    """That a call may run: `by` whom, for the input of that SHA-256, and whether that was `remembered`."""

    by: str
    sha256: str
    remembered: bool = False


class Decisions:
    """By tool and definition, and by the digest of the input where they are not about all inputs."""

    __slots__ = ("_decided",)

    def __init__(self) -> None:
        self._decided: dict[tuple[Hashable, str | None], Approval | Fault] = {}

    def find(self, tool: Hashable, sha256: str) -> Approval | Fault | None:
        """What was decided of this input, or else of all; None where nothing was, or it is forgotten."""
        decided = self._decided.get((tool, sha256)) or self._decided.get((tool, None))
        return Approval(decided.by, sha256, remembered=True) if isinstance(decided, Approval) else decided

    def remember(self, tool: Hashable, sha256: str | None, decided: Approval | Fault) -> None:
        """Decide so from now on; of all inputs where `sha256` is None."""
        self._decided.pop((tool, sha256), None)
        if len(self._decided) >= MAX_REMEMBERED:
            del self._decided[next(iter(self._decided))]
        self._decided[tool, sha256] = decided


def not_approved(tool: str, why: str, reason: str | None = None) -> Fault:
    """The call does not run; `reason` are the words of who was asked."""
    extras: dict[str, object] = {} if reason is None else {"reason": reason[:MAX_REASON]}
    return Fault(Code.APPROVAL_REFUSED, f"{tool} may not run: {why[:MAX_REASON]}", extras)
