"""One agent of the soak: what it does, what it is owed, and how it holds each answer against its request.

Every input says who asked and which of its requests it is, so that an answer that went astray is known.
"""

import random
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from benchmarks.peers.soak_tally import Count, Counters

PAUSE_S: Final = 2.0
"""Mean time between two things that an agent does: 2,500 of them keep two cores busy, and do not drown them."""
LATER_S: Final = (0.0, 1.0)
"""When a call is cancelled, or a job stopped: before, while and after it begins."""
WEIGHT_OF_MCP: Final = 40


class Load(Protocol):
    """All agents of one process."""

    name: str
    counters: Counters
    rng: random.Random
    is_ending: bool

    def later(self, pause_s: float, action: Callable[[], None]) -> None:
        """Call `action` when so long has passed."""

    def tell(self, text: str) -> None:
        """Say what was wrong."""


class Channel(Protocol):
    """The connection under an agent, which may be its own."""

    number: int
    is_usable: bool

    def say(self, message: dict[str, object]) -> None:
        """One line out."""

    def close(self) -> None:
        """Close with whatever is unread and in flight."""

    def half_close(self) -> None:
        """Ask no more."""


class Line(msgspec.Struct):
    """A line of the daemon, of whichever port."""

    port: str = msgspec.field(name="__port")
    id: str = ""
    agent: str | None = None
    content: str = ""
    is_error: bool = False


class Told(msgspec.Struct):
    """What a content may hold: a fault's code, or a job and what became of it."""

    error: str = ""
    job: str = ""
    state: str = ""
    content: str = ""


class Expected(msgspec.Struct):
    """What a request may be answered with: this content, or a fault of one of these codes.

    `then` goes on with a background call's job; `of_job` says that the result stands in a `job_wait`'s content.
    """

    content: str
    faults: tuple[str, ...] = ()
    then: Callable[[str], None] | None = None
    of_job: bool = False


decode_line: Final = msgspec.json.Decoder(Line).decode
decode_told: Final = msgspec.json.Decoder(Told).decode
encode: Final = msgspec.json.Encoder().encode


class Agent:
    """One session: what it is owed, and what it does next."""

    def __init__(self, load: Load, channel: Channel, name: str | None, *, has_mcp: bool) -> None:
        self.load = load
        self.channel = channel
        self.name = name
        self.has_mcp = has_mcp
        self.generation = 0
        self.asked = 0
        self.live: dict[str, Expected] = {}
        self.is_leaving = False
        actions = [self.inline, self.map, self.process, self.cancel, self.deadline, self.job, self.stop_job, self.leave]
        weights = [60, 20, 4, 2, 1, 3, 1, 2]
        self._actions: list[Callable[[], None]] = [*actions, self.mcp] if has_mcp else [*actions]
        self._weights = [*weights, WEIGHT_OF_MCP] if has_mcp else weights
        load.later(load.rng.uniform(0, PAUSE_S), self.act)

    # --- its life ---

    def greet(self) -> None:
        """Open a session; what it does next need not wait for `ready`."""
        self.generation += 1
        self.asked = 0
        self.is_leaving = False
        hello: dict[str, object] = {"__port": "hello", "profile": "mcp" if self.has_mcp else "plain"}
        self.say(hello | {"meta": self.load.rng.random() < 0.3})
        self.load.counters.add(Count.OPENED)

    def act(self) -> None:
        """Do one thing, and the next one later."""
        if not self.load.is_ending:
            if self.may_ask:
                self.load.rng.choices(self._actions, self._weights)[0]()
            self.load.later(self.load.rng.expovariate(1 / PAUSE_S), self.act)

    def leave(self) -> None:
        """Say bye; one on a socket of its own may end it in other ways as well."""
        chance = self.load.rng.random()
        if self.name is None and chance < 0.4:
            self.channel.close()
        elif self.name is None and chance < 0.7:
            self.channel.half_close()
        else:
            self.is_leaving = True
            self.say({"__port": "bye"})
            self.load.counters.add(Count.BYES)

    def forget(self, count: Count) -> None:
        """The channel is gone, and with it what was owed."""
        self.load.counters.add(count, len(self.live))
        if count is Count.LOST and self.live:
            self.load.tell(f"lost: {self.who} {self.live}")
        self.live.clear()

    # --- requests ---

    @property
    def who(self) -> str:
        """This session, and no other one of this run."""
        return f"{self.load.name}/{self.channel.number}/{self.name}/{self.generation}"

    @property
    def may_ask(self) -> bool:
        """Whether a request would be answered, and its answer waited for."""
        return self.channel.is_usable and not self.is_leaving and not self.load.is_ending

    def say(self, message: dict[str, object]) -> None:
        """One line out, with the agent's name where it has one."""
        self.channel.say(message if self.name is None else message | {"agent": self.name})

    def ask(self, tool: str, expected: Expected, value: object, **fields: object) -> str:
        """One request; its id."""
        call_id = f"{self.generation}.{self.asked}"
        self.asked += 1
        self.live[call_id] = expected
        self.load.counters.add(Count.ASKED)
        self.say({"__port": "tool_req", "id": call_id, "name": tool, "input": value, **fields})
        return call_id

    def value(self) -> dict[str, object]:
        """An input of this very request."""
        return {"who": self.who, "n": self.asked, "text": "x" * self.load.rng.choice((0, 40, 200, 3000))}

    def inline(self) -> None:
        """Some at once."""
        for _ in range(self.load.rng.randint(1, 8)):
            value = self.value()
            self.ask("echo", Expected(encode(value).decode()), value)

    def map(self) -> None:
        """Some at once."""
        for _ in range(self.load.rng.randint(1, 4)):
            note = str(self.asked)
            self.ask("mark", Expected(encode(f"{self.who}#{note}").decode()), {"who": self.who, "note": note})

    def process(self) -> None:
        """A child that gives its input back."""
        self._ask_process("cat")

    def _ask_process(self, tool: str, **fields: object) -> str:
        self.load.counters.add(Count.PROCESSES)
        value = self.value()
        return self.ask(tool, Expected(encode(value).decode()), value, **fields)

    def cancel(self) -> None:
        """A child that takes longer than its agent waits."""
        call_id = self._ask_process("slow")
        self.live[call_id].faults = ("cancelled",)
        generation = self.generation

        def cancel() -> None:
            if self.generation == generation and self.channel.is_usable and not self.is_leaving:
                self.say({"__port": "tool_cancel", "id": call_id})

        self.load.later(self.load.rng.uniform(*LATER_S), cancel)

    def deadline(self) -> None:
        """A child that takes longer than the request allows."""
        self.load.counters.add(Count.PROCESSES)
        self.ask("slow", Expected("", ("timeout",)), self.value(), deadline_ms=self.load.rng.randint(50, 500))

    def mcp(self) -> None:
        """Some at once; while the server starts they wait for it."""
        for _ in range(self.load.rng.randint(1, 4)):
            text = f"{self.who}#{self.asked}"
            self.load.counters.add(Count.MCP)
            self.ask("thin:echo", Expected(text), {"text": text})

    def job(self) -> None:
        """A child in the background, and a wait for what it gives."""
        value = self.value()
        result = encode(value).decode()

        def wait(job: str) -> None:
            # The end of the session cancels its jobs.
            self.ask("job_wait", Expected(result, ("cancelled",), of_job=True), {"job": job})

        self.load.counters.add(Count.JOBS)
        self.ask("cat", Expected("", then=wait), value, background=True)

    def stop_job(self) -> None:
        """A child in the background that is stopped."""
        value = self.value()
        result = encode(value).decode()
        generation = self.generation

        def later(job: str) -> None:
            def stop() -> None:
                if self.generation == generation and self.may_ask:
                    self.ask("job_stop", Expected(result, ("cancelled",), of_job=True), {"job": job})

            self.load.later(self.load.rng.uniform(*LATER_S), stop)

        self.load.counters.add(Count.JOBS)
        self.ask("slow", Expected("", then=later), value, background=True)

    # --- answers ---

    def answered(self, line: Line) -> None:
        """Hold one answer against its request."""
        counters = self.load.counters
        expected = self.live.pop(line.id, None)
        if expected is None:
            generation, _dot, number = line.id.partition(".")
            is_ours = generation == str(self.generation) and number.isdigit() and int(number) < self.asked
            counters.add(Count.DOUBLED if is_ours else Count.CROSSED)
            self.load.tell(f"doubled or crossed: {self.who} {line}")
            return
        counters.add(Count.ANSWERED)
        if line.is_error:
            self._failed(line, decode_told(line.content).error, expected)
        elif expected.then is not None:
            job = decode_told(line.content).job
            if self.may_ask:
                expected.then(job)
        elif expected.of_job:
            self._job_done(line, expected)
        elif line.content != expected.content or not expected.content:
            counters.add(Count.CROSSED)
            self.load.tell(f"crossed: {self.who} {line}, expected {expected}")

    def _failed(self, line: Line, code: str, expected: Expected) -> None:
        if code not in expected.faults:
            self.load.counters.add(Count.WRONG)
            self.load.tell(f"wrong: {self.who} {line}, expected {expected}")
        else:
            self.load.counters.add(Count.CANCELLED if code == "cancelled" else Count.TIMED_OUT)

    def _job_done(self, line: Line, expected: Expected) -> None:
        told = decode_told(line.content)
        if told.state == "done" and told.content == expected.content:
            return
        # A stopped job's result is a fault, in its content.
        error = decode_told(told.content).error if told.content.startswith('{"error"') else told.state
        self._failed(line, error, expected)
