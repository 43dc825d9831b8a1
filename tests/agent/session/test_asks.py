"""What servers ask of an agent, from the server to the agent's line and back."""

import json
from pathlib import Path

import pytest
import trio

from tests.agent.pliable import Line, Place, Talker, served, talking
from tooldispatchd.catalog.specs import ProfileSpec

FORM = {"message": "Which day?", "requestedSchema": {"type": "object", "properties": {}}}
SAMPLE = {"messages": [], "maxTokens": 10}
MADE = {"role": "assistant", "content": {"type": "text", "text": "Monday"}, "model": "m"}


async def asked(agent: Talker, method: str, params: Line) -> Line:
    """A call that makes its server ask; the question as the agent hears it."""
    await agent.request("1", "kit:ask", {"method": method, "params": params})
    return await agent.line()


@pytest.mark.parametrize(
    ("kind", "method", "params", "result"),
    [
        ("elicitation", "elicitation/create", FORM, {"action": "accept", "content": {"day": "Monday"}}),
        ("sampling", "sampling/createMessage", SAMPLE, MADE),
        ("roots", "roots/list", {}, {"roots": [{"uri": "file:///home/ada"}]}),
    ],
)
async def test_a_question_goes_to_the_agent_and_its_answer_to_the_server(
    tmp_path: Path, kind: str, method: str, params: Line, result: Line
) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec()}) as runtime, talking(runtime, answers=[kind]) as agent:
        assert kit.capabilities == {kind: {}}
        question = await asked(agent, method, params)
        assert question == {"__port": "ask", "id": "q1", "kind": kind, "server": "kit", "params": params, "call": "1"}
        # Neither the server nor the agent is held up meanwhile.
        assert (await agent.ask("kit:say"))["content"] == "say"
        await agent.say({"__port": "ask_resp", "id": "q1", "result": result})
        answer = await agent.line()
        assert (answer["id"], json.loads(answer["content"])) == ("1", result)


@pytest.mark.parametrize("answers", [None, ["approve"], ["sampling"]])
async def test_an_agent_that_does_not_answer_that_is_never_asked(tmp_path: Path, answers: list[str] | None) -> None:
    kit = Place(tmp_path / "kit")
    said = {} if answers is None else {"answers": answers}
    async with served({"kit": kit.spec()}) as runtime, talking(runtime, **said) as agent:
        answer = await asked(agent, "elicitation/create", FORM)
        assert (answer["__port"], json.loads(answer["content"])["code"]) == ("tool_resp", -32601)


async def test_a_refusal_is_told_to_the_server(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec()}) as runtime, talking(runtime, answers=["sampling"]) as agent:
        await asked(agent, "sampling/createMessage", SAMPLE)
        await agent.say({"__port": "ask_resp", "id": "q1", "refuse": "too dear"})
        assert "too dear" in (await agent.line())["content"]


async def test_a_named_agent_is_asked_by_its_name(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec()}) as runtime:
        agent = Talker(runtime)
        for name in ("ada", "bob"):
            await agent.hello(agent=name, answers=["elicitation"])
        await agent.request("1", "kit:ask", {"method": "elicitation/create", "params": FORM}, agent="bob")
        question = await agent.line()
        assert (question["__port"], question["agent"]) == ("ask", "bob")
        await agent.say({"__port": "ask_resp", "id": question["id"], "agent": "ada", "refuse": True})
        await agent.say({"__port": "ask_resp", "id": question["id"], "agent": "bob", "refuse": True})
        answer = await agent.line()
        assert (answer["agent"], answer["content"]) == ("bob", '{"action": "decline"}')
        await agent.end_input()


async def test_servers_are_told_the_roots_of_the_profile(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    profile = ProfileSpec(mcp=("kit",), roots=("file:///home/ada/project",))
    async with served({"kit": kit.spec()}, agents={"default": profile}) as runtime, talking(runtime) as agent:
        assert kit.capabilities == {"roots": {}}
        answer = await asked(agent, "roots/list", {})
        assert json.loads(answer["content"]) == {"roots": [{"uri": "file:///home/ada/project", "name": "project"}]}


async def test_a_question_that_nobody_answers_ends_with_its_time(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    servers = {"kit": kit.spec(call_s=0.2, on_timeout="cancel")}
    async with served(servers) as runtime, talking(runtime, answers=["elicitation"]) as agent:
        await asked(agent, "elicitation/create", FORM)
        assert '"error":"timeout"' in (await agent.line())["content"]
        await agent.say({"__port": "ask_resp", "id": "q1", "refuse": True})
        assert (await agent.ask("kit:say"))["content"] == "say"


async def test_an_agent_that_leaves_with_a_question_open_leaves_nothing(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec()}) as runtime:
        agent = Talker(runtime)
        await agent.hello(answers=["elicitation"])
        await asked(agent, "elicitation/create", FORM)
        agent.host.gone("it vanished")
        await agent.end_input()
        with trio.fail_after(5):
            await agent.hear_all()
