"""An MCP server over stdio that does what its calls tell it, and writes down in a directory what happened to it.

Its argument is the directory: `starts` and `told` grow by a line for each start and each notification. Where there is
a file `broken` it ends at once; `tools` names what it lists. A call does what its tool is named for, and says what came
of it.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

Message = dict[str, Any]

PLACE = Path(sys.argv[1])
TOOLS = ("say", "hang", "die", "pid", "change", "ask", "fail")
# The calls that wait for the client's answer to a question, by its id.
asking: dict[str, Message] = {}


def note(file: str, line: str) -> None:
    with (PLACE / file).open("a") as kept:
        kept.write(line + "\n")


def send(**fields: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **fields}), flush=True)


def say(call: Message, words: str, **fields: Any) -> None:
    send(id=call["id"], result={"content": [{"type": "text", "text": words}], **fields})


def listed() -> list[str]:
    file = PLACE / "tools"
    return file.read_text().split() if file.exists() else list(TOOLS)


def call(request: Message) -> None:
    name, arguments = request["params"]["name"], request["params"]["arguments"]
    if name == "die":
        os._exit(7)
    elif name == "change":
        (PLACE / "tools").write_text(" ".join(arguments["tools"]))
        send(method="notifications/tools/list_changed")
        say(request, "changed")
    elif name == "ask":
        asking[f"q-{request['id']}"] = request
        send(id=f"q-{request['id']}", method=arguments["method"], params=arguments.get("params", {}))
    elif name == "pid":
        say(request, str(os.getpid()))
    elif name == "fail":
        say(request, "no such thing", isError=True)
    elif name != "hang":
        say(request, arguments.get("text", name))


def schema(name: str) -> Message:
    # What it takes can be changed too: `say:text` makes `text` required, and `say:elsewhere` cannot be used.
    name, _, required = name.partition(":")
    if required == "elsewhere":
        return {"name": name, "inputSchema": {"type": "object", "$ref": "http://a.example/b.json"}}
    return {"name": name, "inputSchema": {"type": "object", "required": [required] if required else []}}


def serve(message: Message) -> None:
    method = message.get("method")
    if method is None:
        question = asking.pop(message["id"], None)
        if question is not None:
            say(question, json.dumps(message.get("result", message.get("error"))))
    elif "id" not in message:
        note("told", json.dumps(message))
    elif method == "initialize":
        note("capabilities", json.dumps(message["params"]["capabilities"]))
        capabilities = {"tools": {"listChanged": True}}
        said = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "instructions": f"Be {PLACE.name}."}
        send(id=message["id"], result={**said, "serverInfo": {"name": PLACE.name, "version": "1"}})
    elif method == "tools/list":
        send(id=message["id"], result={"tools": [schema(name) for name in listed()]})
    elif method == "tools/call":
        call(message)
    else:
        send(id=message["id"], error={"code": -32601, "message": "Method not found"})


note("starts", str(os.getpid()))
if (PLACE / "broken").exists():
    sys.exit(3)
for line in sys.stdin:
    serve(json.loads(line))
