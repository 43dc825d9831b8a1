"""Who is asked whether calls may run: the agent's own session, or one of the profile that its profile names."""

from typing import Protocol

from tooldispatchd.catalog.specs import ProfileSpec
from tooldispatchd.wire.questions import Questions
from tooldispatchd.wire.session import SessionMachine

APPROVE = "approve"


class AskedSession(Protocol):
    """A session, as it is asked."""

    machine: SessionMachine
    profile: str

    @property
    def questions(self) -> Questions: ...
    def flush(self) -> None: ...


class Approvers:
    """The sessions whose agents are asked about calls of others, by profile, in the order in which they came."""

    __slots__ = ("_present",)

    def __init__(self) -> None:
        self._present: dict[str, dict[AskedSession, None]] = {}

    def note(self, session: AskedSession, spec: ProfileSpec | None) -> None:
        """The session, of a profile with this table, is open or has said what it answers."""
        if spec is not None and spec.approver is True and APPROVE in session.machine.asked.answers:
            self._present.setdefault(session.profile, {})[session] = None

    def forget(self, session: AskedSession) -> None:
        """The session is over. Idempotent."""
        self._present.get(session.profile, {}).pop(session, None)

    def of(self, session: AskedSession, spec: ProfileSpec | None) -> AskedSession | None:
        """Who is asked about calls of a session, by its profile's table; None where nobody there answers that."""
        if spec is None or not isinstance(spec.approver, str):
            return session if APPROVE in session.machine.asked.answers else None
        return next((each for each in self._present.get(spec.approver, ()) if each.machine.accepts), None)


def answerer(session: AskedSession) -> str:
    """Its agent, as the record of an approval names it."""
    agent = session.machine.agent
    return session.profile if agent is None else f"{session.profile}/{agent}"
