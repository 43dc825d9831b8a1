"""Who is asked whether calls may run: the agent's own session, or one of the profile that its profile names."""

from collections.abc import Hashable
from typing import Protocol

from tooldispatchd.agent.setup import Setup
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
        # With the channel about which none is asked.
        self._present: dict[str, dict[AskedSession, Hashable | None]] = {}

    def note(self, session: AskedSession, setup: Setup, channel: Hashable) -> None:
        """The session is open or has said what it answers.

        One that has shown no token is not asked about calls of its own `channel`, nor of agents that these run: it may
        be the caller by another name.
        """
        spec = setup.profile_spec(session.profile)
        not_of = None if session.profile in setup.catalog.tokens else channel
        if spec is not None and spec.approver is True and APPROVE in session.machine.asked.answers:
            self._present.setdefault(session.profile, {})[session] = not_of

    def forget(self, session: AskedSession) -> None:
        """The session is over. Idempotent."""
        self._present.get(session.profile, {}).pop(session, None)

    def of(self, session: AskedSession, setup: Setup, channel: Hashable) -> AskedSession | None:
        """Who is asked about calls of a session; None where nobody there answers that."""
        spec = setup.profile_spec(session.profile)
        if spec is None or not isinstance(spec.approver, str):
            return session if APPROVE in session.machine.asked.answers else None
        present = self._present.get(spec.approver, {}).items()
        return next((each for each, not_of in present if each.machine.accepts and not_of != channel), None)


def answerer(session: AskedSession) -> str:
    """Its agent, as the record of an approval names it."""
    agent = session.machine.agent
    return session.profile if agent is None else f"{session.profile}/{agent}"
