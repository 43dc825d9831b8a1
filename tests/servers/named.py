"""An MCP server over stdio that calls itself by its first argument (nothing at all for an empty one) and has the tools
that the others name. Each tool says its own name after `sleep_s`, or a text of `size`, with a type for what it takes.
"""

import json
import sys
import time
from typing import Any


def result_of(request: dict[str, Any], name: str, tools: list[str]) -> dict[str, Any]:
    if request["method"] == "initialize":
        said: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
        return said | ({"serverInfo": {"name": name, "version": "1"}} if name else {})
    if request["method"] == "tools/list":
        schema = {"type": "object", "properties": {"sleep_s": {"type": "number"}}}
        return {
            "tools": [
                {"name": tool, "title": tool.title(), "description": f"Say {tool}.", "inputSchema": schema}
                for tool in tools
            ]
        }
    arguments = request["params"]["arguments"]
    time.sleep(arguments.get("sleep_s", 0))
    text = "x" * arguments["size"] if "size" in arguments else request["params"]["name"]
    return {"content": [{"type": "text", "text": text}]}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        if message["method"] == "server/discover":
            answer["error"] = {"code": -32601, "message": "Method not found"}
        else:
            answer["result"] = result_of(message, sys.argv[1], sys.argv[2:])
        print(json.dumps(answer), flush=True)
