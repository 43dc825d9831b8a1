"""Programs and functions that do what no honest one does: how each call ends, what is left, and who suffered."""

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.daemon import hostilities
from tests.daemon.hostile_ways import BATCHES, CALL_S, Way, Ways, able, configured, note_of, outcomes_of, tool_of
from tests.daemon.spawned import PATIENCE_S, Agent, Message, warm_checkers
from tests.daemon.traces import (
    Held,
    at_last,
    daemon_in,
    family,
    groups_of,
    groups_said,
    held,
    is_silent,
    left_of,
    mounted,
    on_a_busy_machine,
    open_directory,
    settled,
)

# How long what is left of a call may be there after its answer: an orphan lives a fifth of a second longer, and its own
# orphans as much longer each.
LEFT_S: Final = 2.0
# The first have a time to get underway in, which all those interpreters at once could take from them; the last leave no
# directory for who begins after them.
WAVES: Final = ("timed", "others", "filling")
TOO_MUCH: Final = "x" * 10 * 1024 * 1024


class Hostile(NamedTuple):
    """One hostile call, on a channel of its own."""

    agent: Agent
    note: Path
    outcome: str
    """What is to come of it."""


class Fought(NamedTuple):
    """What came of a batch of hostile calls that ran at once."""

    outcomes: dict[str, str]
    expected: dict[str, str]
    surprises: list[Message]
    """Answers that are not as expected."""
    served: list[Message]
    """The answers to another agent's calls."""
    are_early: bool
    """Whether none of the calls that would go on for ever had an answer by then."""
    seen: int
    """The processes of hostile calls that were there by then."""
    before: Held
    after: Held
    left: list[int]
    """Processes that are still in a group or a session of theirs."""


class Scene:
    """A daemon with the tools of some ways, an agent that behaves, and those that do not."""

    def __init__(self, stage: ExitStack, ways: Ways) -> None:
        self.directory = stage.enter_context(open_directory())
        shutil.copy(str(hostilities.__file__), self.directory)
        is_full = stage.enter_context(mounted(self.directory / "tmp", "size=256k,mode=1777"))
        self.ways = able(ways, is_full=is_full)
        self.daemon = stage.enter_context(daemon_in(self.directory, configured(self.ways, self.directory)))
        self.good = stage.enter_context(self.daemon.agent())

    def warm_up(self) -> Held:
        """Have every way taken once, so that what stays is there; what that is."""
        for name, way in self.ways.items():
            with self.daemon.agent() as agent:
                call(agent, self.directory, name, way, "answers")
                assert told(agent.hear()) == "1"
        assert [told(answer) for answer in self.serve()] == ["1", "1"]
        with self.daemon.agent() as one, self.daemon.agent() as other:
            warm_checkers(one, other)
        return settled(self.daemon, self.directory)

    def serve(self) -> list[Message]:
        answers = {"ending": "answers", "note": str(self.directory / "notes" / "served")}
        return [self.good.ask("soon", None), self.good.ask("function", answers)]

    def groups(self) -> set[int]:
        """The groups and sessions that hostile programs say they were in."""
        return groups_said(self.directory / "notes")

    def begin(self, channels: ExitStack, wave: str) -> dict[str, Hostile]:
        """The hostile calls of one of `WAVES`."""
        begun = {}
        for name, way in self.ways.items():
            for ending, outcome in outcomes_of(way).items():
                if wave_of(ending, outcome) == wave:
                    agent = channels.enter_context(self.daemon.agent())
                    call(agent, self.directory, name, way, ending)
                    begun[f"{name}: {ending}"] = Hostile(agent, note_of(self.directory, name, ending), outcome)
        return begun


def wave_of(ending: str, outcome: str) -> str:
    if ending == "fills_the_file_system":
        return "filling"
    return "timed" if outcome == "timeout" else "others"


def call(agent: Agent, directory: Path, name: str, way: Way, ending: str) -> None:
    tool, note = tool_of(name, way, ending), note_of(directory, name, ending)
    if way.kind != "python":
        agent.call("hostile", tool, TOO_MUCH if ending in hostilities.UNREAD else None)
    elif outcomes_of(way).get(ending) == "timeout":
        agent.call("hostile", tool, {"ending": ending, "note": str(note)}, deadline_ms=int(CALL_S * 1000))
    else:
        agent.call("hostile", tool, {"ending": ending, "note": str(note)})


def told(answer: Message) -> str:
    """The answer, or the code of the fault and the limit that it names."""
    if not answer["is_error"]:
        return str(answer["content"])
    fault = json.loads(answer["content"])
    return f"{fault['error']}: {fault['limit']}" if "limit" in fault else str(fault["error"])


@pytest.fixture(scope="module", params=BATCHES)
def fought(request: pytest.FixtureRequest) -> Iterator[Fought]:
    with ExitStack() as stage:
        yield fight(Scene(stage, BATCHES[request.param]))


def fight(scene: Scene) -> Fought:
    before, staying = scene.warm_up(), family(scene.daemon)
    own = groups_of({*staying, scene.daemon.process.pid}).values()
    with ExitStack() as channels:
        hostile: dict[str, Hostile] = {}
        for wave in WAVES:
            begun = scene.begin(channels, wave)
            assert left_of(partial(not_underway, begun), within_s=on_a_busy_machine(PATIENCE_S)) == []
            hostile |= begun
        seen = family(scene.daemon) - staying
        served = scene.serve()
        endless = [each.agent for each in hostile.values() if each.outcome == "cancelled"]
        are_early = all(is_silent(agent) for agent in endless)
        for agent in endless:
            agent.say({"__port": "tool_cancel", "id": "hostile"})
        answers = {name: each.agent.hear() for name, each in hostile.items()}
    theirs = scene.groups() - {number for groups in own for number in groups}
    left = left_of(lambda: members(theirs), within_s=on_a_busy_machine(LEFT_S))
    # What is replaced only when it is needed is there again.
    scene.warm_up()
    after = at_last(lambda: held(scene.daemon, scene.directory), before, within_s=on_a_busy_machine(LEFT_S))
    expected = {name: each.outcome for name, each in hostile.items()}
    outcomes = {name: told(answer) for name, answer in answers.items()}
    surprises = [answers[name] for name in outcomes if outcomes[name] != expected[name]]
    return Fought(outcomes, expected, surprises, served, are_early, len(seen), before, after, left)


def not_underway(hostile: dict[str, Hostile]) -> list[str]:
    return [name for name, each in hostile.items() if not each.note.exists()]


def members(numbers: set[int]) -> list[int]:
    """The processes of the machine in a group or session with one of these numbers."""
    return [pid for pid, group in groups_of().items() if numbers & set(group)]


def test_each_call_ends_as_it_must(fought: Fought) -> None:
    assert fought.outcomes == fought.expected, fought.surprises


def test_another_agent_is_served_while_all_of_them_run(fought: Fought) -> None:
    assert fought.seen >= len([outcome for outcome in fought.expected.values() if outcome == "cancelled"])
    assert [told(answer) for answer in fought.served] == ["1", "1"]
    assert fought.are_early


def test_no_process_is_left_in_their_groups_and_sessions(fought: Fought) -> None:
    assert fought.left == []


def test_the_daemon_holds_what_it_held_before(fought: Fought) -> None:
    assert [new - old for new, old in zip(fought.after[:2], fought.before[:2], strict=True)] == [Counter(), Counter()]
    assert fought.after == fought.before
