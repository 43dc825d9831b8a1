"""What was decided about calls of one session, and is meant for later ones: this input of this tool. Pure."""

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
    """By tool and digest of the input."""

    __slots__ = ("_decided",)

    def __init__(self) -> None:
        self._decided: dict[tuple[str, str], Approval | Fault] = {}

    def find(self, tool: str, sha256: str) -> Approval | Fault | None:
        """What was decided; None where nothing was, or it is forgotten."""
        return self._decided.get((tool, sha256))

    def remember(self, tool: str, sha256: str, decided: Approval | Fault) -> None:
        """Decide so from now on."""
        self._decided.pop((tool, sha256), None)
        if len(self._decided) >= MAX_REMEMBERED:
            del self._decided[next(iter(self._decided))]
        remembered = decided if isinstance(decided, Fault) else Approval(decided.by, sha256, remembered=True)
        self._decided[tool, sha256] = remembered


def not_approved(tool: str, why: str, reason: str | None = None) -> Fault:
    """The call does not run; `reason` are the words of who was asked."""
    extras: dict[str, object] = {} if reason is None else {"reason": reason[:MAX_REASON]}
    return Fault(Code.APPROVAL_REFUSED, f"{tool} may not run: {why[:MAX_REASON]}", extras)
