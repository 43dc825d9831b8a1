"""One agent as the servers of its session see it: its roots, what it answers, and the way to ask it.

server ── request ──▶ Asker ── ask ──▶ agent        as `ask` lines of the session; they end with it
"""

from typing import Protocol

from msgspec import Raw

from tooldispatchd.wire.questions import Questions, Told
from tooldispatchd.wire.session import SessionMachine


class Asking(Protocol):
    """The session, as far as its agent is asked."""

    machine: SessionMachine

    @property
    def questions(self) -> Questions:
        """What the agent is asked."""

    def flush(self) -> None:
        """Send what is owed to the agent."""


class Asker:
    """The `AgentSide` of one session's own connections. `roots` are `file://` URIs."""

    __slots__ = ("_session", "roots")

    def __init__(self, session: Asking, roots: tuple[str, ...]) -> None:
        self._session = session
        self.roots = roots

    @property
    def answers(self) -> frozenset[str]:
        """What the agent said in `hello` that it answers."""
        return self._session.machine.answers

    def ask(self, kind: str, server: str, params: Raw, told: Told) -> str | None:
        """Ask the agent, and send the question; as `Questions.ask`. `told` comes in a later turn."""
        question = self._session.questions.ask(kind, server, params, told)
        if question is not None:
            self._session.flush()
        return question

    def withdraw(self, question: str) -> None:
        """Wait no more for this answer."""
        self._session.questions.withdraw(question)
