import pytest
import trio

from tooldispatchd.http.oauth.refusals import AuthorizationError
from tooldispatchd.providers.mcp.oauth.redirect import Redirected, RedirectListener, open_listener


async def get(listener: RedirectListener, target: str) -> bytes:
    """The answer to one request, as a browser would send it."""
    stream = await trio.open_tcp_stream("127.0.0.1", listener.port)
    async with stream:
        await stream.send_all(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        return b"".join([chunk async for chunk in stream])


async def redirected(listener: RedirectListener, *targets: str) -> Redirected:
    """What the listener takes of requests that come one after the other."""
    found: list[Redirected] = []

    async def wait() -> None:
        found.append(await listener.redirected("s1"))

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            for target in targets[:-1]:
                assert b" 404 " in await get(listener, target)
            page = await get(listener, targets[-1])
            assert b" 200 " in page
            assert b"You can close this page" in page
            assert b"no-store" in page
    return found[0]


async def test_the_browser_brings_the_code_and_is_sent_a_page() -> None:
    async with open_listener(None) as listener:
        said = await redirected(listener, "/callback?code=c%201&state=s1&iss=https%3A%2F%2Fa")
    assert said == ("c 1", "https://a")


@pytest.mark.parametrize(
    "target",
    [
        "/favicon.ico",
        "/callback",
        "/callback?code=forged",
        "/callback?code=forged&state=guessed",
        "/callback?code=forged&state=guessed&state=s1",
        "/other?code=forged&state=s1",
        "/callback?state=s1",
    ],
)
async def test_what_does_not_bring_the_state_does_not_end_the_wait(target: str) -> None:
    async with open_listener(None) as listener:
        said = await redirected(listener, target, "/callback?code=right&state=s1")
    assert said.code == "right"


async def test_connections_that_say_nothing_hold_up_nobody() -> None:
    async with open_listener(None) as listener:
        silent = [await trio.open_tcp_stream("127.0.0.1", listener.port) for _ in range(8)]
        assert (await redirected(listener, "/callback?code=right&state=s1")).code == "right"
        for stream in silent:
            await stream.aclose()


async def test_what_is_no_http_holds_up_nobody() -> None:
    async with open_listener(None) as listener:
        stream = await trio.open_tcp_stream("127.0.0.1", listener.port)
        await stream.send_all(b"\x16\x03\x01" + b"x" * 50_000)
        assert (await redirected(listener, "/callback?code=right&state=s1")).code == "right"
        await stream.aclose()


async def test_a_refusal_is_said_in_the_words_of_the_standard() -> None:
    async with open_listener(None) as listener:
        with pytest.RaisesGroup(AuthorizationError) as caught:
            await redirected(listener, "/callback?error=access_denied&state=s1")
    error = caught.value.exceptions[0]
    assert isinstance(error, AuthorizationError)
    assert error.why == "the authorization server refused the login (access_denied)"


async def test_a_port_that_is_taken_is_said() -> None:
    async with open_listener(None) as listener:
        with pytest.raises(AuthorizationError, match=f"cannot listen on 127.0.0.1 port {listener.port}: Address"):
            async with open_listener(listener.port):
                pass


async def test_it_listens_on_the_loopback_interface_alone() -> None:
    async with open_listener(None) as listener:
        assert listener.uri == f"http://127.0.0.1:{listener.port}/callback"
