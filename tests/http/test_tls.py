from pathlib import Path

import pytest
import trio

from tests.http.certificates import Authority
from tests.servers.raw_http import Peer, RawServer, polite, serving
from tooldispatchd.http.errors import WireError
from tooldispatchd.http.network import Files, context
from tooldispatchd.http.reach import Reach
from tooldispatchd.http.wire import HttpWire


async def ask(
    server: RawServer, *, ca: str | None = None, cert: str | None = None, key: str | None = None, times: int = 1
) -> int:
    """The status of the last of some exchanges with a server behind TLS."""
    reach = Reach(url=f"https://127.0.0.1:{server.port}/mcp", ca=ca, cert=cert, key=key)
    async with HttpWire(reach, max_bytes=1000) as wire:
        for _ in range(times):
            async with wire.exchange("POST", (), b"{}") as reply:
                await reply.read(1000)
    return reply.status


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


async def test_a_server_is_trusted_that_the_configured_authority_signed(authority: Authority) -> None:
    async with serving(polite, context=authority.server_context("127.0.0.1")) as server:
        assert await ask(server, ca=authority.ca, times=3) == 200
        assert server.connections == 1


async def test_a_tls_connection_that_the_server_closed_meanwhile_is_not_used_again(authority: Authority) -> None:
    async def once(peer: Peer) -> None:
        await peer.read_request()
        await peer.answer()
        await peer.stream.aclose()

    async with serving(once, context=authority.server_context("127.0.0.1")) as server:
        reach = Reach(url=f"https://127.0.0.1:{server.port}/mcp", ca=authority.ca)
        async with HttpWire(reach, max_bytes=1000) as wire:
            for expected in (1, 2):
                async with wire.exchange("POST", (), b"{}") as reply:
                    assert await reply.read(1000) == b"{}"
                await server.wait_until_closed(expected)


async def test_a_server_that_the_system_does_not_know_is_refused(authority: Authority) -> None:
    async with serving(polite, context=authority.server_context("127.0.0.1")) as server:
        with pytest.raises(WireError, match=r"cannot begin TLS .* its certificate is refused: unable to get") as caught:
            await ask(server)
    assert not caught.value.was_sent
    assert server.asked == []


async def test_a_server_of_another_name_is_refused(authority: Authority) -> None:
    async with serving(polite, context=authority.server_context("other.test")) as server:
        with pytest.raises(WireError, match="its certificate is refused: IP address mismatch"):
            await ask(server, ca=authority.ca)


async def test_a_configured_authority_stands_in_the_place_of_all_others(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    other = Authority(tmp_path / "b", "other")
    async with serving(polite, context=authority.server_context("127.0.0.1")) as server:
        with pytest.raises(WireError, match="its certificate is refused"):
            await ask(server, ca=other.ca)


async def test_a_server_without_tls_is_refused(authority: Authority) -> None:
    async def plain(peer: Peer) -> None:
        await peer.stream.receive_some(1000)
        await peer.answer(status="400 Bad Request")

    async with serving(plain) as server:
        with pytest.raises(WireError, match=r"cannot begin TLS with https://127[^ ]*: it does not speak TLS$"):
            await ask(server, ca=authority.ca)


async def test_a_client_certificate_is_shown(authority: Authority) -> None:
    cert, key = authority.issue("client")
    async with serving(polite, context=authority.server_context("127.0.0.1", asks_for_client=True)) as server:
        assert await ask(server, ca=authority.ca, cert=cert, key=key) == 200
        with pytest.raises(WireError, match=r"without an answer.*it want a client certificate \(`cert`\)\?$"):
            await ask(server, ca=authority.ca)


async def test_a_certificate_that_a_server_wants_by_an_alert_is_named(authority: Authority) -> None:
    async def alert(peer: Peer) -> None:
        assert isinstance(peer.stream, trio.SSLStream)
        with pytest.raises(trio.BrokenResourceError):
            await peer.stream.do_handshake()
        # What OpenSSL has to say lies in trio's buffer, and is not sent by itself.
        await peer.stream.transport_stream.send_all(peer.stream._outgoing.read())
        await peer.wait_for_close()

    context = authority.server_context("127.0.0.1", asks_for_client=True)
    async with serving(alert, context=context) as server:
        with pytest.raises(WireError, match=r"without an answer: it wants a client certificate \(`cert`\)$"):
            await ask(server, ca=authority.ca)


async def test_a_server_that_answers_in_tls_is_one_of_https() -> None:
    async def alert(peer: Peer) -> None:
        await peer.read_request()
        await peer.send(b"\x15\x03\x03\x00\x02\x02\x46")
        await peer.wait_for_close()

    async with serving(alert) as server, HttpWire(Reach(url=server.url), max_bytes=1000) as wire:
        with pytest.raises(WireError, match=r"^it answered in TLS: is it https\?$") as caught:
            async with wire.exchange("POST", (), b"{}"):
                raise AssertionError
    assert not caught.value.was_sent


async def test_a_server_that_never_said_a_word_may_be_one_of_https(authority: Authority) -> None:
    async with (
        serving(polite, context=authority.server_context("127.0.0.1")) as server,
        HttpWire(Reach(url=server.url), max_bytes=1000) as wire,
    ):
        with pytest.raises(WireError, match=r"without an answer; is it https\?$"):
            async with wire.exchange("POST", (), b"{}"):
                raise AssertionError


async def test_a_server_that_has_answered_before_is_in_no_doubt() -> None:
    async def once(peer: Peer) -> None:
        asked = await peer.read_request()
        if len(peer.asked) == 1:
            await peer.answer(headers="Connection: close\r\n")
        assert asked

    async with serving(once) as server, HttpWire(Reach(url=server.url), max_bytes=1000) as wire:
        async with wire.exchange("POST", (), b"{}") as reply:
            await reply.read(1000)
        with pytest.raises(WireError, match=r"without an answer$"):
            async with wire.exchange("POST", (), b"{}"):
                raise AssertionError


async def test_a_certificate_and_its_key_may_be_one_file(authority: Authority, tmp_path: Path) -> None:
    cert, key = authority.issue("client")
    both = tmp_path / "both.pem"
    both.write_bytes(Path(cert).read_bytes() + Path(key).read_bytes())
    async with serving(polite, context=authority.server_context("127.0.0.1", asks_for_client=True)) as server:
        assert await ask(server, ca=authority.ca, cert=str(both)) == 200


async def test_equal_files_share_a_context_and_a_renewed_one_gets_another(authority: Authority) -> None:
    first = await context(Files(ca=authority.ca))
    assert await context(Files(ca=authority.ca)) is first
    assert await context(Files()) is await context(Files())
    Path(authority.ca).write_bytes(Path(authority.ca).read_bytes() + b"\n")
    assert await context(Files(ca=authority.ca)) is not first


async def test_a_file_that_is_not_there_is_named(authority: Authority) -> None:
    with pytest.raises(WireError, match=r"cannot read /nonexistent/ca\.pem: No such file"):
        await context(Files(ca="/nonexistent/ca.pem"))


@pytest.mark.parametrize("content", ["", "not a certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END-----\n"])
async def test_an_authority_that_is_none_is_named(content: str, tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text(content)
    with pytest.raises(WireError, match=rf"cannot use {path}"):
        await context(Files(ca=str(path)))


async def test_a_key_of_another_certificate_is_named(authority: Authority) -> None:
    cert, _ = authority.issue("a")
    _, key = authority.issue("b")
    with pytest.raises(WireError, match=f"cannot use {cert} as `cert`: {key} is not its key"):
        await context(Files(cert=cert, key=key))


async def test_files_in_each_others_place_are_named(authority: Authority) -> None:
    cert, key = authority.issue("a")
    with pytest.raises(WireError, match=f"cannot use {key}: there is no PEM certificate in it"):
        await context(Files(cert=key, key=cert))
    with pytest.raises(WireError, match=f"cannot use {cert}: there is no PEM private key in it"):
        await context(Files(cert=cert))
