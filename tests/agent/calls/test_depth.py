"""Inputs that are nested deep: taken, or refused as what is wrong with them, and never a defect."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.agent.fakes import Agent, code_of, open_runtime
from tooldispatchd.config.configuration import load_catalog

TOOLS: Final = """
[tools.copied]
type = "json -> (json, json)"
inline = "copy"

[tools.record]
type = "{text?: string} -> {text?: string}"
inline = "id"

[tools.mapped]
type = "json -> json"
map = "[input]"

[tools.run]
type = "json -> json"
command = ["cat"]

[tools.chained]
type = "json -> json"
process = "through"

[processes.cat]
kind = "agent"
type = "!json -> !json"
command = ["cat"]

[processes.through]
kind = "plumb"
chain = ["cat", "lift(mapped)"]
"""


async def codes(path: Path, depths: Iterable[int]) -> dict[str, set[object]]:
    """By tool the codes of what comes of inputs of these depths; `ok` for what is no fault."""
    file = path / "tooldispatchd.toml"
    file.write_text(TOOLS)
    catalog = load_catalog(file, {})
    seen: dict[str, set[object]] = {name: set() for name in catalog.tools}
    async with open_runtime(catalog, patience_s=60) as runtime:
        agent = Agent(runtime)
        for depth in depths:
            value = "[" * depth + "]" * depth
            for name, met in seen.items():
                await agent.send(f'{{"id":"1","name":"{name}","input":{value}}}\n'.encode())
                heard = await agent.hear()
                assert isinstance(heard, dict)
                met.add(code_of(heard) if heard.get("fault") else "ok")
        await agent.end_input()
    return seen


async def test_no_depth_is_a_defect(tmp_path: Path) -> None:
    seen = await codes(tmp_path, [*range(200, 1100, 90), *range(950, 1000, 10)])
    # What an expression may look at, and an answer hold, is bounded otherwise.
    assert set().union(*seen.values()) == {"ok", "invalid_input", "malformed_line", "tool_failed"}


async def test_a_line_of_the_depth_that_is_told_is_taken(tmp_path: Path) -> None:
    # The line itself is one level more.
    seen = await codes(tmp_path, [127])
    assert (seen["copied"], seen["run"], seen["record"]) == ({"ok"}, {"ok"}, {"invalid_input"})
