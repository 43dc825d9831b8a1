"""Long lists of tools in a provider's form: the largest are cut first, and as little as has to be."""

from functools import cache

import msgspec
import pytest
from msgspec import Raw

from tests.agent.fakes import open_runtime
from tooldispatchd.agent.calls.call import Plan
from tooldispatchd.agent.tools.declaredplans import compile_plans
from tooldispatchd.agent.tools.showing import MAX_LISTED_BYTES, Showing
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.forms.form import IN_BRIEF, NOT_DESCRIBED
from tooldispatchd.catalog.specs import Config, ProfileSpec, ToolSpec

SMALL: dict[str, object] = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}


def large(properties: int, **schema: object) -> ToolSpec:
    fields = {f"field_{number}": {"type": "string", **schema} for number in range(properties)}
    return ToolSpec(inline="id", input_schema={"type": "object", "properties": fields}, output_schema={})


@cache
def catalog_of(larges: int, properties: int, description: str) -> Catalog:
    tools = {f"large_{number}": large(properties, description=description) for number in range(larges)}
    tools |= {f"small_{number}": ToolSpec(inline="id", input_schema=SMALL, output_schema={}) for number in range(100)}
    found = build_catalog(Config(tools=tools, agents={"default": ProfileSpec(tools=tuple(tools), jobs=False)}))
    assert isinstance(found, Catalog), found
    return found


def fields_of(entry: Raw, form: str) -> int:
    tool = msgspec.json.decode(entry)
    schema = tool.get("parameters") or tool.get("input_schema", {})
    return len(schema.get("properties", ()))


def showing_of(plans: dict[str, Plan], form: str) -> tuple[list[Raw], list[str]]:
    """The list as an agent gets it: made in turns, then at once."""
    showing = Showing()
    assert len(list(showing.render(form, plans, plans))) > 10
    return showing.entries(form, plans, plans)


@pytest.mark.parametrize("form", ["anthropic", "openai_responses", "google", "text"])
async def test_the_largest_tools_are_shown_in_brief_and_keep_all_their_parameters(form: str) -> None:
    async with open_runtime(catalog_of(40, 150, "d" * 200)) as runtime:
        entries, warnings = showing_of(runtime.plans("default", compile_plans), form)
    assert [fields_of(entry, form) for entry in entries] == [150] * 40 + [1] * 100
    assert sum(map(len, entries)) <= MAX_LISTED_BYTES
    cut = [warning.split(":")[0] for warning in warnings if warning.endswith(IN_BRIEF)]
    assert 0 < len(cut) < 40
    # Of equal ones the last.
    assert cut == [f"tool large_{number}" for number in range(40 - len(cut), 40)]


async def test_long_descriptions_are_cut_before_inputs() -> None:
    tools = {
        f"long_{number}": ToolSpec(inline="id", description="d" * 5000, input_schema=SMALL, output_schema={})
        for number in range(300)
    }
    found = build_catalog(Config(tools=tools, agents={"default": ProfileSpec(tools=tuple(tools), jobs=False)}))
    assert isinstance(found, Catalog), found
    async with open_runtime(found) as runtime:
        entries, _ = showing_of(runtime.plans("default", compile_plans), "anthropic")
    assert sum(map(len, entries)) <= MAX_LISTED_BYTES
    assert {fields_of(entry, "anthropic") for entry in entries} == {1}


async def test_what_is_too_large_in_brief_too_has_types_alone_and_then_nothing() -> None:
    async with open_runtime(catalog_of(300, 140, "d" * 80)) as runtime:
        entries, warnings = showing_of(runtime.plans("default", compile_plans), "anthropic")
    assert sum(map(len, entries)) <= MAX_LISTED_BYTES
    shown = [fields_of(entry, "anthropic") for entry in entries]
    bare = len([warning for warning in warnings if warning.endswith(NOT_DESCRIBED)])
    assert shown == [140] * (300 - bare) + [0] * bare + [1] * 100
    assert 0 < bare < 100
    assert msgspec.json.decode(entries[0])["input_schema"]["properties"]["field_1"] == {"type": "string"}


async def test_a_list_is_the_same_whether_it_was_made_in_turns_or_at_once() -> None:
    async with open_runtime(catalog_of(41, 150, "d" * 200)) as runtime:
        plans = runtime.plans("default", compile_plans)
        at_once = Showing().entries("anthropic", plans, plans)
        assert Showing().entries("anthropic", plans, plans) == at_once
        assert showing_of(plans, "anthropic") == at_once
