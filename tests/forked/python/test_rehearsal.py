import os
import socket

from tests.conftest import open_descriptors
from tooldispatchd.forked.python.calling import CallSocket, perform
from tooldispatchd.forked.python.frames import FrameKind, FrameReader
from tooldispatchd.forked.python.rehearsal import TIMES, rehearse, rehearsed
from tooldispatchd.forked.python.warm import free_descriptor


def same(number: int) -> tuple[int, int]:
    found = os.fstat(number)
    return found.st_dev, found.st_ino


def test_a_rehearsal_serves_calls_and_leaves_no_trace() -> None:
    ours, control = socket.socketpair()
    fd = free_descriptor()
    answers: list[bytes] = []

    def live(channel: CallSocket, fds: list[int]) -> None:
        sock, stderr = fds
        os.close(control.fileno())
        os.dup2(stderr, 1)
        os.dup2(stderr, 2)
        os.close(stderr)
        os.dup2(sock, fd)
        os.close(sock)
        call, line = channel.receive()
        answers.append(perform(rehearsed(), call, line, channel))
        channel.answer(answers[-1])

    with ours, control:
        numbers = (1, 2, control.fileno())
        before, open_before = [same(number) for number in numbers], open_descriptors()
        rehearse(live, fd, control.fileno())
        assert [same(number) for number in numbers] == before
        assert open_descriptors() == open_before
        assert not os.get_inheritable(control.fileno())
    reader = FrameReader(1000)
    reader.add(b"".join(answers))
    assert [reader.next() for _ in range(TIMES)] == [(FrameKind.VALUE, b'"what is said"')] * TIMES
