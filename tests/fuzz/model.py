"""The reference for sessions under any schedule: plain dictionaries that say which ends each call may have had.

A call is known by its channel, its agent and its id. Whatever could end it adds what it would be answered with to what
the call `may` have; where the end must have come once everything has settled, the call is `due`. The daemon is right
if each request has one answer, which is among those.
"""

import json
from collections import Counter
from typing import Final, NamedTuple

import msgspec

# At most so many calls of one agent run, and so many wait.
IN_FLIGHT: Final = 3
WAITING: Final = 2


class Key(NamedTuple):
    channel: int
    agent: str | None
    id: str


class Known(msgspec.Struct):
    """One request as the model knows it."""

    key: Key
    tool: str
    sent_at: float
    deadline_s: float
    is_background: bool
    may: set[str] = set()
    is_due: bool = False
    is_halted: bool = False
    """Whether it was asked to end early, and everything has settled since: how it ends is fixed."""
    is_told: bool = False
    job: str | None = None
    byes: int = 0
    """How often its agent had said `bye` by then: each ends a session, whose jobs no other one knows."""
    end: str | None = None
    """How its job ended, once that was told."""


class Party(msgspec.Struct):
    """One agent of one channel, as far as what was said to it goes."""

    has_said_hello: bool = False
    byes: int = 0
    was_reopened: bool = False
    is_late: bool = False
    """Whether its `hello` came after the `bye` of the channel's own session, and may have found the channel closed."""

    @property
    def has_said_bye(self) -> bool:
        return self.byes > 0


class Model:
    """What was asked, what may come of it, and what came."""

    def __init__(self, limits_s: dict[str, float]) -> None:
        self.limits_s = limits_s
        self.calls: dict[Key, Known] = {}
        self.parties: dict[tuple[int, str | None], Party] = {}
        self.asked: Counter[Key] = Counter()
        self.answered: Counter[Key] = Counter()
        self.duplicates: Counter[Key] = Counter()
        # Channels that the daemon ends: what is said there from then on may be heard by nobody.
        self.ending: set[int] = set()
        self.gone: set[int] = set()
        # Where the own session has said `bye`: the channel closes when no other agent is left.
        self.left: set[int] = set()
        self.unsure: Counter[Key] = Counter()
        # Said since everything settled last.
        self.unread: Counter[Key] = Counter()
        # Questions about jobs that have no answer yet: the job, the tool, how often the agent had said `bye`.
        self.looks: dict[tuple[int, str], tuple[Known, str, int]] = {}

    def party(self, channel: int, agent: str | None) -> Party:
        return self.parties.setdefault((channel, agent), Party())

    # --- what is said ---

    def ask(self, known: Known) -> None:
        """A request was sent."""
        key = known.key
        party = self.party(key.channel, key.agent)
        is_kept = party.has_said_hello and not party.has_said_bye and not party.is_late
        if key.channel in self.ending or (key.channel in self.left and not is_kept):
            self.unsure[key] += 1
        else:
            self.asked[key] += 1
            self.unread[key] += 1
        if key in self.calls:
            # The id of a call that may be in flight still: what comes is one or the other.
            self.calls[key].may |= self._at_once(known) | {"done"}
            return
        known.may = self._at_once(known)
        known.byes = party.byes
        self.calls[key] = known

    def _at_once(self, known: Known) -> set[str]:
        """What the request may be answered with in the moment it comes."""
        key = known.key
        party = self.party(key.channel, key.agent)
        may: set[str] = set()
        if key.channel in self.ending or party.is_late:
            may |= {"draining", "unknown_agent"}
        if key.agent is not None and not party.has_said_hello:
            return {"unknown_agent"}
        if party.has_said_bye:
            may |= {"draining", "unknown_agent"} if key.agent is not None else {"draining"}
            if not party.was_reopened:
                return may
        # A job's end is heard of only by who asks for it.
        mine = [call for call in self.calls.values() if call.key[:2] == key[:2]]
        busy = [call for call in mine if not call.is_told or (call.job is not None and call.end is None)]
        if len(busy) >= IN_FLIGHT + WAITING:
            may.add("queue_full")
        if known.is_background:
            may.add("job")
        elif known.tool == "echo":
            may.add("done")
        return may

    def cancel(self, key: Key) -> None:
        """`tool_cancel` was sent."""
        call = self.calls.get(key)
        if call is not None and not call.is_told and not call.is_background:
            call.may.add("cancelled")
            call.is_due = call.is_due or call.tool in {"slot", "server"}

    def look(self, look_id: str, call: Known, tool: str) -> None:
        """A question about a job was sent; `job_stop` may also end it, or its namesake in the agent's next session."""
        byes = self.party(*call.key[:2]).byes
        self.looks[call.key.channel, look_id] = (call, tool, byes)
        if tool == "job_stop":
            for other in self._jobs_of(call, byes):
                if other.job in {None, call.job}:
                    other.may.add("cancelled")

    def _jobs_of(self, call: Known, byes: int) -> list[Known]:
        """The background calls of the session that the call's agent has after so many byes, if it has one."""
        return [
            other
            for other in self.calls.values()
            if other.is_background and other.key[:2] == call.key[:2] and other.byes == byes
        ]

    def hello(self, channel: int, agent: str | None) -> None:
        party = self.party(channel, agent)
        party.was_reopened = party.was_reopened or party.has_said_bye
        party.has_said_hello = True
        party.is_late = party.is_late or channel in self.left

    def bye(self, channel: int, agent: str | None) -> None:
        self.party(channel, agent).byes += 1
        if agent is None:
            self.left.add(channel)
        self._cancel_jobs(channel, agent)

    # --- what happens ---

    def _cancel_jobs(self, channel: int, agent: str | None) -> None:
        for call in self.calls.values():
            if call.key[:2] == (channel, agent) and call.is_background:
                call.may.add("cancelled")

    def end_input(self, channel: int) -> None:
        for number, agent in list(self.parties):
            if number == channel:
                self._cancel_jobs(channel, agent)

    def end_from_outside(self, channel: int, ending: str) -> None:
        """The daemon drains or aborts the channel, or its peer is gone."""
        self.ending.add(channel)
        self.end_input(channel)
        for key, call in self.calls.items():
            if key.channel == channel and (not call.is_told or self.unread[key]):
                # Lines may lie unread: those are turned down, or nobody looks at them any more.
                call.may |= {"draining", "unknown_agent"}
            elif key.channel == channel and call.is_background and ending == "abort":
                # Who waits for the job is told of its end before the channel's.
                call.may.add("draining")
        for key, count in self.unread.items():
            if key.channel == channel:
                self.asked[key] -= count
                self.unsure[key] += count
        if ending == "gone":
            self.gone.add(channel)

    def finish(self, key: Key, outcome: str) -> None:
        """The tool is done; one that was halted before, and everything settled since, is too late."""
        call = self.calls[key]
        if not call.is_halted:
            call.may.add(outcome)
        call.is_due = call.is_due or call.tool != "task"

    def time_has_passed(self, now: float) -> None:
        for call in self.calls.values():
            spent = now - call.sent_at
            if spent >= min(call.deadline_s, self.limits_s[call.tool]):
                call.may.add("timeout")
            if spent >= call.deadline_s and call.tool in {"slot", "server"} and not call.is_background:
                call.is_due = True

    def connection_is_dead(self, running: list[Key]) -> None:
        """Calls on it that have not ended may be told so; those that ran must be."""
        for call in self.calls.values():
            if call.tool == "server" and (not call.is_told or call.job is not None):
                call.may.add("connection_dead")
        for key in running:
            self.calls[key].is_due = True

    # --- what is heard ---

    def hear(self, channel: int, line: object) -> None:
        """One line of the daemon; what is no answer and no fault about a request says nothing here."""
        assert isinstance(line, dict)
        is_fault = line.get("__port") == "fault"
        call_id = line.get("id")
        if call_id is None:
            return
        if (channel, call_id) in self.looks:
            self._hear_look(*self.looks.pop((channel, str(call_id))), line)
            return
        key = Key(channel, line.get("agent"), call_id)
        assert key in self.calls, f"an answer to nothing: {line}"
        if is_fault:
            assert line["error"] == "duplicate_id", line
            self.duplicates[key] += 1
            return
        self.answered[key] += 1
        call = self.calls[key]
        outcome = outcome_of(line)
        assert outcome in call.may, f"{call} was answered with {outcome}"
        call.is_told = True
        if outcome == "job":
            call.job = json.loads(line["content"])["job"]

    def _hear_look(self, call: Known, tool: str, byes: int, line: dict[str, object]) -> None:
        """What was said of a job: its end, once it has one, is one that it may have had, and stays the same."""
        jobs = [other for other in self._jobs_of(call, byes) if other.job == call.job]
        if line.get("fault"):
            # Too many questions of an agent, or its session was over; its jobs are known as long as it is there.
            unknown = set() if jobs else {"unknown_job"}
            assert outcome_of(line) in {"draining", "unknown_agent", "cancelled", "queue_full"} | unknown, line
            return
        assert jobs, f"a job of a session that has ended: {line}"
        call = jobs[-1]
        told = json.loads(str(line["content"]))
        assert (told["job"], told["name"]) == (call.job, call.tool), f"not the job that was asked for: {line}"
        if told["state"] == "running":
            assert call.end is None, f"{call} had ended, and runs again"
            assert tool == "job_read", f"{tool} has not waited: {line}"
            return
        end = outcome_of(told)
        assert end in call.may, f"{call} is said to have ended with {end}"
        assert call.end in {None, end}, f"{call} has ended twice, now with {end}"
        call.end = end

    # --- what must hold ---

    def check_settled(self) -> None:
        """Nothing moves any more: what was due has come, and what was halted will end as such."""
        self.unread.clear()
        sure = [key for key in self.looks if key[0] not in self.ending | self.left]
        assert all(self.looks[key][1] != "job_read" for key in sure), f"a job cannot be read: {self.looks}"
        for call in self.calls.values():
            if call.key.channel in self.gone:
                continue
            if call.is_due and not call.is_background and not self.unsure[call.key]:
                assert call.is_told, f"{call} should have been answered"
            if "cancelled" in call.may or "timeout" in call.may:
                call.is_halted = self.is_certain(call)

    @staticmethod
    def is_certain(call: Known) -> bool:
        """Whether `cancelled` is the only end that there is: nothing else has ended it meanwhile."""
        return call.may == {"cancelled"} and not call.is_told

    def check_ended(self) -> None:
        """Every channel is closed: each request has had its one answer, or nobody to give it to."""
        for key, asked in self.asked.items():
            said = self.answered[key] + self.duplicates[key]
            if key.channel in self.gone:
                assert said <= asked + self.unsure[key], f"{key}: asked {asked}, answered {said}"
            else:
                assert asked <= said <= asked + self.unsure[key], f"{key}: asked {asked}, answered {said}"


def outcome_of(line: dict[str, object]) -> str:
    """`done`, `job`, or the code of the fault."""
    content = str(line["content"])
    if line.get("fault"):
        return str(json.loads(content)["error"])
    return "job" if content.startswith('{"job":') else "done"
