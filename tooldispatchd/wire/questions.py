"""What the daemon asks of an agent, and that each answer reaches the one who asked: `ask` and `approve_req`. Pure.

    asked ──▶ answered        by `ask_resp` or `approve_resp` with the same id, once
      └─────▶ withdrawn       who asked waits no more; an answer that still comes is ignored
      └─────▶ closed          the session is over: who asked is told None

Ids are the daemon's own and are never used again, so that a late answer reaches nobody else.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Raw

from tooldispatchd.wire.messages import ApproveReq, ApproveResp, Ask, AskResp, Reply
from tooldispatchd.wire.session import SessionMachine

# One agent's questions at once: more than a person or a model answers, few enough to hold.
MAX_QUESTIONS: Final = 256

Told = Callable[[Reply | None], None]


class Questions:
    """The questions of one session that wait for their answers."""

    __slots__ = ("_asked", "_machine", "_waiting")

    def __init__(self, machine: SessionMachine) -> None:
        self._machine = machine
        self._asked = 0
        self._waiting: dict[str, tuple[type[Reply], Told]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def ask(self, kind: str, server: str, params: Raw, told: Told, *, call: str | None = None) -> str | None:
        """Ask what a server wants to know (`sampling` or `elicitation`), for that call; the question's id.

        None, and `told` is never called, where the agent did not say in `hello` that it answers this kind, or is asked
        too much already.
        """
        question = self._open(kind, AskResp, told)
        if question is not None:
            self._machine.outgoing.append(Ask(question, kind, server, params, self._machine.agent, call))
        return question

    def approve(self, name: str, value: Raw, reason: str, told: Told) -> str | None:
        """Ask whether the call of tool `name` with `value` may run; as `ask`."""
        question = self._open("approve", ApproveResp, told)
        if question is not None:
            self._machine.outgoing.append(ApproveReq(question, name, value, reason, self._machine.agent))
        return question

    def take(self, reply: Reply) -> None:
        """The agent's answer; one to no question, or of the wrong port, is ignored."""
        kind, told = self._waiting.get(reply.id, (None, None))
        if told is not None and type(reply) is kind:
            del self._waiting[reply.id]
            told(reply)

    def withdraw(self, question: str) -> None:
        """Stop waiting for this answer."""
        self._waiting.pop(question, None)

    def close(self) -> None:
        """Tell everyone who waits None: no answer will come any more."""
        waiting, self._waiting = self._waiting, {}
        for _kind, told in waiting.values():
            told(None)

    def _open(self, kind: str, reply: type[Reply], told: Told) -> str | None:
        machine = self._machine
        if kind not in machine.asked.answers or machine.is_gone or len(self._waiting) >= MAX_QUESTIONS:
            return None
        self._asked += 1
        question = f"q{self._asked}"
        self._waiting[question] = (reply, told)
        return question
