"""Calls by names of properties that a form has shown in the place of the tool's own."""

import functools
import json

import pytest

from tests.agent.fakes import open_runtime
from tests.agent.pliable import Talker, talking
from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.specs import Config, ProfileSpec, ToolSpec

STRING = {"type": "string"}
QUERY: dict[str, object] = {
    "type": "object",
    "properties": {"$filter": STRING, "order[by]": STRING, "q": STRING},
    "required": ["$filter"],
}


@functools.cache
def querying() -> Catalog:
    tool = ToolSpec(inline="id", input_schema=QUERY, output_schema={})
    catalog = build_catalog(Config(tools={"list": tool}, agents={"default": ProfileSpec(tools=("list",))}))
    assert isinstance(catalog, Catalog), catalog
    return catalog


async def content_of(agent: Talker, value: object) -> object:
    return json.loads((await agent.ask("list", value))["content"])


@pytest.mark.parametrize("form", ["anthropic", "google"])
async def test_what_is_sent_by_shown_names_comes_to_the_tool_by_its_own(form: str) -> None:
    async with open_runtime(querying()) as runtime, talking(runtime, schemas=form) as agent:
        sent = {"q": "a", "filter": "b", "order_by": "c"}
        assert await content_of(agent, sent) == {"q": "a", "$filter": "b", "order[by]": "c"}
        assert await content_of(agent, {"$filter": "b"}) == {"$filter": "b"}
        # Both are there: the one is another member, which this tool takes.
        assert await content_of(agent, {"$filter": "b", "filter": "c"}) == {"$filter": "b", "filter": "c"}


async def test_a_heavy_input_is_named_back_too() -> None:
    async with open_runtime(querying()) as runtime, talking(runtime, schemas="google") as agent:
        long = "x" * 100_000
        assert await content_of(agent, {"filter": long}) == {"$filter": long}


@pytest.mark.parametrize("form", ["plain", "openai", "mcp"])
async def test_where_no_name_is_shown_otherwise_none_is_named_back(form: str) -> None:
    async with open_runtime(querying()) as runtime, talking(runtime, schemas=form) as agent:
        assert await content_of(agent, {"$filter": "b", "order_by": "c"}) == {"$filter": "b", "order_by": "c"}
        assert (await agent.ask("list", {"filter": "b"}))["is_error"]
