"""The user of a client on loopback, by real sockets."""

import os
import socket

import pytest

from tooldispatchd.mcpface.web.peers import find_uid


@pytest.mark.parametrize(("bound", "reached"), [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::", "127.0.0.1")])
def test_a_peer_on_loopback_has_the_user_of_its_socket_while_it_is_connected(bound: str, reached: str) -> None:
    family = socket.AF_INET6 if ":" in bound else socket.AF_INET
    with socket.create_server((bound, 0), family=family, dualstack_ipv6=bound == "::") as listening:
        with socket.create_connection((reached, listening.getsockname()[1])):
            accepted, peer = listening.accept()
            own = accepted.getsockname()[:2]
            assert find_uid(peer[:2], own) == os.getuid()
            assert find_uid((peer[0], peer[1] ^ 1), own) is None
        with accepted:
            assert find_uid(peer[:2], own) is None


def test_a_peer_of_a_network_has_no_user() -> None:
    assert find_uid(("192.0.2.1", 5000), ("192.0.2.2", 80)) is None
