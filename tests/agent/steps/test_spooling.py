"""The text of a program goes to the spool while it runs, once it is longer than a model should get."""

import json
import os
from pathlib import Path

import pytest
import trio

from tests.agent.fakes import PATIENCE_S, Agent, code_of, open_runtime
from tests.agent.steps.test_shortening import full_disk
from tooldispatchd.agent.calls.plans import CommandPlan
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.tools.declaredplans import compile_plans
from tooldispatchd.config.configuration import load_catalog

KIB = 1024
# Writes its input, and then waits for somebody to open the fifo.
CONFIG = """
[limits]
stored_bytes = 8192
[tools.say]
command = ["cat"]
input_mode = "text"
output_mode = "text"
type = "string -> string"
max_output = 1024
[tools.hold]
command = ["sh", "-c", "cat; cat fifo"]
input_mode = "text"
output_mode = "text"
type = "string -> string"
max_output = 1024
[tools.octets]
command = ["sh", "-c", 'printf "%1500s\\377%1500s" a b; exit $0']
input_mode = "args"
args = ["${code}"]
output_mode = "text"
type = "{code: int} -> string"
max_output = 1024
[tools.shell]
command = ["sh", "-c"]
input_mode = "args"
args = ["${line}"]
exit_codes = "result"
type = "{line: string} -> string"
max_output = 1024
[tools.short]
command = ["cat"]
input_mode = "text"
output_mode = "text"
output_schema = { type = "string", maxLength = 4000 }
input_schema = { type = "string" }
max_output = 1024
[tools.bounded]
command = ["cat"]
input_mode = "text"
output_mode = "text"
type = "string -> string"
max_output = 1024
output_bytes = 2048
[tools.value]
command = ["cat"]
type = "json -> json"
[tools.cut]
command = ["cat"]
output_mode = "text"
overflow = "truncate"
[tools.masked]
command = ["cat"]
env = { KEY = "${SECRET:-}" }
output_mode = "text"
redact = true
[tools.kept]
command = ["cat"]
output_mode = "text"
read_only = true
cache = "5m"
"""


@pytest.fixture
def catalog_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    os.mkfifo(tmp_path / "fifo")
    file = tmp_path / "t.toml"
    file.write_text(CONFIG)
    return file


async def spooled(spool: Path, size: int) -> Path:
    """The one file of the spool, once it has so many bytes."""
    with trio.fail_after(PATIENCE_S):
        while not [file for file in spool.iterdir() if file.stat().st_size >= size]:
            await trio.sleep(0.002)
    [file] = spool.iterdir()
    return file


def told(line: object) -> dict[str, object]:
    assert isinstance(line, dict)
    found: dict[str, object] = json.loads(str(line["content"]))["tool_output"]
    return found


def left(runtime: Runtime, spool: Path) -> tuple[int, list[Path]]:
    """What is held, and the files."""
    return runtime.services.spool.quota.held, list(spool.iterdir())


@pytest.mark.usefixtures("nothing_left")
async def test_it_is_in_the_file_while_the_program_runs_and_then_under_a_handle(
    tmp_path: Path, catalog_file: Path
) -> None:
    (spool := tmp_path / "spool").mkdir()
    async with open_runtime(load_catalog(catalog_file, {}), patience_s=PATIENCE_S, spool=spool) as runtime:
        agent = Agent(runtime)
        text = "a\n" * 1000 + "é"
        await agent.call("1", "hold", input=text)
        file = await spooled(spool, 2002)
        assert (file.read_text(), file.stat().st_mode & 0o777) == (text, 0o600)
        (tmp_path / "fifo").write_text("end\n")
        found = told(await agent.hear())
        assert (found["bytes"], found["lines"], str(found["head"])[:4]) == (2005, 1001, "a\na\n")
        assert file.read_text() == text + "end"
        await agent.call("2", "output_read", input={"handle": found["handle"], "line": 1001})
        line = await agent.hear()
        assert isinstance(line, dict)
        assert json.loads(line["content"])["text"] == "éend"
        assert left(runtime, spool) == (2005, [file])
        await agent.end_input()
        assert await agent.hear_all() == []
        assert left(runtime, spool) == (0, [])


@pytest.mark.usefixtures("nothing_left")
async def test_what_is_no_longer_than_it_may_be_never_is_and_what_is_no_text_is_told(
    tmp_path: Path, catalog_file: Path
) -> None:
    (spool := tmp_path / "spool").mkdir()
    async with open_runtime(load_catalog(catalog_file, {}), patience_s=PATIENCE_S, spool=spool) as runtime:
        agent = Agent(runtime)

        async def answered(name: str, given: object, **fields: object) -> dict[str, object]:
            await agent.call("1", name, input=given, **fields)
            line = await agent.hear()
            assert isinstance(line, dict)
            return line

        # A newline at the end is none of the answer's.
        for text in ("x" * 1022, "x" * 1022 + "\n", "é" * 511):
            assert (await answered("say", text))["content"] == json.dumps(text.removesuffix("\n"), ensure_ascii=False)
        assert left(runtime, spool) == (0, [])
        # Held, and stored at its end; then one that is not held any more, cut within a character.
        assert told(await answered("say", "x" * 1024 + "\n"))["bytes"] == 1024
        assert told(await answered("say", "x" * 1025 + "é\n"))["bytes"] == 1027
        assert told(await answered("say", "x" * 1026, content="blocks"))["lines"] == 1
        assert [file.read_text()[-1] for file in sorted(spool.iterdir())] == ["x", "é", "x"]
        before = left(runtime, spool)
        for code, detail in ((0, "'sh' wrote text that is not UTF-8 at byte 1500"), (3, "'sh' exited with code 3")):
            fault = json.loads(str((await answered("octets", {"code": code}))["content"]))
            assert (fault["error"], fault["detail"]) == ("tool_failed", detail)
            assert str(fault["stdout_tail"]).endswith("b")
        assert code_of(await answered("short", "x" * 4001)) == "invalid_output"
        assert json.loads(str((await answered("bounded", "x" * 3000))["content"]))["limit"] == "output_bytes"
        assert left(runtime, spool) == before
        # Not even what tells of it has room in the window.
        fault = json.loads(str((await answered("say", "x" * 3000, max_bytes=50))["content"]))
        assert (fault["error"], fault["limit"], fault["bytes"]) == ("budget_exceeded", "window", 3000)
        # A transcript may have any bytes, and ends with how the program did.
        found = told(await answered("shell", {"line": "printf '\\377%2000s' x; exit 3"}))
        assert found["bytes"] == 3 + 2000 + len("\nexit code 3")
        await agent.call("2", "output_grep", input={"handle": found["handle"], "pattern": "exit code|^\\ufffd"})
        line = await agent.hear()
        assert isinstance(line, dict)
        assert [match["line"] for match in json.loads(line["content"])["matches"]] == [1, 2]
        await agent.end_input()
        assert await agent.hear_all() == []
        assert left(runtime, spool) == (0, [])


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("end", ["cancel", "gone"])
async def test_of_a_call_that_is_ended_early_nothing_is_left(tmp_path: Path, catalog_file: Path, end: str) -> None:
    (spool := tmp_path / "spool").mkdir()
    async with open_runtime(load_catalog(catalog_file, {}), patience_s=PATIENCE_S, spool=spool) as runtime:
        agent = Agent(runtime)
        await agent.call("1", "hold", input="x" * 3000)
        await spooled(spool, 3000)
        if end == "cancel":
            await agent.say({"__port": "tool_cancel", "id": "1"})
            line = await agent.hear()
            assert (code_of(line), left(runtime, spool)) == ("cancelled", (0, []))
            await agent.end_input()
        else:
            agent.host.gone("it died")
        await agent.hear_all()
        assert left(runtime, spool) == (0, [])


@pytest.mark.usefixtures("nothing_left")
async def test_where_there_is_no_room_the_program_runs_on_and_its_beginning_is_given(
    tmp_path: Path, catalog_file: Path
) -> None:
    (spool := tmp_path / "spool").mkdir()
    async with open_runtime(load_catalog(catalog_file, {}), patience_s=PATIENCE_S, spool=spool) as runtime:
        agent = Agent(runtime)
        for size, room, why in ((8193, 1 << 20, "there is no room for more"), (5000, 4096, "File too large")):
            with full_disk(room):
                await agent.call("1", "say", input="é\n" + "x" * (size - 3))
                line = await agent.hear()
            assert isinstance(line, dict)
            content = str(line["content"])
            assert content.startswith("é\nxx")
            assert len(content.encode()) <= KIB
            assert content.endswith(f"{size:,} bytes, 2 lines is left out, and could not be stored: {why} …")
            assert left(runtime, spool) == (0, [])
        await agent.end_input()


async def test_only_texts_are_that_nothing_else_looks_at_whole(catalog_file: Path) -> None:
    catalog = load_catalog(catalog_file, {"SECRET": "hunter2-hunter2"})
    async with open_runtime(catalog, patience_s=PATIENCE_S) as runtime:
        plans = runtime.plans("default", compile_plans)
        spooled = {name for name, plan in plans.items() if isinstance(plan, CommandPlan) and plan.spooled}
        assert spooled == {"say", "hold", "octets", "shell", "bounded"}
        assert {"short", "value", "cut", "masked", "kept"} < plans.keys()
