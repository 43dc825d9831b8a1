"""Peers that are slow, careless or hostile, beside an agent that behaves: what each is told, and what is left."""

import json
import os
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from tests.daemon.spawned import Agent, Daemon, Message, children_of, daemon_on, until, warm_checkers

KIB: Final = 1024
MIB: Final = 1024 * KIB
TOOLS: Final = """
[tools.echo]
type = "json -> json"
inline = "id"
[tools.soon]
command = ["sh", "-c", "cat >/dev/null; sleep 0.1; echo 1"]
[tools.never]
command = ["sleep", "1000"]
"""
PING: Final[Message] = {"__port": "ping"}
# What the interpreter takes for itself while anything goes on: arenas, compiled regular expressions, caches.
SLACK: Final = 16 * MIB


def line(message: Message) -> bytes:
    return json.dumps(message).encode() + b"\n"


def request(call_id: str, value: object, *, tool: str = "echo") -> bytes:
    return line({"__port": "tool_req", "id": call_id, "name": tool, "input": value})


def answer(call_id: str, content: str) -> Message:
    return {"__port": "tool_resp", "id": call_id, "content": content, "is_error": False}


def code_of(heard: Message) -> str:
    """The fault that a line tells, as an answer or by itself."""
    fault = heard if heard["__port"] == "fault" else json.loads(heard["content"])
    return str(fault["error"])


def resident_bytes(daemon: Daemon) -> int:
    pages = int(Path(f"/proc/{daemon.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def held_by(daemon: Daemon) -> tuple[int, set[int]]:
    """How many descriptors it has open, and its children."""
    return len(list(Path(f"/proc/{daemon.process.pid}/fd").iterdir())), children_of(daemon.process.pid)


class Scene:
    """A daemon, an agent that behaves, and hostile ones."""

    def __init__(self, daemon: Daemon, good: Agent, stage: ExitStack) -> None:
        self.daemon = daemon
        self.good = good
        self._stage = stage
        self._asked = 0

    def enter(self, number: int = 1) -> list[Agent]:
        """So many more channels; they leave at the end of the scene at the latest."""
        return [self._stage.enter_context(self.daemon.agent()) for _ in range(number)]

    def others_are_served(self) -> None:
        self._asked += 1
        assert self.good.ask("echo", self._asked)["content"] == str(self._asked)


@contextmanager
def scene(directory: Path, limits: str = "", *, grows_by: int = 0) -> Iterator[Scene]:
    """What the hostile peers of a scene leave behind is looked for at its end, and that its memory kept its bound."""
    with daemon_on(directory, f"{TOOLS}[limits]\n{limits}") as daemon, daemon.agent() as good, daemon.agent() as other:
        # With the first child come the guardians, which stay.
        assert good.ask("soon", {})["content"] == "1"
        # Both checkers stay too, once two large values came at once.
        warm_checkers(good, other)
        before, resident = held_by(daemon), resident_bytes(daemon)
        with ExitStack() as stage:
            played = Scene(daemon, good, stage)
            yield played
            assert resident_bytes(daemon) - resident < grows_by + SLACK
            played.others_are_served()
        until(lambda: held_by(daemon) == before)
        played.others_are_served()
        assert "incident" not in daemon.log.read_text()


def pump(agent: Agent, flood: bytes, lines: int, *, begun: bytes = b"") -> list[Message]:
    """Send `flood` and read so many lines, both at once: who only sends is not read from in the end."""
    heard, count, left = bytearray(begun), begun.count(b"\n"), memoryview(flood)
    agent.channel.setblocking(False)
    while count < lines:
        writing = [agent.channel] if left else []
        readable, writable, _ = select.select([agent.channel], writing, [], 10)
        assert readable or writable, f"{count} of {lines} lines within 10 s"
        with suppress(BlockingIOError):
            if writable:
                left = left[agent.channel.send(left) :]
        with suppress(BlockingIOError):
            if readable:
                chunk = agent.channel.recv(MIB)
                assert chunk, "the daemon closed the channel"
                heard += chunk
                count += chunk.count(b"\n")
    agent.channel.settimeout(10)
    return [json.loads(each) for each in heard.splitlines()]


def fill(agent: Agent, flood: bytes) -> int:
    """Send of `flood` until the kernel takes no more for a while; how much it took."""
    sent = 0
    while sent < len(flood) and select.select([], [agent.channel], [], 0.05)[1]:
        sent += agent.channel.send(flood[sent : sent + 64 * KIB], socket.MSG_DONTWAIT)
    return sent


# --- peers that are slow ---


def test_peers_that_never_read_are_read_from_no_more_and_are_dropped_in_time(tmp_path: Path) -> None:
    limits = f"out_buffer_bytes = {64 * KIB}\nstalled_s = 0.5\n"
    with scene(tmp_path, limits, grows_by=5 * MIB) as stage:
        flood = line({"__port": "tools"}) * 50_000
        for peer in stage.enter(5):
            assert fill(peer, flood) < len(flood)
            stage.others_are_served()
        # Their own ends are still open: it is the daemon that has dropped them.
        until(lambda: stage.daemon.logged("session closed") == 5)


def test_a_peer_that_reads_byte_by_byte_is_not_dropped_and_misses_nothing(tmp_path: Path) -> None:
    limits = f"out_buffer_bytes = {64 * KIB}\n"
    with scene(tmp_path, limits, grows_by=2 * MIB) as stage:
        [peer] = stage.enter()
        flood = b"".join(request(str(number), "x" * 1000) for number in range(2000))
        sent = fill(peer, flood)
        assert sent < len(flood)
        read = b""
        for _ in range(50):
            read += peer.channel.recv(1)
            stage.others_are_served()
        heard = pump(peer, flood[sent:], 2000, begun=read)
        assert [each["id"] for each in heard] == [str(number) for number in range(2000)]


def test_a_request_that_comes_byte_by_byte_is_answered(tmp_path: Path) -> None:
    with scene(tmp_path) as stage:
        [peer] = stage.enter()
        for byte in request("1", "slow"):
            peer.channel.sendall(bytes([byte]))
            stage.others_are_served()
        assert peer.hear() == answer("1", '"slow"')


def test_a_line_that_never_ends_is_refused_once_and_takes_no_memory(tmp_path: Path) -> None:
    limits = f"max_line_bytes = {64 * KIB}\n"
    with scene(tmp_path, limits) as stage:
        [peer] = stage.enter()
        peer.channel.sendall(b'{"__port":"tool_req","id":"1","name":"echo","input":"')
        for _ in range(64):
            peer.channel.sendall(b"x" * MIB)
            stage.others_are_served()
        peer.channel.sendall(b'"}\n' + request("2", "after"))
        refused = peer.hear()
        assert (refused["id"], code_of(refused)) == ("1", "line_too_long")
        assert peer.hear() == answer("2", '"after"')


# --- ends ---


def test_what_a_peer_asked_before_it_half_closed_is_answered_and_then_the_channel_ends(tmp_path: Path) -> None:
    with scene(tmp_path) as stage:
        [peer] = stage.enter()
        peer.channel.sendall(request("1", {}, tool="soon") + request("2", "now") + request("3", "unfinished")[:-1])
        peer.end_input()
        assert [peer.hear() for _ in range(4)] == [
            answer("2", '"now"'),
            answer("3", '"unfinished"'),
            answer("1", "1"),
            {"end": True},
        ]


def test_peers_that_close_with_answers_unread_leave_nothing_running(tmp_path: Path) -> None:
    with scene(tmp_path, "processes = 10\n") as stage:
        for peer in stage.enter(10):
            peer.channel.sendall(request("never", {}, tool="never") + request("1", "unread") * 1000)
            assert peer.channel.recv(1) == b"{"
        until(lambda: len(stage.daemon.running("sleep")) == 10)
        stage.others_are_served()


def test_peers_that_come_and_go_at_once_leave_nothing(tmp_path: Path) -> None:
    with scene(tmp_path) as stage:
        for _ in range(200):
            with stage.daemon.agent() as peer:
                peer.channel.sendall(request("1", {}, tool="never")[:-1])
        stage.others_are_served()


# --- lines ---


def test_the_longest_line_is_served_and_a_longer_one_is_refused_by_its_id(tmp_path: Path) -> None:
    frame = len(request("1", ""))
    with scene(tmp_path, grows_by=64 * MIB) as stage:
        [peer] = stage.enter()
        peer.say({"__port": "hello", "max_output": 16 * MIB})
        assert peer.hear()["__port"] == "ready"
        longest = request("1", "x" * (8 * MIB - frame + 1))
        assert len(longest) == 8 * MIB + 1  # with its newline
        [heard] = pump(peer, longest, 1)
        assert (heard["id"], len(heard["content"])) == ("1", 8 * MIB - frame + 3)
        refused, after = pump(peer, request("2", "x" * 8 * MIB) + request("3", "after"), 2)
        assert (refused["id"], refused["fault"], code_of(refused)) == ("2", True, "line_too_long")
        assert after == answer("3", '"after"')


def test_half_a_longest_line_of_each_of_many_takes_that_and_no_more(tmp_path: Path) -> None:
    with scene(tmp_path, grows_by=10 * 8 * MIB) as stage:
        for peer in stage.enter(10):
            peer.channel.sendall(request("1", "x" * 4 * MIB)[:-1])
            stage.others_are_served()


BRACKETS: Final = 100_000
WRONG_LINES: Final = [
    pytest.param(b"[" * BRACKETS, "malformed_line", id="brackets that open"),
    pytest.param(b"[" * BRACKETS + b"]" * BRACKETS, "malformed_line", id="brackets that close again"),
    pytest.param(b'{"a":' * BRACKETS, "malformed_line", id="braces"),
    pytest.param(b"\0" * BRACKETS, "malformed_line", id="NULs"),
    pytest.param(b'{"__port":"ping\0"}', "malformed_line", id="a NUL in a string"),
    pytest.param(b'{"__port":"\\ud800"}', "malformed_line", id="a lone surrogate, escaped"),
    pytest.param(b'{"__port":"\xed\xa0\x80"}', "malformed_line", id="a lone surrogate, as bytes"),
    pytest.param(b"\xff\xfe" * 1000, "malformed_line", id="no UTF-8"),
    pytest.param(b"1", "malformed_line", id="a number"),
    pytest.param(b'{"__port":"ping","__port":"hullo"}', "invalid_request", id="two ports"),
    pytest.param(b'{"__port":"tool_req","id":1,"name":"echo"}', "invalid_request", id="an id that is a number"),
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """One scene for all the single lines; its end is checked once."""
    with scene(tmp_path_factory.mktemp("hostile"), grows_by=16 * MIB) as stage:
        yield stage


@pytest.mark.parametrize(("wrong", "code"), WRONG_LINES)
def test_a_line_that_is_no_request_is_told_as_a_fault_and_harms_no_other(
    shared: Scene, wrong: bytes, code: str
) -> None:
    with shared.daemon.agent() as peer:
        peer.channel.sendall(request("1", "before") + wrong + b"\n" + request("2", "after"))
        assert peer.hear() == answer("1", '"before"')
        fault = peer.hear()
        assert (fault["__port"], fault["line"], fault["error"]) == ("fault", 2, code)
        assert len(json.dumps(fault)) < KIB
        assert peer.hear() == answer("2", '"after"')
        shared.others_are_served()


WRONG_INPUTS: Final = [
    pytest.param(b"[" * BRACKETS + b"]" * BRACKETS, {"malformed_line", "invalid_input"}, id="brackets"),
    pytest.param(b'"a\0b"', {"malformed_line", "invalid_input"}, id="a NUL"),
    pytest.param(b'"\\ud800"', {"malformed_line", "invalid_input"}, id="a lone surrogate, escaped"),
    pytest.param(b'"\xed\xa0\x80"', {"malformed_line"}, id="a lone surrogate, as bytes"),
    pytest.param(b"[1,]", {"malformed_line", "invalid_input"}, id="a comma too many"),
    pytest.param(b"1" * BRACKETS, {"malformed_line", "invalid_input"}, id="a number without end"),
]


@pytest.mark.parametrize(("value", "codes"), WRONG_INPUTS)
def test_a_request_whose_input_cannot_be_read_is_answered_by_its_id(
    shared: Scene, value: bytes, codes: set[str]
) -> None:
    with shared.daemon.agent() as peer:
        peer.channel.sendall(b'{"__port":"tool_req","id":"1","name":"echo","input":%b}\n' % value + request("2", 2))
        # What takes long to be looked at is refused after what came behind it.
        refused, answered = sorted((peer.hear(), peer.hear()), key=lambda said: str(said["id"]))
        assert (refused["id"], refused["is_error"], refused["fault"]) == ("1", True, True)
        assert code_of(refused) in codes
        assert answered == answer("2", "2")
        shared.others_are_served()


def test_of_duplicate_keys_the_tool_and_the_check_see_the_same_one(shared: Scene) -> None:
    with shared.daemon.agent() as peer:
        peer.channel.sendall(b'{"__port":"tool_req","id":"1","id":"2","name":"echo","input":{"a":1,"a":2}}\n')
        peer.say(PING)
        assert peer.hear() == answer("2", '{"a":2}')
        assert peer.hear() == {"__port": "pong"}


@pytest.mark.parametrize("size", [513, 100_000, 4 * MIB])
def test_an_id_over_its_bound_is_not_said_back(shared: Scene, size: int) -> None:
    with shared.daemon.agent() as peer:
        peer.channel.sendall(request("i" * 512, 1) + request("i" * size, 2) + request("3", 3))
        assert peer.hear() == answer("i" * 512, "1")
        fault = peer.hear()
        assert (fault["__port"], fault["error"], fault["line"]) == ("fault", "invalid_request", 2)
        assert len(json.dumps(fault)) < KIB
        assert peer.hear() == answer("3", "3")
        shared.others_are_served()


# --- hellos ---


def test_a_hello_after_requests_changes_nothing(shared: Scene) -> None:
    with shared.daemon.agent() as peer:
        peer.channel.sendall(request("1", 1) + line({"__port": "hello", "meta": True}) + request("2", 2))
        assert peer.hear() == answer("1", "1")
        fault = peer.hear()
        assert (fault["__port"], fault["error"], fault["line"]) == ("fault", "invalid_request", 2)
        assert peer.hear() == answer("2", "2")


def test_of_two_hellos_the_first_holds(shared: Scene) -> None:
    with shared.daemon.agent() as peer:
        assert peer.hello("default")["__port"] == "ready"
        fault = peer.hello("another")
        assert (fault["__port"], fault["error"], fault["line"]) == ("fault", "invalid_request", 2)
        assert peer.ask("echo", 1) == answer("ask", "1")


def test_hellos_without_end_are_each_refused_and_open_one_session(shared: Scene) -> None:
    with shared.daemon.agent() as peer:
        opened = shared.daemon.logged("session opened")
        heard = pump(peer, line({"__port": "hello", "agent": "a"}) * 1000, 1000)
        assert heard[0]["__port"] == "ready"
        assert {each["error"] for each in heard[1:]} == {"invalid_request"}
        assert shared.daemon.logged("session opened") == opened + 1


# --- floods ---


def test_pings_over_the_lines_of_a_second_are_told_so_and_others_are_served(tmp_path: Path) -> None:
    with scene(tmp_path, "lines_per_s = 2000\n", grows_by=4 * MIB) as stage:
        [peer] = stage.enter()
        heard = pump(peer, line(PING) * 10_000, 10_000)
        stage.others_are_served()
        ports = [each["__port"] for each in heard]
        assert ports[:2000] == ["pong"] * 2000
        assert "fault" in ports
        assert {(each["error"], each["what"]) for each in heard if each["__port"] == "fault"} == {
            ("too_many", "lines_per_s")
        }


def test_a_flood_of_requests_on_many_channels_is_answered_once_each_while_another_is_served(tmp_path: Path) -> None:
    with scene(tmp_path, "lines_per_s = 2000\n", grows_by=16 * MIB) as stage:
        peers = stage.enter(8)
        flood = b"".join(request(str(number), number) for number in range(3000))
        sent = [fill(peer, flood) for peer in peers]
        stage.others_are_served()
        for peer, begun in zip(peers, sent, strict=True):
            heard = pump(peer, flood[begun:], 3000)
            assert sorted(int(each["id"]) for each in heard) == list(range(3000))
            assert {code_of(each) for each in heard if each["is_error"]} <= {"too_many"}
            stage.others_are_served()


def test_one_agent_that_floods_its_channel_does_not_keep_the_others_on_it_from_their_answers(tmp_path: Path) -> None:
    with scene(tmp_path, "in_flight = 4\nwaiting = 4\n") as stage:
        [peer] = stage.enter()
        peer.say({"__port": "hello", "agent": "flooding"}, {"__port": "hello", "agent": "modest"})
        assert [peer.hear()["agent"] for _ in range(2)] == ["flooding", "modest"]
        for number in range(20):
            peer.call(str(number), "never", {}, agent="flooding")
        peer.call("1", "echo", "mine", agent="modest")
        heard = [peer.hear() for _ in range(13)]
        assert [code_of(each) for each in heard[:-1]] == ["queue_full"] * 12
        assert heard[-1] == {**answer("1", '"mine"'), "agent": "modest"}


def test_all_of_them_at_once_keep_nobody_from_its_answers(tmp_path: Path) -> None:
    limits = f"out_buffer_bytes = {64 * KIB}\nstalled_s = 0.5\n"
    with scene(tmp_path, limits, grows_by=64 * MIB) as stage:
        floods = [
            request("1", "unread") * 20_000,
            line({"__port": "tools"}) * 20_000,
            b"".join(request(str(number), {}, tool="never") for number in range(400)) + line(PING) * 50_000,
            (b"[" * BRACKETS + b"\n") * 10,
            b"\0\n" * 50_000,
            request("1", "x" * 9 * MIB),
            request("i" * 600, 1) * 2000,
            line({"__port": "hello"}) * 5000,
            request("1", "half")[:-9],
        ]
        for flood in floods:
            for peer in stage.enter(2):
                fill(peer, flood)
                stage.others_are_served()
