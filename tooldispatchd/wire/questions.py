"""What the daemon asks of an agent, and that each answer reaches the one who asked: `ask` and `approve_req`. Pure.

    asked ──▶ answered        by `ask_resp` or `approve_resp` with the same id, once
      └─────▶ withdrawn       who asked waits no more; an answer that still comes is ignored
      └─────▶ closed          the session is ending: who asked is told None, and nobody is asked any more

Ids are the daemon's own and are never used again, so that a late answer reaches nobody else.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Final

import msgspec
from msgspec import Raw

from tooldispatchd.wire.messages import ApproveReq, ApproveResp, Ask, AskResp, Caller, Reply
from tooldispatchd.wire.session import SessionMachine

# One agent's questions at once: more than a person or a model answers, few enough to hold.
MAX_QUESTIONS: Final = 256

Told = Callable[[Reply | None], None]


class Question(msgspec.Struct, frozen=True):
    """What a server wants to know: `sampling`, `elicitation` or `roots`; `key` is its own, where it asks in a round."""

    kind: str
    params: Raw
    told: Told
    key: str | None = None


class Questions:
    """The questions of one session that wait for their answers."""

    __slots__ = ("_asked", "_machine", "_turns", "_waiting")

    def __init__(self, machine: SessionMachine) -> None:
        self._machine = machine
        self._asked = 0
        self._waiting: dict[str, tuple[type[Reply], Told]] = {}
        # Of questions about calls of others: the channel and the agent of each.
        self._turns: dict[str, tuple[Hashable, Hashable]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def ask(self, server: str, asked: Sequence[Question], *, call: str | None = None) -> list[str]:
        """Ask what a server wants to know, all at once, for that call; the questions' ids.

        None of them, and no `told` is called, where the agent did not say in `hello` that it answers these kinds, or is
        asked too much already.
        """
        if not all(self._may_open(each.kind) for each in asked) or len(self) + len(asked) > MAX_QUESTIONS:
            return []
        ids = [self._open(AskResp, each.told) for each in asked]
        for question, each in zip(ids, asked, strict=True):
            more = question != ids[-1]
            line = Ask(question, each.kind, server, each.params, self._machine.agent, call, each.key, more)
            self._machine.outgoing.append(line)
        return ids

    def approve(
        self,
        name: str,
        value: Raw,
        reason: str,
        told: Told,
        *,
        sha256: str | None = None,
        call: str | None = None,
        caller: Caller | None = None,
        turns: tuple[Hashable, Hashable] | None = None,
    ) -> str | None:
        """Ask whether the call of tool `name` with `value` may run; None where it may not be asked.

        `turns` are the channel and the agent that a call of others is counted for: each has no more questions than are
        left for all others, so that none of them fills the last place alone.
        """
        if not self._may_open("approve") or not self._has_room_for(turns):
            return None
        question = self._open(ApproveResp, told)
        if turns is not None:
            self._turns[question] = turns
        self._machine.outgoing.append(
            ApproveReq(question, name, value, reason, self._machine.agent, sha256, call, caller)
        )
        return question

    def take(self, reply: Reply) -> None:
        """The agent's answer; one to no question, or of the wrong port, is ignored."""
        kind, told = self._waiting.get(reply.id, (None, None))
        if told is not None and type(reply) is kind:
            self.withdraw(reply.id)
            told(reply)

    def withdraw(self, question: str) -> None:
        """Stop waiting for this answer."""
        self._waiting.pop(question, None)
        self._turns.pop(question, None)

    def close(self) -> None:
        """Tell everyone who waits None: no answer will come any more."""
        waiting, self._waiting = self._waiting, {}
        self._turns.clear()
        for _kind, told in waiting.values():
            told(None)

    def _may_open(self, kind: str) -> bool:
        answers = self._machine.asked.answers
        return (kind in answers or (kind == "elicitation" and "url" in answers)) and self._machine.accepts

    def _has_room_for(self, turns: tuple[Hashable, Hashable] | None) -> bool:
        left = MAX_QUESTIONS - len(self)
        if turns is None:
            return left > 0
        asked = list(self._turns.values())
        of_channel = sum(channel == turns[0] for channel, _ in asked)
        return of_channel < left and asked.count(turns) < left - of_channel

    def _open(self, reply: type[Reply], told: Told) -> str:
        self._asked += 1
        question = f"q{self._asked}"
        self._waiting[question] = (reply, told)
        return question
