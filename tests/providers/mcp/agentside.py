"""Agents behind a connection that live in a list: what they are asked, and a real session's questions."""

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from tooldispatchd.wire.messages import AskResp, Hello, Outgoing, Reply
from tooldispatchd.wire.questions import Question, Questions, Told
from tooldispatchd.wire.session import Event, SessionMachine

SAMPLED: dict[str, object] = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}
ACCEPTED: dict[str, object] = {"action": "accept", "content": {"day": "Monday"}}


class Agent:
    """Keeps what it is asked, who is to be told, and what was withdrawn; takes no more than `room` questions."""

    def __init__(self, *answers: str, roots: tuple[str, ...] = (), room: int = 1000) -> None:
        self.answers = frozenset(answers)
        self.roots = roots
        self.asked: list[tuple[str, str, bytes]] = []
        self.keys: list[str | None] = []
        self.told: list[Told] = []
        self.withdrawn: list[str] = []
        self.origins: list[object] = []
        self.is_listening = False
        self.noted: list[tuple[str, str, bytes]] = []
        self.room = room

    def ask(self, server: str, asked: Sequence[Question], origin: object = None) -> list[str]:
        before = len(self.told)
        if before + len(asked) > self.room:
            return []
        for each in asked:
            self.asked.append((each.kind, server, bytes(each.params)))
            self.keys.append(each.key)
            self.origins.append(origin)
            self.told.append(each.told)
        return [f"q{number}" for number in range(before + 1, len(self.told) + 1)]

    def withdraw(self, question: str) -> None:
        self.withdrawn.append(question)

    def hears(self, server: str) -> bool:
        return self.is_listening

    def note(self, server: str, method: str, params: Raw) -> None:
        self.noted.append((server, method, bytes(params)))


class SessionAgent:
    """A session whose agent said what it answers: the questions go where those of the daemon go."""

    roots: tuple[str, ...] = ()

    def __init__(self, *answers: str) -> None:
        self.outgoing: list[Outgoing] = []
        machine = SessionMachine(self.outgoing, agent="a")
        machine.greet(Hello(agent="a", answers=list(answers)), line=1)
        machine.apply(Event.OPENED)
        self.answers = machine.asked.answers
        self.questions = Questions(machine)

    def ask(self, server: str, asked: Sequence[Question], origin: object = None) -> list[str]:
        return self.questions.ask(server, asked)

    def withdraw(self, question: str) -> None:
        self.questions.withdraw(question)

    def hears(self, server: str) -> bool:
        return False

    def note(self, server: str, method: str, params: Raw) -> None:
        raise AssertionError("it hears nothing")


def said(value: object, question: str = "q1") -> Reply:
    """An agent's answer."""
    return AskResp(question, result=Raw(msgspec.json.encode(value)))
