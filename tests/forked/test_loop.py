"""What the daemon says to a forker and hears of it, with a loop in a process of its own."""

import marshal
import os
import select
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tooldispatchd
from tests.forked.peer import Peer

PROGRAM = """
import os, sys
package = type(sys)("tooldispatchd")
package.__path__ = [sys.argv[1]]
sys.modules["tooldispatchd"] = package
from tooldispatchd.forked import loop

if "few" in sys.argv:
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (6, 6))

def start(request, fds):
    if "errno" in request:
        raise OSError(request["errno"], "no such luck")
    if "value" in request:
        raise ValueError(request["value"])
    pid = os.fork()
    if pid == 0:
        if "wait" in request:
            os.read(fds[0], 1)
        elif fds:
            os.write(fds[0], ascii(request.get("say", "")).encode())
        if "signal" in request:
            os.kill(os.getpid(), request["signal"])
        os._exit(request.get("code", 0))
    return pid

loop.serve(start, is_retiring=lambda: "old" in sys.argv)
"""


def looping(*words: str) -> Peer:
    return Peer([sys.executable, "-I", "-S", "-c", PROGRAM, str(Path(tooldispatchd.__file__).parent), *words])


@pytest.fixture
def peer(nothing_left: None) -> Iterator[Peer]:
    peer = looping()
    assert peer.hear() == {"ready": True}
    yield peer
    peer.end()


def fork(peer: Peer, **request: object) -> int:
    reply = peer.ask({"fork": request})
    assert isinstance(reply, dict)
    assert isinstance(reply["pid"], int)
    return reply["pid"]


def until_ended(pid: int) -> None:
    pidfd = os.pidfd_open(pid)
    try:
        assert select.select([pidfd], [], [], 20)[0]
    finally:
        os.close(pidfd)


def test_a_child_is_born_and_its_exit_code_told(peer: Peer) -> None:
    pid = fork(peer, code=7)
    assert peer.ask({"status": pid}) == {"code": 7}


def test_a_signal_is_told(peer: Peer) -> None:
    pid = fork(peer, signal=9)
    assert peer.ask({"status": pid}) == {"signal": 9}


def test_a_child_stays_a_zombie_until_it_is_reaped(peer: Peer) -> None:
    pid = fork(peer)
    until_ended(pid)
    assert Path(f"/proc/{pid}").exists()
    peer.say({"reap": [pid]})
    # Requests are served in order, so that the next reply comes after the reaping.
    assert peer.ask({"status": pid}) == {"error": "No child processes"}


def test_children_are_reaped_with_another_request_once_that_is_answered(peer: Peer) -> None:
    pid = fork(peer)
    until_ended(pid)
    other = peer.ask({"fork": {}, "reap": [pid]})
    assert isinstance(other, dict)
    assert peer.ask({"status": other["pid"]}) == {"code": 0}
    assert peer.ask({"status": pid}) == {"error": "No child processes"}


def test_a_child_that_has_not_ended_yet_holds_nobody_up_and_is_reaped_later(peer: Peer) -> None:
    reading, writing = os.pipe()
    pid = peer.ask({"fork": {"wait": True}}, reading)
    assert isinstance(pid, dict)
    peer.say({"reap": [pid["pid"]]})
    assert peer.ask({"status": fork(peer)}) == {"code": 0}
    assert Path(f"/proc/{pid['pid']}").exists()
    os.close(writing)
    os.close(reading)
    until_ended(pid["pid"])
    assert peer.ask({"status": fork(peer)}) == {"code": 0}
    assert peer.ask({"status": pid["pid"]}) == {"error": "No child processes"}


def test_descriptors_come_along_in_order_and_are_closed(peer: Peer) -> None:
    reading, writing = os.pipe()
    pid = peer.ask({"fork": {"say": "hello"}}, writing, reading)
    os.close(writing)
    # The end of the stream says that nobody else has it.
    with os.fdopen(reading) as stream:
        assert stream.read() == "'hello'"
    assert isinstance(pid, dict)
    peer.ask({"status": pid["pid"]})


def test_what_cannot_be_started_is_told_and_the_next_goes_on(peer: Peer) -> None:
    assert peer.ask({"spawn": {"errno": 2}}) == {"error": "no such luck"}
    assert peer.ask({"spawn": {"value": "bad word"}}) == {"error": "bad word"}
    assert peer.ask({"status": fork(peer)}) == {"code": 0}


def test_a_large_request_comes_in_memory(peer: Peer) -> None:
    whole = marshal.dumps({"fork": {"say": "x" * 100_000}}, 2)
    memory = os.memfd_create("request")
    os.write(memory, whole)
    reading, writing = os.pipe()
    peer.say({"memfd": len(whole)}, writing, memory)
    os.close(memory)
    os.close(writing)
    with os.fdopen(reading) as stream:
        assert len(stream.read()) == 100_002
    reply = peer.hear()
    assert isinstance(reply, dict)
    peer.ask({"status": reply["pid"]})


@pytest.mark.parametrize(
    "chunk",
    [
        *(b"{", b"\xff", b"{}", marshal.dumps([], 2), marshal.dumps({}, 2)),
        marshal.dumps({"spawn": {}, "fork": {}}, 2),
        *(marshal.dumps({kind: 4}, 2) for kind in ("dance", "memfd", "fork")),
    ],
)
def test_what_is_no_request_ends_the_forker(nothing_left: None, chunk: bytes) -> None:
    peer = looping()
    peer.hear()
    peer.send(chunk)
    assert peer.socket.recv(65536) == b""
    code, said = peer.end()
    assert code == 1
    assert "Error" in said


@pytest.mark.parametrize("size", [0, 1 << 30])
def test_a_request_in_memory_that_is_too_large_ends_the_forker(nothing_left: None, size: int) -> None:
    peer = looping()
    peer.hear()
    memory = os.memfd_create("request")
    peer.say({"memfd": size}, memory)
    os.close(memory)
    assert peer.socket.recv(65536) == b""
    assert peer.end()[0] == 1


def test_more_descriptors_than_any_request_has_end_the_forker(nothing_left: None) -> None:
    peer = looping()
    peer.hear()
    peer.say({"fork": {}}, *[0] * 40)
    assert peer.socket.recv(65536) == b""
    assert peer.end()[0] == 1


def test_a_request_whose_descriptors_find_no_room_is_told_so_and_the_next_goes_on(nothing_left: None) -> None:
    peer = looping("few")
    peer.hear()
    pid = fork(peer)
    until_ended(pid)
    refused = {"error": "its forker: Too many open files"}
    assert peer.ask({"fork": {}, "reap": [pid]}, *[0] * 10) == refused
    assert peer.ask({"status": pid}) == {"error": "No child processes"}
    assert peer.ask({"status": fork(peer)}) == {"code": 0}
    # What is to be reaped may have been in the memory that was lost.
    assert peer.ask({"memfd": 100}, *[0] * 10) == {**refused, "retiring": True}
    assert peer.end() == (0, "")


def test_the_end_of_the_socket_is_the_end_of_the_forker(nothing_left: None) -> None:
    peer = looping()
    peer.hear()
    assert peer.end() == (0, "")


def test_a_forker_that_is_to_be_replaced_says_so(nothing_left: None) -> None:
    peer = looping("old")
    assert peer.hear() == {"ready": True}
    reply = peer.ask({"fork": {}})
    assert isinstance(reply, dict)
    assert reply["retiring"] is True
    assert peer.ask({"status": reply["pid"]}) == {"code": 0, "retiring": True}
    peer.end()
