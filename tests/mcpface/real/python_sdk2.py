"""The client of Python's SDK 2.x, at a server: what it saw, as JSON.

python_sdk2.py COMMAND|URL MODE
"""

import asyncio
import json
import sys

import anyio
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import ElicitResult


async def elicit(_context, _params):
    return ElicitResult(action="accept", content={"username": "ada", "email": "ada@example.org"})


def transport(target):
    if target.startswith("http:"):
        return target
    return stdio_client(StdioServerParameters(command=target))


async def pages(client):
    sizes, cursor = [], None
    while True:
        page = await client.list_tools(cursor=cursor)
        sizes.append(len(page.tools))
        if (cursor := page.next_cursor) is None:
            return sizes


async def typed(client):
    return (await client.call_tool("double", {"n": 21})).structured_content


async def blocks(client):
    return [block.type for block in (await client.call_tool("test_multiple_content_types", {})).content]


async def error(client):
    result = await client.call_tool("test_error_handling", {})
    return [result.is_error, result.content[0].text]


async def progress(client):
    seen = set()

    async def told(_done, total, _message):
        seen.add(total)

    await client.call_tool("test_tool_with_progress", {}, progress_callback=told)
    return list(seen)


async def cancelled(client):
    """Cancels one call by leaving its scope, and one by its own time limit."""
    with anyio.move_on_after(1) as scope:
        await client.call_tool("stuck", {})
    try:
        await client.call_tool("stuck", {}, read_timeout_seconds=1)
    except MCPError:
        return scope.cancelled_caught


async def elicited(client):
    return (await client.call_tool("test_elicitation", {"message": "Who?"})).content[0].text


async def approved(client):
    return (await client.call_tool("guarded", {})).content[0].text


async def resources(client):
    return [str(each.uri) for each in (await client.list_resources()).resources]


async def read(client):
    return (await client.read_resource("test://template/7/data")).contents[0].text


async def prompts(client):
    return [each.name for each in (await client.list_prompts()).prompts]


async def prompt(client):
    found = await client.get_prompt("test_prompt_with_arguments", {"arg1": "a", "arg2": "b"})
    return found.messages[0].content.text


async def main():
    target = transport(sys.argv[1])
    async with Client(target, mode=sys.argv[2], elicitation_callback=elicit) as client:
        steps = (pages, typed, blocks, error, progress, cancelled, elicited, approved, resources, read, prompts, prompt)
        seen = {step.__name__: await step(client) for step in steps}
        print(json.dumps({**seen, "revision": client.protocol_version}))


asyncio.run(main())
