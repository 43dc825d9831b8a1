import socket
from contextlib import closing
from threading import Thread

import pytest

from tooldispatchd.cli.dialogue import Dialogue, SilentDaemonError
from tooldispatchd.client.duplex import Duplex


def answer_pings(daemon: socket.socket) -> None:
    """Answer three pings and nothing else, then leave."""
    with daemon, daemon.makefile("rb") as lines:
        pings = (line for line in lines if b'"ping"' in line)
        for _, _ in zip(range(3), pings, strict=False):
            daemon.sendall(b'{"__port":"pong"}\n')


def test_an_answer_that_comes_too_late_is_not_that_to_the_next_line() -> None:
    ours, daemon = socket.socketpair()
    fd = ours.detach()
    with closing(Duplex(fd, fd)) as duplex, daemon:
        dialogue = Dialogue(duplex, 0.1, is_starting=False)
        with pytest.raises(SilentDaemonError):
            dialogue.administer("status", {})
        daemon.sendall(b'{"__port":"admin_resp","id":"1","value":{"late":true}}\n')
        daemon.sendall(b'{"__port":"fault","error":"queue_full","id":"1"}\n')
        daemon.sendall(b'{"__port":"admin_resp","id":"2","value":{"state":"serving"}}\n')
        assert dialogue.administer("status", {}) == {"state": "serving"}


def test_a_daemon_that_only_answers_pings_has_not_answered_an_administrator() -> None:
    ours, daemon = socket.socketpair()
    answering = Thread(target=answer_pings, args=(daemon,))
    answering.start()
    fd = ours.detach()
    in_time = pytest.raises(SilentDaemonError, match=r"^the daemon did not answer within 0\.1 s$")
    with closing(Duplex(fd, fd)) as duplex, in_time:
        Dialogue(duplex, 0.1, is_starting=False).administer("reload", {})
    answering.join()
