"""The line `opening`: what is known of servers that are still starting."""

from pathlib import Path

import msgspec

from tests.agent.pliable import Place, Talker, served
from tooldispatchd.providers.mcp.remembered import Introductions
from tooldispatchd.providers.mcp.server import Server, ServerOffer

ASKED = {"capabilities": ["servers", "opening"]}


async def test_what_a_server_said_last_is_told_before_it_has_started(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec()}) as runtime:
        for complete, known in ((False, {}), (True, {"instructions": "# kit\nBe kit."})):
            agent = Talker(runtime)
            told = await agent.hello(id="h", **ASKED)
            assert told["capabilities"].pop("servers") is True
            assert {**told, "capabilities": 0, "servers": len(told["servers"])} == {
                "__port": "opening",
                "id": "h",
                "complete": complete,
                "capabilities": 0,
                "servers": int(complete),
                "waiting": ["kit"],
                **known,
            }
            ready = await agent.line()
            assert (ready["__port"], ready["instructions"]) == ("ready", "# kit\nBe kit.")
            await agent.end_input()
            await agent.hear_all()


async def test_each_answer_of_a_server_shortens_the_list_of_those_that_are_waited_for(tmp_path: Path) -> None:
    one, other = Place(tmp_path / "one"), Place(tmp_path / "other")
    async with served({"one": one.spec(), "other": other.spec()}) as runtime:
        agent = Talker(runtime)
        assert (await agent.hello(**ASKED))["waiting"] == ["one", "other"]
        assert len((await agent.line())["waiting"]) == 1
        assert (await agent.line())["__port"] == "ready"
        await agent.end_input()
        await agent.hear_all()


async def test_a_session_that_is_open_at_once_or_did_not_ask_hears_nothing_beforehand(tmp_path: Path) -> None:
    kit = Place(tmp_path / "kit")
    async with served({"kit": kit.spec(shared=True)}) as runtime:
        for asked in ({}, ASKED):
            agent = Talker(runtime)
            assert (await agent.hello(**asked))["__port"] == "ready"
            await agent.end_input()
            await agent.hear_all()


def test_a_server_is_known_by_its_table_whatever_its_secrets_are() -> None:
    server = Server(name="kit", argv=("kit",), max_line_bytes=1, max_content_bytes=1, env={"KEY": "old"})
    known, changes = Introductions(), []
    known.changed = lambda: changes.append(1)
    for _ in range(2):
        known.keep(server, ServerOffer(instructions="Be kind.", listed=("say",)))
    assert known.get(msgspec.structs.replace(server, env={"KEY": "new"})) == ServerOffer(instructions="Be kind.")
    assert known.get(msgspec.structs.replace(server, argv=("other",))) is None
    assert len(changes) == 1
