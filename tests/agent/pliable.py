"""Sessions in memory with servers that do what their calls tell them, each with a directory that says what it saw."""

import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import trio

from tests.agent.fakes import Agent, open_runtime
from tests.processes import is_running
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.specs import Config, LimitsSpec, McpSpec, ProcessSpec, ProfileSpec, ToolSpec

PLIABLE: Final = Path(__file__).parent.parent / "servers" / "pliable.py"
# Far above what anything here takes.
SOON_S: Final = 15.0
LIMITS: Final = LimitsSpec()

Line = dict[str, Any]


class Place:
    """The directory of one server."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()

    def spec(self, **keys: Any) -> McpSpec:
        """The server's table. It speaks one revision, so that no probe is among its starts."""
        args = ("-I", "-S", str(PLIABLE), str(self.path))
        return McpSpec(command=sys.executable, args=args, **{"protocol": "2025-11-25", **keys})

    @property
    def starts(self) -> list[int]:
        """The process of each start."""
        return [int(line) for line in self._lines("starts")]

    @property
    def told(self) -> list[str]:
        """The methods of the notifications that it got, but the handshake's."""
        methods = [json.loads(line)["method"] for line in self._lines("told")]
        return [method for method in methods if method != "notifications/initialized"]

    @property
    def capabilities(self) -> Line:
        """What the client said that it can, at the last start."""
        said: Line = json.loads(self._lines("capabilities")[-1])
        return said

    def has(self, *tools: str) -> None:
        """What it lists from the next list on."""
        (self.path / "tools").write_text(" ".join(tools))

    def breaks(self) -> None:
        """It ends at its next start."""
        (self.path / "broken").touch()

    def mended(self) -> None:
        """It starts again."""
        (self.path / "broken").unlink()

    def _lines(self, file: str) -> list[str]:
        path = self.path / file
        return path.read_text().splitlines() if path.exists() else []


class Talker(Agent):
    """An agent that calls and hears."""

    async def hello(self, **fields: object) -> Line:
        """The first line that the daemon says to it."""
        await self.say({"__port": "hello", **fields})
        return await self.line()

    async def line(self) -> Line:
        heard = await self.hear()
        assert isinstance(heard, dict), heard
        return heard

    async def request(self, call_id: str, name: str, value: object = None, **fields: object) -> None:
        given = {} if value is None else value
        await self.say({"__port": "tool_req", "id": call_id, "name": name, "input": given, **fields})

    async def ask(self, name: str, value: object = None, **fields: object) -> Line:
        """A call and its answer, where nothing else is said meanwhile."""
        await self.request("ask", name, value, **fields)
        return await self.line()

    async def until_served(self, name: str, value: object = None) -> Line:
        """Call again and again, as long as the server is being opened anew."""
        with trio.fail_after(SOON_S):
            while True:
                answer = await self.ask(name, value)
                if not answer.get("fault") or json.loads(answer["content"])["error"] != "server_unavailable":
                    return answer
                await trio.sleep(0.02)

    async def tools(self) -> list[str]:
        await self.say({"__port": "tools"})
        return names_of(await self.line())


def names_of(line: Line) -> list[str]:
    """The tools of a list."""
    return [tool["name"] for tool in line["tools"] if not tool["name"].startswith("job_")]


@asynccontextmanager
async def talking(runtime: Runtime, **fields: object) -> AsyncIterator[Talker]:
    """An agent that has said its `hello` and is ready; gone at the end, with all that it had."""
    agent = Talker(runtime)
    ready = await agent.hello(**fields)
    assert ready["__port"] == "ready", ready
    yield agent
    await agent.end_input()
    await agent.hear_all()


@asynccontextmanager
async def served(
    servers: Mapping[str, McpSpec],
    *,
    tools: Mapping[str, ToolSpec] = {},
    agents: Mapping[str, ProfileSpec] = {},
    processes: Mapping[str, ProcessSpec] = {},
    limits: LimitsSpec = LIMITS,
) -> AsyncIterator[Runtime]:
    """A runtime with these servers; without `agents` one profile has all of them."""
    catalog = build_catalog(
        Config(mcp=dict(servers), tools=dict(tools), agents=dict(agents), processes=dict(processes), limits=limits)
    )
    assert isinstance(catalog, Catalog), catalog
    async with open_runtime(catalog, patience_s=SOON_S) as runtime:
        yield runtime
    assert len(runtime.services.sharing) == 0


async def until(is_true: Callable[[], bool]) -> None:
    """Wait for what another process does, which sets no event here."""
    with trio.fail_after(SOON_S):
        while not is_true():  # noqa: ASYNC110
            await trio.sleep(0.005)


async def gone(pid: int) -> None:
    """Wait until a process has ended."""
    await until(lambda: not is_running(pid))


def fault_in(answer: Line) -> Line:
    """The fault that an answer is."""
    assert answer["__port"] == "tool_resp", answer
    assert answer.get("fault"), answer
    fault: Line = json.loads(answer["content"])
    return fault


def code_in(answer: Line) -> str:
    return str(fault_in(answer)["error"])
