"""The same bytes, read by the daemon and by the official SDK's client: agents are told what the SDK's result says.

What they are told follows from the result (docs/mcp.md, "What an agent is told"); here it is computed from the SDK's
own object. A recording that the SDK cannot read, or reads against the specification, says itself what an agent is told.
"""

import json
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import trio
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult
from pydantic import BaseModel, ValidationError

from tests.real.installed import OWN, binding
from tests.real.visit import visit
from tests.servers.replaying import MODERN, Recording, read
from tooldispatchd.client.errors import FaultError
from tooldispatchd.wire.messages import ToolResp

RECORDINGS: Final = OWN / "recordings.txt"
REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-11-25", MODERN)
EACH: Final = [(revision, name) for revision in REVISIONS for name in read(RECORDINGS, revision)]

Told = dict[str, object]


def replaying(revision: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", str(OWN / "replaying.py"), str(RECORDINGS), revision)


@cache
def recordings(revision: str) -> dict[str, Recording]:
    return read(RECORDINGS, revision)


class Both(NamedTuple):
    """What agents are told of each recording of one revision; the SDK's part only where it can read them."""

    by_the_daemon: dict[str, Told]
    by_the_sdk: dict[str, Told]


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Both]:
    """Every recording of a revision, played to both; once."""

    @cache
    def played(revision: str) -> Both:
        return Both(ask_the_daemon(tmp_path_factory.mktemp("daemon"), revision), ask_the_sdk(revision))

    return played


def ask_the_daemon(directory: Path, revision: str) -> dict[str, Told]:
    """What an agent is told."""
    found: dict[str, Told] = {}
    config = binding("replaying", replaying(revision)) + '[agents.default]\nmcp = ["replaying"]\n'
    with visit(directory, config) as agent:
        assert agent.ready.warnings == []
        for name in recordings(revision):
            try:
                found[name] = told(agent.client.call(f"replaying:{name}", {}))
            except FaultError as fault:
                found[name] = {"error": fault.code}
    return found


def told(answer: ToolResp) -> Told:
    return {"content": answer.content, "is_error": answer.is_error}


def ask_the_sdk(revision: str) -> dict[str, Told]:
    """What an agent should be told."""
    readable = [name for name, each in recordings(revision).items() if each["told"] is None]
    results = trio.run(read_by_the_sdk, revision, readable)
    return {name: expected(result, recordings(revision)[name]) for name, result in results.items()}


async def read_by_the_sdk(revision: str, names: list[str]) -> dict[str, CallToolResult]:
    program, *args = replaying(revision)
    parameters = StdioServerParameters(command=program, args=args)
    mode = MODERN if revision == MODERN else "legacy"
    async with Client(parameters, mode=mode, read_timeout_seconds=5) as client:
        return {name: await client.call_tool(name, {}, progress_callback=ignored) for name in names}


async def ignored(progress: float, total: float | None, message: str | None) -> None:
    """Asks for progress, as the daemon does."""


def expected(result: CallToolResult, recording: Recording) -> Told:
    """The rule of docs/mcp.md, over the SDK's object."""
    return {"content": content(result, recording["tool"]), "is_error": bool(result.is_error)}


def content(result: CallToolResult, tool: dict[str, Any]) -> str:
    if "outputSchema" in tool and result.structured_content is not None and not (result.is_error and result.content):
        return compact(result.structured_content)
    if [block.type for block in result.content] == ["text"]:
        return str(result.content[0].model_dump()["text"])
    return compact([fields(block) for block in result.content]) if result.content else ""


def fields(block: BaseModel) -> object:
    return block.model_dump(mode="json", by_alias=True, exclude_unset=True)


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize(("revision", "name"), EACH)
def test_agents_are_told_what_the_sdk_reads(play: Callable[[str], Both], revision: str, name: str) -> None:
    both = play(revision)
    said = recordings(revision)[name]["told"] or both.by_the_sdk[name]
    assert comparable(both.by_the_daemon[name]) == comparable(said)


def comparable(told: Told) -> Told:
    """With JSON read: the order of keys, and how a number is spelt, mean nothing."""
    try:
        return told | {"content": json.loads(str(told.get("content")))}
    except ValueError:
        return told


def test_the_sdk_reads_nothing_where_a_recording_says_what_is_told() -> None:
    """A recording whose answer stands in it would else hide a difference."""
    refused = {name: each for name, each in recordings("2025-11-25").items() if each["told"] is not None}
    assert [name for name in refused if trio.run(is_read_by_the_sdk, name)] == []


async def is_read_by_the_sdk(name: str) -> bool:
    """Whether its client gives a result for it; nothing at all, where it waits in vain."""
    try:
        with trio.move_on_after(1):
            return bool(await read_by_the_sdk("2025-11-25", [name]))
    except (ExceptionGroup, ValidationError, RuntimeError):
        return False
    return False


def test_there_are_enough_recordings() -> None:
    assert len({name for _revision, name in EACH}) >= 30
