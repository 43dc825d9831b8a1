import pytest
import trio

from tests.http.names import answer_names, refuse_connections
from tests.servers.raw_http import polite, serving
from tooldispatchd.http.errors import WireError
from tooldispatchd.http.network import connect, connect_public, is_public


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_an_address_that_the_internet_routes_to_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1%eth0",
        "fd00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "64:ff9b:1::7f00:1",
        "2002:7f00:1::",
        "2002:a00:1::",
        "::127.0.0.1",
        "::8.8.8.8",
        "4000::1",
        "240.0.0.1",
    ],
)
def test_any_other_is_not(address: str) -> None:
    assert not is_public(address)


async def test_a_name_that_nobody_knows_is_said_so() -> None:
    answer_names()
    with pytest.raises(WireError, match=r"cannot connect to nowhere\.test port 443: Name or service not known"):
        await connect("nowhere.test", 443)
    with pytest.raises(WireError, match=r"cannot find nowhere\.test: Name or service not known"):
        await connect_public("nowhere.test", 443)


async def test_a_name_with_one_private_address_is_refused_before_any_is_connected_to() -> None:
    answer_names(other_test=[["8.8.8.8", "::ffff:10.0.0.1"]])
    sockets = refuse_connections()
    with pytest.raises(WireError, match=r"other\.test has the private address ::ffff:10\.0\.0\.1"):
        await connect_public("other.test", 443)
    assert sockets.tried == []


async def test_an_address_in_the_place_of_a_name_is_looked_at_too() -> None:
    with pytest.raises(WireError, match="private address 127"):
        await connect_public("127.1", 443)


async def test_a_second_answer_of_the_name_server_leads_nowhere_else() -> None:
    names = answer_names(other_test=[["8.8.8.8", "2606:4700:4700::1111"], ["127.0.0.1"]])
    sockets = refuse_connections()
    with pytest.raises(WireError, match="none of its addresses answers"):
        await connect_public("other.test", 443)
    assert names.asked == ["other.test"]
    assert [str(address[0]) for address in sockets.tried if isinstance(address, tuple)] == [
        "8.8.8.8",
        "2606:4700:4700::1111",
    ]


async def test_a_family_that_does_not_answer_gives_way_to_the_other() -> None:
    async with serving(polite) as server:
        answer_names(both_test=[["::1", "127.0.0.1"]])
        with trio.fail_after(5):
            socket = await connect("both.test", server.port)
        assert not socket.is_readable()
        socket.close()


async def test_a_socket_counts_what_it_sent_and_knows_of_the_end() -> None:
    async with serving(lambda peer: peer.stream.receive_some(1)) as server:  # type: ignore[arg-type, return-value]
        socket = await connect("127.0.0.1", server.port)
        await socket.send_all(b"abc")
        assert socket.sent == 3
        await server.wait_until_closed(1)
        assert socket.is_readable()
        socket.close()
        with pytest.raises(trio.BrokenResourceError):
            await socket.send_all(b"d")
        assert socket.sent == 3
