import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Raw

from tests.daemon.spawned import Daemon, daemon_on
from tooldispatchd.client.blocking import Client, ClientError, FaultError, connect

CONFIG = """
[tools.echo]
type = "string -> string"
inline = "id"
[tools.nothing]
type = "unit -> unit"
inline = "id"
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_on(tmp_path_factory.mktemp("client"), CONFIG) as daemon:
        yield daemon


@pytest.fixture
def client(daemon: Daemon) -> Iterator[Client]:
    with connect(str(daemon.path)) as client:
        yield client


@pytest.fixture
def pair() -> Iterator[tuple[Client, socket.socket]]:
    """A client and the daemon's end of its channel."""
    ours, theirs = socket.socketpair()
    with theirs, Client(ours.recv, ours.sendall, ours.close) as client:
        yield client, theirs


# --- with a daemon ---


def test_hello_gives_the_tools_of_the_profile(client: Client) -> None:
    ready = client.hello()
    assert (ready.profile, [tool.name for tool in ready.tools]) == ("default", ["echo", "nothing"])


def test_calls_are_answered_one_after_the_other(client: Client) -> None:
    assert [client.call("echo", Raw(b'"%d"' % n)).content for n in range(3)] == ['"0"', '"1"', '"2"']


def test_an_input_may_be_left_out(client: Client) -> None:
    assert client.call("nothing").content == "null"


def test_an_error_is_an_answer(client: Client) -> None:
    answer = client.call("echo", Raw(b"1"))
    assert answer.is_error
    assert answer.fault


def test_the_tools_are_listed_without_hello(client: Client) -> None:
    assert [tool.name for tool in client.tools().tools] == ["echo", "nothing"]


def test_a_refused_hello_raises_the_fault(client: Client) -> None:
    with pytest.raises(FaultError, match="unknown_profile: no such profile") as raised:
        client.hello("nobody")
    assert (raised.value.code, raised.value.category) == ("unknown_profile", "not_found")
    assert raised.value.fields["line"] == 1


# --- without one ---


def test_a_socket_that_is_not_there_is_told(tmp_path: Path, nothing_left: None) -> None:
    with pytest.raises(ClientError, match=r"cannot reach the daemon at .*/none: No such file or directory"):
        connect(str(tmp_path / "none"))


def test_a_path_too_long_for_a_socket_is_told(nothing_left: None) -> None:
    with pytest.raises(ClientError, match="cannot reach the daemon"):
        connect("/" + "x" * 200)


def test_the_end_of_the_channel_is_told(pair: tuple[Client, socket.socket]) -> None:
    client, daemon = pair
    daemon.shutdown(socket.SHUT_WR)
    with pytest.raises(ClientError, match="the daemon closed the channel"):
        client.hello()


def test_a_channel_that_cannot_be_written_is_told(pair: tuple[Client, socket.socket]) -> None:
    client, daemon = pair
    daemon.close()
    with pytest.raises(ClientError, match="cannot write to the daemon: Broken pipe"):
        client.hello()


def test_what_comes_unasked_is_passed_over(pair: tuple[Client, socket.socket]) -> None:
    client, daemon = pair
    daemon.sendall(b'{"__port":"pong"}\n{"__port":"tool_resp","id":"x","content":"other","is_error":false}\n')
    daemon.sendall(b'{"__port":"tool_resp","id":"1","content":"mine","is_error":false}\n')
    assert client.call("echo").content == "mine"


def test_an_answer_may_come_in_pieces(pair: tuple[Client, socket.socket]) -> None:
    _, daemon = pair
    pieces = iter([b'{"__port":"tool_resp","id":"1","con', b'tent":"whole","is_error":false}', b"\n"])
    client = Client(lambda _size: next(pieces), daemon.sendall, lambda: None)
    assert client.call("echo").content == "whole"


def test_a_line_of_something_that_is_no_daemon_is_told(pair: tuple[Client, socket.socket]) -> None:
    client, other = pair
    other.sendall(b"220 mail.example ESMTP\n")
    with pytest.raises(ClientError):
        client.hello()
