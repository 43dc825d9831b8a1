"""Both clients keep the same rules, against a real daemon and against one that plays a script."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Raw

from tests.client.either import (
    KINDS,
    answer,
    connected,
    hear,
    inherited,
    join,
    say,
    scripted,
    wait_for_the_end,
)
from tests.daemon.spawned import Daemon, daemon_on, until
from tooldispatchd.client.conversation import Call, Refusal, Verdict
from tooldispatchd.client.errors import ClientError, FaultError
from tooldispatchd.wire.messages import Ask, PassingServer, ServerNote, ToolUpdate

CONFIG = """
[tools.echo]
type = "string -> string"
inline = "id"
[tools.nothing]
type = "unit -> unit"
inline = "id"
[tools.same]
type = "json -> json"
inline = "id"
max_output = 8_388_608
overflow = "truncate"
[tools.stuck]
type = "json -> json"
command = ["sleep", "60"]
[tools.fails]
command = ["sh", "-c", "exit 3"]
[agents.default]
tools = ["echo", "nothing", "same", "stuck", "fails"]
jobs = false
[agents.background]
tools = ["echo"]
"""
GUARDED = """
[agents.guarded]
token = "a token"
"""

pytestmark = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_on(tmp_path_factory.mktemp("client"), CONFIG) as daemon:
        yield daemon


# --- a real daemon ---


async def test_hello_gives_the_profile_and_its_tools(kind: str, daemon: Daemon, nothing_left: None) -> None:
    async with connected(kind, str(daemon.path)) as client:
        ready = await client.hello()
        assert (ready.profile, [tool.name for tool in ready.tools]) == (
            "default",
            ["echo", "nothing", "same", "stuck", "fails"],
        )


async def test_a_call_is_answered_without_hello(kind: str, daemon: Daemon) -> None:
    async with connected(kind, f"unix:{daemon.path}") as client:
        assert (await client.call("echo", "hé")).content == '"hé"'


@pytest.mark.parametrize("value", [None, 0, "", [], {}, {"deep": [1, {"x": None}]}, Raw(b'{\n  "a": 1\n}')])
async def test_an_input_arrives_as_it_is(kind: str, daemon: Daemon, value: object) -> None:
    async with connected(kind, str(daemon.path)) as client:
        answered = await client.call("same", value)
        assert json.loads(answered.content) == (json.loads(bytes(value)) if isinstance(value, Raw) else value)


async def test_an_input_may_be_left_out(kind: str, daemon: Daemon) -> None:
    async with connected(kind, str(daemon.path)) as client:
        assert (await client.call("nothing")).content == "null"


async def test_a_fault_is_raised_with_all_that_it_says(kind: str, daemon: Daemon) -> None:
    async with connected(kind, str(daemon.path)) as client:
        with pytest.raises(FaultError, match="unknown_tool: ecco is an unknown tool") as raised:
            await client.call("ecco", 1)
    fault = raised.value
    assert (fault.code, fault.category, fault.retryable) == ("unknown_tool", "not_found", False)
    assert fault.fields["did_you_mean"] == "echo"
    assert fault.answer is not None
    assert json.loads(fault.answer.content) == fault.fields


async def test_a_deadline_is_a_fault_of_a_call_that_may_have_run(kind: str, daemon: Daemon) -> None:
    async with connected(kind, str(daemon.path)) as client:
        with pytest.raises(FaultError) as raised:
            await client.call("stuck", 1, deadline_ms=50)
    fault = raised.value
    assert (fault.code, fault.ran, fault.retryable, fault.fields["limit_ms"]) == ("timeout", "maybe", False, 50)


async def test_a_refused_hello_raises_the_fault(kind: str, daemon: Daemon) -> None:
    async with connected(kind, str(daemon.path)) as client:
        with pytest.raises(FaultError) as raised:
            await client.hello("nobody")
    assert (raised.value.code, raised.value.answer) == ("unknown_profile", None)


async def test_a_second_hello_is_refused_and_changes_nothing(kind: str, daemon: Daemon) -> None:
    async with connected(kind, str(daemon.path)) as client:
        await client.hello()
        with pytest.raises(FaultError, match="invalid_request"):
            await client.hello()
        assert (await client.call("echo", "on")).content == '"on"'


async def test_tools_are_listed_and_pings_answered(kind: str, daemon: Daemon) -> None:
    async with connected(kind, str(daemon.path)) as client:
        await client.ping()
        assert "echo" in [tool.name for tool in await client.tools()]
        await client.ping()


async def test_a_model_without_tool_calling_has_its_calls_found_in_what_it_writes(kind: str, daemon: Daemon) -> None:
    async with connected(kind, str(daemon.path)) as client:
        ready = await client.hello(schemas="text")
        assert "<tool_call>" in str(ready.prompt)
        assert "echo" in [tool.name for tool in ready.tools]
        wrote = 'I ask.\n<tool_call>{"name":"echo","input":"hi"}</tool_call>\n<tool_call>{"name":}</tool_call>'
        found = await client.parse(wrote)
        assert found.calls == [Call("echo", "hi")]
        assert [each["at"] for each in found.malformed] == [59]
        assert (await client.call(found.calls[0].name, found.calls[0].input)).content == '"hi"'


async def test_a_text_may_be_read_for_a_named_agent_and_before_hello(kind: str, daemon: Daemon) -> None:
    async with connected(kind, str(daemon.path)) as client:
        assert (await client.agent("reader").parse("no call")).calls == []
        assert (await client.parse("no call")).malformed == []


async def test_bye_returns_when_the_session_is_gone_and_nothing_can_be_asked_then(kind: str, daemon: Daemon) -> None:
    async with connected(kind, str(daemon.path)) as client:
        await client.hello()
        await client.bye()
        with pytest.raises(ClientError):
            await client.ping()


async def test_a_large_input_and_its_answer_pass(kind: str, daemon: Daemon) -> None:
    value = "x" * 3_000_000
    async with connected(kind, str(daemon.path)) as client:
        assert len((await client.call("same", value)).content) == 3_000_002


async def test_a_daemon_that_dies_fails_the_call_that_waits_and_those_after_it(
    kind: str, tmp_path: Path, nothing_left: None
) -> None:
    with daemon_on(tmp_path, CONFIG) as daemon:
        async with connected(kind, str(daemon.path)) as client:
            await client.hello()
            killer = threading.Thread(target=_kill_when_busy, args=(daemon,))
            killer.start()
            with pytest.raises(ClientError, match="the daemon closed the channel"):
                await client.call("stuck", 1)
            with pytest.raises(ClientError):
                await client.call("echo", "again")
            join(killer)


def _kill_when_busy(daemon: Daemon) -> None:
    until(lambda: bool(daemon.running("60")))
    os.kill(daemon.process.pid, signal.SIGKILL)


async def test_named_agents_share_a_channel(kind: str, daemon: Daemon) -> None:
    async with connected(kind, str(daemon.path)) as client:
        one, two = client.agent("one"), client.agent("two")
        assert (await one.hello()).agent == "one"
        await two.hello("background")
        assert (await two.call("echo", "2")).content == '"2"'
        assert (await one.call("same", 1)).content == "1"
        await one.bye()
        with pytest.raises(FaultError, match="unknown_agent"):
            await one.call("same", 1)
        assert (await two.call("echo", "still")).content == '"still"'


async def test_a_token_opens_a_profile_that_asks_for_one(kind: str, tmp_path: Path) -> None:
    with daemon_on(tmp_path, GUARDED) as daemon:
        async with connected(kind, str(daemon.path)) as client:
            with pytest.raises(FaultError) as raised:
                await client.agent("liar").hello("guarded", token="another")
            assert raised.value.code == "not_authenticated"
            assert (await client.agent("knows").hello("guarded", token="a token")).profile == "guarded"


async def test_a_call_in_the_background_answers_with_its_job(kind: str, daemon: Daemon) -> None:
    async with connected(kind, str(daemon.path)) as client:
        await client.hello("background")
        job = json.loads((await client.call("echo", "later", background=True)).content)["job"]
        assert "later" in (await client.call("job_wait", {"job": job})).content


async def test_meta_comes_to_who_asked_for_it(kind: str, daemon: Daemon) -> None:
    async with connected(kind, str(daemon.path)) as client:
        await client.hello(meta=True)
        answered = await client.call("echo", "hi")
        assert answered.meta is not None
        assert (answered.meta.kind, answered.meta.bytes_out) == ("inline", 4)


# --- a scripted one ---


async def test_a_tools_own_error_is_an_answer(kind: str, nothing_left: None) -> None:
    with scripted(hear("tool_req"), say(answer("it broke", is_error=True))) as (_, fds):
        async with inherited(kind, *fds) as client:
            answered = await client.call("breaks")
    assert (answered.content, answered.is_error, answered.fault) == ("it broke", True, False)


async def test_updates_reach_who_asked_for_them(kind: str) -> None:
    update = {"__port": "tool_update", "id": "$id", "progress": 1, "total": 2, "message": "half"}
    other = update | {"id": "77"}
    told: list[ToolUpdate] = []
    ready = {"__port": "ready", "profile": "p", "protocol": 1, "tools": [], "warnings": []}
    script = (hear("hello", updates=True), say(ready), hear("tool_req"), say(other, update, answer("done")))
    with scripted(*script) as (_, fds):
        async with inherited(kind, *fds) as client:
            await client.hello(updates=True)
            await client.call("slow", on_update=told.append)
    assert [(each.progress, each.total, each.message) for each in told] == [(1, 2, "half")]


READY = {"__port": "ready", "profile": "p", "protocol": 1, "tools": [], "warnings": []}
APPROVE = {"__port": "approve_req", "id": "q1", "name": "shell", "input": {"line": "rm"}, "reason": "asks each time"}
ASK = {"__port": "ask", "id": "q2", "kind": "elicitation", "server": "booking", "params": {"message": "Which day?"}}


async def test_callbacks_answer_what_the_daemon_asks(kind: str) -> None:
    script = (
        *(hear("hello", answers=["approve", "sampling", "elicitation"]), say(READY), hear("tool_req")),
        *(say(APPROVE), hear("approve_resp", id="q1", allow=True, remember=True, reason=None)),
        *(say(ASK), hear("ask_resp", id="q2", result={"day": "Monday"}, refuse=None), say(answer("done"))),
    )
    with scripted(*script) as (daemon, fds):
        async with inherited(kind, *fds) as client:
            await client.hello(
                on_approve=lambda asked: Verdict(allow=asked.name == "shell", remember=True),
                on_ask=lambda asked: {"day": "Monday"},
            )
            assert (await client.call("shell")).content == "done"
    assert daemon.failed is None


KIT = {"server": "kit", "prefix": "k", "capabilities": {"prompts": {"listChanged": True}}}
NOTE = {"__port": "server_note", "server": "kit", "method": "notifications/prompts/list_changed", "params": {"x": 1}}


async def test_an_agent_that_asks_for_its_servers_is_told_of_them_and_what_they_say(kind: str) -> None:
    heard: list[ServerNote] = []
    asked_for: list[str | None] = []

    def called(asked: Ask) -> object:
        asked_for.append(asked.call)
        return "yes"

    script = (
        *(hear("hello", capabilities=["servers"]), say(READY | {"servers": [KIT]})),
        *(hear("tool_req", name="kit!prompts/list"), say(NOTE, ASK | {"call": "$id"})),
        *(hear("ask_resp", id="q2", result="yes"), say(NOTE | {"agent": "nobody"}, answer("{}"))),
    )
    with scripted(*script) as (daemon, fds):
        async with inherited(kind, *fds) as client:
            ready = await client.hello(servers=True, on_server_note=heard.append, on_ask=called)
            assert ready.servers == [PassingServer("kit", "k", {"prompts": {"listChanged": True}})]
            assert (await client.call("kit!prompts/list", {})).content == "{}"
    assert daemon.failed is None
    assert asked_for == ["2"]
    assert heard == [ServerNote("kit", "notifications/prompts/list_changed", Raw(b'{"x": 1}'))]


async def test_servers_are_told_in_every_form_and_only_who_listens_hears_them(kind: str) -> None:
    script = (hear("hello"), say(READY | {"servers": [KIT]}, NOTE), hear("tool_req"), say(answer("done")))
    with scripted(*script) as (daemon, fds):
        async with inherited(kind, *fds) as client:
            ready = await client.hello_in("mcp", servers=True)
            assert [each.server for each in ready.servers] == ["kit"]
            assert (await client.call("shell")).content == "done"
    assert daemon.failed is None


async def test_a_callback_may_refuse(kind: str) -> None:
    script = (hear("hello"), say(READY), hear("tool_req"), say(ASK), hear("ask_resp", refuse="no", result=None))
    with scripted(*script, say(answer("done"))) as (daemon, fds):
        async with inherited(kind, *fds) as client:
            await client.hello(on_ask=lambda asked: Refusal("no"))
            await client.call("book")
    assert daemon.failed is None


async def test_where_nobody_can_be_asked_the_answer_is_no(kind: str) -> None:
    script = (
        *(hear("hello", answers=None), say(READY), hear("tool_req"), say(APPROVE), hear("approve_resp", allow=False)),
        *(say(ASK), hear("ask_resp", refuse="nobody is there to answer", result=None), say(answer("done"))),
    )
    with scripted(*script) as (daemon, fds):
        async with inherited(kind, *fds) as client:
            await client.hello()
            await client.call("shell")
    assert daemon.failed is None


async def test_questions_reach_the_agent_that_they_name(kind: str) -> None:
    named = {"agent": "scout"}
    script = (
        *(hear("hello", agent="scout"), say(READY | named), hear("tool_req", agent="scout")),
        *(say(APPROVE | named), hear("approve_resp", agent="scout", allow=True)),
        *(say(APPROVE | {"id": "q9"}), hear("approve_resp", id="q9", allow=False), say(answer("done") | named)),
    )
    with scripted(*script) as (daemon, fds):
        async with inherited(kind, *fds) as client:
            scout = client.agent("scout")
            await scout.hello(on_approve=lambda asked: Verdict(allow=True))
            await scout.call("shell")
    assert daemon.failed is None


async def test_changed_tools_are_told(kind: str) -> None:
    changed = {"__port": "tools_changed", "tools": [{"name": "new", "description": "", "input_schema": {}}]}
    names: list[str] = []
    with scripted(hear("hello"), say(READY, changed), hear("ping"), say({"__port": "pong", "t": 2})) as (_, fds):
        async with inherited(kind, *fds) as client:
            await client.hello(updates=True, on_tools_changed=lambda tools: names.extend(each.name for each in tools))
            await client.ping()
    assert names == ["new"]


async def test_a_ping_of_the_daemon_is_answered(kind: str) -> None:
    script = (hear("tool_req"), say({"__port": "ping", "t": [1]}), hear("pong", t=[1]), say(answer("done")))
    with scripted(*script) as (daemon, fds):
        async with inherited(kind, *fds) as client:
            await client.call("slow")
    assert daemon.failed is None


async def test_answers_that_nobody_waits_for_are_passed_over(kind: str) -> None:
    strange = (
        *({"__port": "later_port", "x": 1}, {"__port": "bye", "agent": "who"}, {"__port": "pong", "t": "mine"}),
        *(
            {"__port": "pong"},
            answer("other") | {"id": "7"},
            answer("other") | {"id": "x"},
            {"__port": "tools", "tools": []},
        ),
        *({"__port": "fault", "error": "e", "category": "invalid", "detail": "d", "line": 99}, b"\r\n \n"),
    )
    with scripted(hear("tool_req"), say(*strange, answer("mine"))) as (_, fds):
        async with inherited(kind, *fds) as client:
            assert (await client.call("slow")).content == "mine"


async def test_half_a_line_and_the_end_fail_the_call(kind: str, nothing_left: None) -> None:
    with scripted(hear("tool_req"), say(b'{"__port":"tool_resp","id":"1","con')) as (_, fds):
        async with inherited(kind, *fds) as client:
            with pytest.raises(ClientError, match="the daemon closed the channel"):
                await client.call("slow")
            with pytest.raises(ClientError, match="the daemon closed the channel"):
                await client.call("slow")


@pytest.mark.parametrize(
    "line",
    [
        b"220 mail.example ESMTP\n",
        b"[]\n",
        b'{"no":"port"}\n',
        b'{"__port":"tool_resp"}\n',
        b"\xff\n",
        b"[" * 5000 + b"\n",
    ],
)
async def test_what_is_no_daemon_fails_the_call(kind: str, line: bytes, nothing_left: None) -> None:
    with scripted(hear("tool_req"), say(line), wait_for_the_end) as (_, fds):
        async with inherited(kind, *fds) as client:
            with pytest.raises(ClientError, match="the daemon sent a line that is not of the protocol"):
                await client.call("slow")


async def test_what_the_daemon_said_last_is_in_the_error(kind: str) -> None:
    fault = {"__port": "fault", "error": "too_many", "category": "unavailable", "detail": "too many connections"}
    with scripted(say(fault)) as (_, fds):
        async with inherited(kind, *fds) as client:
            with pytest.raises(ClientError, match="it last said: too_many: too many connections"):
                await client.call("slow")


async def test_a_refusal_that_comes_before_the_hello_was_read_is_its_answer(kind: str) -> None:
    fault = {"__port": "fault", "error": "not_authenticated", "category": "denied", "detail": "not admitted"}
    with scripted(hear("hello"), say(fault)) as (_, fds):
        async with inherited(kind, *fds) as client:
            with pytest.raises(FaultError, match="not_authenticated: not admitted"):
                await client.hello()


async def test_a_fault_that_counts_the_lines_of_others_finds_its_question(kind: str) -> None:
    fault = {"__port": "fault", "error": "invalid_request", "category": "invalid", "detail": "open", "line": 2}
    with scripted(hear("hello"), say(fault), wait_for_the_end) as (_, fds):
        async with inherited(kind, *fds) as client:
            with pytest.raises(FaultError, match="invalid_request: open"):
                await client.hello()


async def test_pipes_are_a_channel_too(kind: str, nothing_left: None) -> None:
    answers, requests = os.pipe(), os.pipe()
    os.write(answers[1], b'{"__port":"tool_resp","id":"1","content":"piped","is_error":false}\n')
    async with inherited(kind, answers[0], requests[1]) as client:
        assert (await client.call("echo", "x")).content == "piped"
    assert json.loads(os.read(requests[0], 4096))["input"] == "x"
    os.close(answers[1])
    os.close(requests[0])


async def test_a_socket_that_is_not_there_is_told(kind: str, tmp_path: Path, nothing_left: None) -> None:
    with pytest.raises(ClientError, match=r"cannot reach the daemon at .*/none: No such file or directory"):
        async with connected(kind, str(tmp_path / "none")):
            pass


@pytest.mark.parametrize("address", ["/" + "x" * 200, "@" + "x" * 200, "@nobody-listens-here"])
async def test_an_address_that_cannot_be_is_told(kind: str, address: str, nothing_left: None) -> None:
    with pytest.raises(ClientError, match="cannot reach the daemon"):
        async with connected(kind, address):
            pass


async def test_descriptors_that_are_not_open_are_told(kind: str, nothing_left: None) -> None:
    with pytest.raises(ClientError, match="no channel on descriptors 998 and 999: Bad file descriptor"):
        async with inherited(kind, 999, 998):
            pass
