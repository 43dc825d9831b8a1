"""FastMCP's client, at a server: what it saw, as JSON.

python_fastmcp.py COMMAND|URL
"""

import asyncio
import json
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from mcp import MCPError


async def elicit(_message, _response_type, _params, _context):
    return {"username": "ada", "email": "ada@example.org"}


def transport(target):
    if target.startswith("http:"):
        return target
    return StdioTransport(target, [])


async def called(client, tool, **kwargs):
    return await client.call_tool(tool, raise_on_error=False, **kwargs)


async def pages(client):
    return [len(await client.list_tools())]


async def typed(client):
    return (await called(client, "double", arguments={"n": 21})).structured_content


async def blocks(client):
    return [block.type for block in (await called(client, "test_multiple_content_types")).content]


async def error(client):
    result = await called(client, "test_error_handling")
    return [result.is_error, result.content[0].text]


async def progress(client):
    seen = set()

    async def told(_done, total, _message):
        seen.add(total)

    await called(client, "test_tool_with_progress", progress_handler=told)
    return list(seen)


async def cancelled(client):
    try:
        await called(client, "stuck", timeout=1)
    except MCPError:
        return True


async def elicited(client):
    return (await called(client, "test_elicitation", arguments={"message": "Who?"})).content[0].text


async def approved(client):
    return (await called(client, "guarded")).content[0].text


async def resources(client):
    return [str(each.uri) for each in await client.list_resources()]


async def read(client):
    return (await client.read_resource("test://template/7/data"))[0].text


async def prompts(client):
    return [each.name for each in await client.list_prompts()]


async def prompt(client):
    found = await client.get_prompt("test_prompt_with_arguments", {"arg1": "a", "arg2": "b"})
    return found.messages[0].content.text


async def main():
    async with Client(transport(sys.argv[1]), elicitation_handler=elicit) as client:
        steps = (pages, typed, blocks, error, progress, cancelled, elicited, approved, resources, read, prompts, prompt)
        print(json.dumps({step.__name__: await step(client) for step in steps}))


asyncio.run(main())
