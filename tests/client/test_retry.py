"""Clients that look for a daemon again, with daemons that end and start under them."""

import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from tests.client.either import KINDS, BlockingClient, Either, Scripted, Step, TrioClient, answer, hear, join, say
from tests.daemon.spawned import PATIENCE_S, daemon_on
from tooldispatchd.client import ClientError, FaultError, blocking, concurrent

CONFIG = """
[tools.echo]
type = "json -> json"
inline = "id"
[tools.stuck]
command = ["sleep", "86395"]
[agents.default]
tools = ["echo"]
[agents.other]
tools = ["echo", "stuck"]
token = "open sesame"
"""
TAGGED = """
[tools.echo]
type = "json -> json"
inline = "id"
tags = ["text"]
[tools.copy]
type = "json -> (json, json)"
inline = "copy"
[tools.stuck]
command = ["sleep", "86395"]
[agents.both]
tools = ["echo", "copy"]
"""
READY = {"__port": "ready", "profile": "p", "protocol": 1, "tools": [], "warnings": []}

pytestmark = pytest.mark.parametrize("kind", KINDS)


Serve = Callable[..., threading.Thread]


@contextmanager
def listening(directory: Path) -> Iterator[tuple[str, Serve]]:
    """A socket whose channels are played, one script after the other: its path, and what begins to play them."""
    path = str(directory / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        listener.settimeout(PATIENCE_S)

        def serve(*scripts: Sequence[Step]) -> threading.Thread:
            thread = threading.Thread(target=play, args=(listener, scripts))
            thread.start()
            return thread

        yield path, serve


def play(listener: socket.socket, scripts: Sequence[Sequence[Step]]) -> None:
    for script in scripts:
        channel, _ = listener.accept()
        channel.settimeout(PATIENCE_S)
        Scripted(channel).play(script)


def bind_late(path: Path, may_start: threading.Event) -> None:
    """A daemon that comes up when somebody has looked for it already."""
    may_start.wait(PATIENCE_S)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(PATIENCE_S)
        play(listener, [[hear("ping"), say({"__port": "pong", "t": 1})]])


@asynccontextmanager
async def retrying(kind: str, address: str, retry: float | None = PATIENCE_S) -> AsyncIterator[Either]:
    if kind == "blocking":
        with blocking.connect(address, timeout_s=PATIENCE_S, retry=retry) as client:
            yield BlockingClient(client)
    else:
        async with concurrent.connect(address, retry=retry) as concurrently:
            yield TrioClient(concurrently)


async def test_after_a_restart_the_session_is_opened_anew_with_the_same_hello(
    kind: str, tmp_path: Path, nothing_left: None
) -> None:
    with daemon_on(tmp_path, CONFIG) as first:
        async with retrying(kind, str(tmp_path / "dispatch.sock")) as client:
            own = await client.hello("other", token="open sesame")
            named = client.agent("named")
            await named.hello("default")
            first.process.terminate()
            first.process.wait(PATIENCE_S)
            with daemon_on(tmp_path, CONFIG):
                assert (await client.call("echo", 1)).content == "1"
                assert [tool.name for tool in await client.tools()] == [tool.name for tool in own.tools]
                # Another face of the same agent, which has its hello all the same.
                assert (await client.agent("named").call("echo", 2)).content == "2"
                with pytest.raises(FaultError, match="not_allowed"):
                    await named.call("stuck", 1)


async def test_what_was_switched_off_is_off_on_a_new_channel_too(kind: str, tmp_path: Path) -> None:
    with daemon_on(tmp_path, TAGGED) as first:
        async with retrying(kind, str(tmp_path / "dispatch.sock")) as client:
            await client.hello("both")
            everything = [tool.name for tool in await client.tools()]
            assert "echo" not in [tool.name for tool in await client.select(tags={"text": False})]
            only = {"*": False, "echo": True}
            assert [(tool.name, tool.tags) for tool in await client.tools(tools=only)] == [("echo", ("text",))]
            with pytest.raises(FaultError, match="not_allowed"):
                await client.select(tools={"stuck": True})
            first.process.terminate()
            first.process.wait(PATIENCE_S)
            with daemon_on(tmp_path, TAGGED):
                with pytest.raises(FaultError, match="not_allowed"):
                    await client.call("echo", 1)
                assert (await client.call("copy", 1)).content == "[1,1]"
                assert [tool.name for tool in await client.select(tags={"text": True})] == everything


async def test_a_call_that_was_under_way_is_never_sent_again(kind: str, tmp_path: Path) -> None:
    asked: list[object] = []

    def once(played: Scripted) -> None:
        asked.append(played.hear()["name"])

    with listening(tmp_path) as (path, serve):
        thread = serve([once], [hear("tool_req", name="after"), say(answer("2"))])
        async with retrying(kind, path) as client:
            with pytest.raises(ClientError, match="the call may have run, and is not sent again"):
                await client.call("during", 1)
            assert (await client.call("after", 2)).content == "2"
        join(thread)
    assert asked == ["during"]


async def test_a_hello_that_is_refused_the_second_time_is_told_and_said_again_with_the_next_call(
    kind: str, tmp_path: Path
) -> None:
    refusal = {"__port": "fault", "error": "draining", "category": "unavailable", "detail": "busy", "line": 1}
    with listening(tmp_path) as (path, serve):
        first = serve([hear("hello", profile="p"), say(READY)])
        async with retrying(kind, path) as client:
            await client.hello("p")
            # A call that goes out before the end is there may have run.
            join(first)
            second = serve(
                [
                    *(hear("hello", profile="p"), say(refusal), hear("hello", profile="p"), say(READY)),
                    *(hear("tool_req", name="two"), say(answer("2"))),
                ],
            )
            with pytest.raises(FaultError, match="draining"):
                await client.call("one", 1)
            assert (await client.call("two", 2)).content == "2"
        join(second)


async def test_a_daemon_that_starts_later_is_waited_for(kind: str, tmp_path: Path) -> None:
    path, may_start = tmp_path / "dispatch.sock", threading.Event()
    with pytest.raises(ClientError):
        async with retrying(kind, str(path), retry=None):
            pass
    thread = threading.Thread(target=bind_late, args=(path, may_start))
    thread.start()
    starter = threading.Timer(0.2, may_start.set)
    starter.start()
    async with retrying(kind, str(path)) as client:
        await client.ping()
    join(thread)
    join(starter)


async def test_a_daemon_that_does_not_come_back_is_an_error_and_looked_for_again(kind: str, tmp_path: Path) -> None:
    with listening(tmp_path) as (path, serve):
        thread = serve([hear("ping"), say({"__port": "pong", "t": 1})])
        async with retrying(kind, path, retry=0.2) as client:
            await client.ping()
            join(thread)
            Path(path).unlink()
            for _ in range(2):
                with pytest.raises(ClientError, match="cannot reach the daemon"):
                    await client.call("echo", 1)


async def test_without_retry_a_lost_channel_stays_lost(kind: str, tmp_path: Path) -> None:
    with listening(tmp_path) as (path, serve):
        thread = serve([hear("ping"), say({"__port": "pong", "t": 1})])
        async with retrying(kind, path, retry=None) as client:
            await client.ping()
            join(thread)
            for _ in range(2):
                with pytest.raises(ClientError):
                    await client.call("echo", 1)
