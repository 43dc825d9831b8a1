"""The client of Python's SDK 1.x, at a server: what it saw, as JSON.

python_sdk1.py COMMAND|URL
"""

import asyncio
import json
import sys
from contextlib import asynccontextmanager

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client
from mcp.types import ElicitResult, PaginatedRequestParams


async def elicit(_context, _params):
    return ElicitResult(action="accept", content={"username": "ada", "email": "ada@example.org"})


@asynccontextmanager
async def connected(target):
    if target.startswith("http:"):
        transport = streamablehttp_client(target)
    else:
        transport = stdio_client(StdioServerParameters(command=target))
    async with transport as (read, write, *_), ClientSession(read, write, elicitation_callback=elicit) as session:
        await session.initialize()
        yield session


async def pages(session):
    sizes, cursor = [], None
    while True:
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        sizes.append(len(page.tools))
        if (cursor := page.nextCursor) is None:
            return sizes


async def typed(session):
    return (await session.call_tool("double", {"n": 21})).structuredContent


async def blocks(session):
    return [block.type for block in (await session.call_tool("test_multiple_content_types", {})).content]


async def error(session):
    result = await session.call_tool("test_error_handling", {})
    return [result.isError, result.content[0].text]


async def progress(session):
    seen = set()

    async def told(_done, total, _message):
        seen.add(total)

    await session.call_tool("test_tool_with_progress", {}, progress_callback=told)
    return list(seen)


async def elicited(session):
    return (await session.call_tool("test_elicitation", {"message": "Who?"})).content[0].text


async def approved(session):
    return (await session.call_tool("guarded", {})).content[0].text


async def resources(session):
    return [str(each.uri) for each in (await session.list_resources()).resources]


async def read(session):
    return (await session.read_resource("test://template/7/data")).contents[0].text


async def prompts(session):
    return [each.name for each in (await session.list_prompts()).prompts]


async def prompt(session):
    found = await session.get_prompt("test_prompt_with_arguments", {"arg1": "a", "arg2": "b"})
    return found.messages[0].content.text


async def main():
    async with connected(sys.argv[1]) as session:
        steps = (pages, typed, blocks, error, progress, elicited, approved, resources, read, prompts, prompt)
        print(json.dumps({step.__name__: await step(session) for step in steps}))


asyncio.run(main())
