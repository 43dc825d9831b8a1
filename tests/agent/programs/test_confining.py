"""What a program is kept to as a profile's agents call it, on machines that can do more or less."""

import msgspec

from tests.agent.fakes import open_runtime
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.tools.declaredplans import compile_plans
from tooldispatchd.agent.tools.showing import plain_entries
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.enforcement import Enforceable
from tooldispatchd.catalog.specs import Config, ProcessSpec, ProfileSpec, ToolSpec

TOOLS = {
    "free": ToolSpec(command=("true",)),
    "kept": ToolSpec(command=("true",), nice=1, cpu_s=5, sandbox="best-effort"),
    "asked": ToolSpec(process="asker"),
    "chained": ToolSpec(process="chain"),
}
PROCESSES = {
    "asker": ProcessSpec(kind="agent", type="!json -> !json", command=("true",), nice=1, sandbox="best-effort"),
    "chain": ProcessSpec(kind="plumb", type="!json -> !json", chain=("asker", "asker")),
}
AGENTS = {"default": ProfileSpec(tools=tuple(TOOLS))}


def shown(runtime: Runtime) -> dict[str, object]:
    """What agents of the default profile are told of each tool that is not enforced."""
    entries = msgspec.json.decode(msgspec.json.encode(plain_entries(runtime.plans("default", compile_plans).values())))
    return {entry["name"]: entry.get("unenforced") for entry in entries if entry["name"] in TOOLS}


def catalog_on(machine: Enforceable) -> Catalog:
    catalog = build_catalog(Config(tools=TOOLS, processes=PROCESSES, agents=AGENTS))
    assert isinstance(catalog, Catalog), catalog
    return msgspec.structs.replace(catalog, enforceable=machine)


async def test_agents_are_shown_what_the_machine_cannot_keep_a_tool_to() -> None:
    async with open_runtime(catalog_on(Enforceable({"nice": "no"}))) as runtime:
        assert shown(runtime) == {"free": None, "kept": ["nice"], "asked": ["nice"], "chained": None}


async def test_of_what_the_machine_can_do_nothing_is_shown() -> None:
    async with open_runtime(catalog_on(Enforceable())) as runtime:
        assert shown(runtime) == dict.fromkeys(TOOLS)
