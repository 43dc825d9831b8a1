"""The client of Python's SDK 2.x with the extension of tasks, at a server: what it saw, as JSON.

python_tasks.py COMMAND|URL [TOOL]

With a tool's name it calls that, says `input_required` when it is asked, and waits to be killed.
"""

import asyncio
import json
import sys
from typing import Any, Literal

import anyio
from mcp import Client, MCPError, StdioServerParameters
from mcp.client import ClientExtension, ResultClaim
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult, ElicitResult, Request, RequestParams, Result


class TaskParams(RequestParams):
    task_id: str
    input_responses: dict[str, Any] | None = None


class TaskRequest(Request[TaskParams, str]):
    name_param = "taskId"


class Created(Result):
    result_type: Literal["task"] = "task"
    task_id: str
    status: str


class Detailed(Result):
    status: str
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    input_requests: dict[str, Any] | None = None


async def ask(session, method, task_id, **more):
    request = TaskRequest(method=method, params=TaskParams(task_id=task_id, **more))
    return await session.send_request(request, Detailed if method == "tasks/get" else Result)


class Tasks(ClientExtension):
    """Waits for a task, and answers whatever it asks."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.cancels = self.waits = False

    def claims(self):
        return [ResultClaim(result_type="task", model=Created, resolve=self.resolve)]

    async def resolve(self, created, context):
        self.seen = [created.status]
        if self.cancels:
            await ask(context.session, "tasks/cancel", created.task_id)
        while True:
            task = await ask(context.session, "tasks/get", created.task_id)
            if task.status != self.seen[-1]:
                self.seen.append(task.status)
            if task.status == "input_required" and self.waits:
                print(task.status, flush=True)
                await anyio.sleep_forever()
            if task.status == "input_required":
                answer = {"action": "accept", "content": {"name": "ada", "confirm": True}}
                await ask(
                    context.session,
                    "tasks/update",
                    created.task_id,
                    input_responses=dict.fromkeys(task.input_requests, answer),
                )
            elif task.status == "completed":
                return CallToolResult.model_validate(task.result)
            elif task.status == "failed":
                raise MCPError(task.error["code"], task.error["message"])
            elif task.status == "cancelled":
                return CallToolResult(content=[])
            await anyio.sleep(0.1)


async def elicit(_context, _params):
    return ElicitResult(action="accept", content={"name": "ada"})


async def main():
    target = sys.argv[1]
    if not target.startswith("http:"):
        target = stdio_client(StdioServerParameters(command=target))
    tasks = Tasks()
    async with Client(target, mode="2026-07-28", elicitation_callback=elicit, extensions=[tasks]) as client:

        async def call(tool, /, **arguments):
            tasks.seen = []
            result = await client.call_tool(tool, arguments)
            return [*tasks.seen, *(block.text for block in result.content)]

        if len(sys.argv) > 2:
            tasks.waits = True
            await call(sys.argv[2], filename="a.txt")
        seen = {
            "sync": await call("greet", name="ada"),
            "at once": await call("slow_compute", seconds=0.3, label="one"),
            "asks": await call("confirm_delete", filename="a.txt"),
            "asks twice": await call("multi_input"),
            "promoted": await call("test_tool_with_task"),
            "promoted, then asks": await call("ask_late"),
        }
        try:
            await call("protocol_error_job")
        except MCPError as error:
            seen["failed"] = [*tasks.seen, error.code]
        tasks.cancels = True
        seen["cancelled"] = await call("slow_compute", seconds=60, label="never")
        print(json.dumps(seen))


asyncio.run(main())
