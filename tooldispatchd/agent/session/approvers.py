"""Who is asked whether calls may run: the session that came in from outside, or one of the profile that is named."""

from collections.abc import Hashable
from typing import Protocol

from tooldispatchd.agent.session.lineage import Lineage
from tooldispatchd.agent.setup import Setup
from tooldispatchd.wire.questions import Questions
from tooldispatchd.wire.session import SessionMachine

APPROVE = "approve"


class AskedSession(Protocol):
    """A session, as it is asked."""

    machine: SessionMachine
    number: int
    profile: str
    lineage: Lineage | None

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
        if session.lineage is not None:
            # An agent that another one called is asked about nothing: its calls, and those beside it, are its caller's.
            return
        spec = setup.profile_spec(session.profile)
        not_of = None if session.profile in setup.catalog.tokens else channel
        if spec is not None and spec.approver is True and APPROVE in session.machine.asked.answers:
            self._present.setdefault(session.profile, {})[session] = not_of

    def forget(self, session: AskedSession) -> None:
        """The session is over. Idempotent."""
        self._present.get(session.profile, {}).pop(session, None)

    def of(
        self, session: AskedSession, root: AskedSession | None, setup: Setup, channel: Hashable
    ) -> AskedSession | None:
        """Find the session that is asked about calls of a session, which is `root` or below it; None for nobody.

        The approver that its own profile names, else that of the root's profile, else the root.
        """
        profiles = (session.profile, *(() if root is None else (root.profile,)))
        specs = (setup.profile_spec(profile) for profile in profiles)
        named = next((spec.approver for spec in specs if spec is not None and isinstance(spec.approver, str)), None)
        if named is None:
            return root if root is not None and APPROVE in root.machine.asked.answers else None
        present = self._present.get(named, {}).items()
        return next((each for each, not_of in present if each.machine.accepts and not_of != channel), None)


def answerer(session: AskedSession) -> str:
    """Its agent, as the record of an approval names it."""
    agent = session.machine.agent
    return session.profile if agent is None else f"{session.profile}/{agent}"
