"""Both clients, where they ask for tools in the form of a model's provider."""

import json
from collections.abc import Iterator
from typing import Final, assert_type, get_args

import pytest

from tests.client.either import KINDS, Message, connected, hear, inherited, say, scripted
from tests.daemon.spawned import Daemon, daemon_on
from tooldispatchd.client import blocking, concurrent
from tooldispatchd.client.errors import ClientError
from tooldispatchd.client.shown import Entry, Form, ShownReady
from tooldispatchd.wire.messages import Ready, ToolView

CONFIG = """
[tools.echo]
type = "string -> string"
inline = "id"
description = "Give the text back."
[tools."text.trim"]
type = "string -> string"
inline = "id"
title = "Trim"
hint = "Trim first."
[agents.default]
tools = ["echo", "text.trim"]
jobs = false
"""
FORMS: Final[tuple[Form, ...]] = get_args(Form)
OPENAI: Final = {"type": "function", "function": {"name": "a__b", "description": "", "parameters": {}, "strict": False}}
PLAIN: Final = {"name": "a:b", "description": "", "input_schema": {}}

pytestmark = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_on(tmp_path_factory.mktemp("forms"), CONFIG) as daemon:
        yield daemon


def said_by(daemon: Daemon, form: str) -> Message:
    """What the daemon says itself."""
    with daemon.agent() as agent:
        agent.say({"__port": "hello", "schemas": form})
        return agent.hear()


@pytest.mark.parametrize("form", FORMS)
async def test_hello_gives_the_tools_as_the_daemon_shows_them(kind: str, daemon: Daemon, form: Form) -> None:
    async with connected(kind, str(daemon.path)) as client:
        ready = await client.hello_in(form)
    assert type(ready) is ShownReady
    assert ready.tools == said_by(daemon, form)["tools"]
    assert (ready.profile, ready.protocol, ready.warnings, ready.agent) == ("default", 1, [], None)
    assert ready.instructions == "- Trim first."


async def test_without_a_form_hello_gives_the_plain_one(kind: str, daemon: Daemon) -> None:
    async with connected(kind, str(daemon.path)) as client:
        ready = await client.hello()
    assert type(ready) is Ready
    assert [(tool.name, tool.title) for tool in ready.tools] == [("echo", None), ("text.trim", "Trim")]
    assert ready.instructions == "- Trim first."


async def test_a_tool_is_called_by_the_name_that_was_shown(kind: str, daemon: Daemon) -> None:
    async with connected(kind, str(daemon.path)) as client:
        ready = await client.hello_in("anthropic")
        assert [tool["name"] for tool in ready.tools] == ["echo", "text_trim"]
        assert (await client.call("text_trim", {"input": "x"})).content == '"x"'


@pytest.mark.parametrize("form", FORMS)
async def test_tools_may_be_asked_for_in_any_form(kind: str, daemon: Daemon, form: Form) -> None:
    async with connected(kind, str(daemon.path)) as client:
        await client.hello()
        assert await client.tools_in(form) == said_by(daemon, form)["tools"]


async def test_tools_are_plain_where_no_form_is_named_whatever_hello_asked_for(kind: str, daemon: Daemon) -> None:
    async with connected(kind, str(daemon.path)) as client:
        await client.hello_in("openai")
        assert [tool.name for tool in await client.tools()] == ["echo", "text.trim"]


async def test_each_agent_of_a_channel_has_a_form_of_its_own(kind: str, daemon: Daemon) -> None:
    async with connected(kind, str(daemon.path)) as client:
        agents = {form: client.agent(form) for form in FORMS}
        readies = {form: await agent.hello_in(form) for form, agent in agents.items()}
        plain = await client.hello()
    assert {form: ready.tools for form, ready in readies.items()} == {
        form: said_by(daemon, form)["tools"] for form in FORMS
    }
    assert [tool.name for tool in plain.tools] == ["echo", "text.trim"]


async def test_what_a_form_gives_is_known_to_a_type_checker(kind: str, daemon: Daemon) -> None:
    if kind == "blocking":
        with blocking.connect(str(daemon.path)) as client:
            assert_type(client.hello(schemas="google"), ShownReady)
            assert_type(client.agent("a").hello(schemas="plain"), Ready)
            assert_type(client.tools(), list[ToolView])
            assert_type(client.tools("mcp"), list[Entry])
    else:
        async with concurrent.connect(str(daemon.path)) as concurrently:
            assert_type(await concurrently.hello(schemas="google"), ShownReady)
            assert_type(await concurrently.agent("a").hello(), Ready)
            assert_type(await concurrently.tools("plain"), list[ToolView])
            assert_type(await concurrently.tools("mcp"), list[Entry])


# --- a daemon that plays a script ---


def ready(*tools: object, **fields: object) -> Message:
    return {"__port": "ready", "profile": "p", "protocol": 1, "tools": list(tools), "warnings": [], **fields}


def changed(*tools: object, **fields: object) -> Message:
    return {"__port": "tools_changed", "tools": list(tools), **fields}


async def test_tools_that_change_come_in_the_form_of_hello(kind: str) -> None:
    entries: list[list[Entry]] = []
    views: list[list[ToolView]] = []
    script = (
        hear("hello", schemas="openai"),
        say(ready()),
        hear("hello", agent="b"),
        say(ready(agent="b"), changed(OPENAI), changed(PLAIN, agent="b"), changed(OPENAI, OPENAI)),
        hear("ping"),
        say({"__port": "pong", "t": 3}),
    )
    with scripted(*script) as (played, fds):
        async with inherited(kind, *fds) as client:
            await client.hello_in("openai", updates=True, on_tools_changed=entries.append)
            await client.agent("b").hello(updates=True, on_tools_changed=views.append)
            await client.ping()
    assert (played.failed, entries) == (None, [[OPENAI], [OPENAI, OPENAI]])
    assert [[tool.name for tool in tools] for tools in views] == [["a:b"]]


async def test_tools_that_change_in_a_session_that_another_opened_are_passed_over(kind: str) -> None:
    script = (
        hear("tools", schemas="plain"),
        say(changed(OPENAI), {"__port": "tools", "tools": [PLAIN]}),
        hear("tools", schemas="openai"),
        say(changed(PLAIN), {"__port": "tools", "tools": [OPENAI]}),
    )
    with scripted(*script) as (played, fds):
        async with inherited(kind, *fds) as client:
            assert [tool.name for tool in await client.tools()] == ["a:b"]
            assert await client.tools_in("openai") == [OPENAI]
    assert played.failed is None


@pytest.mark.parametrize("tools", [[1], [[]], [{"name": 5, "description": "", "input_schema": {}}], "x"])
async def test_a_list_that_is_none_ends_the_channel(kind: str, tools: object) -> None:
    with scripted(hear("tools"), say({"__port": "tools", "tools": tools})) as (_, fds):
        async with inherited(kind, *fds) as client:
            with pytest.raises(ClientError, match="not of the protocol"):
                await client.tools()


async def test_an_entry_is_whatever_a_later_daemon_says_of_a_tool(kind: str) -> None:
    later = {**OPENAI, "of a later version": [1, {"x": None}]}
    with scripted(hear("hello"), say(json.dumps(ready(later)).encode() + b"\n")) as (_, fds):
        async with inherited(kind, *fds) as client:
            assert (await client.hello_in("openai")).tools == [later]
