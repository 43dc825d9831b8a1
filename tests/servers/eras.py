"""MCP servers over stdio that differ in what they speak, named by the first argument; the standard library only.

`modern` speaks 2026-07-28 alone; the others are of the revisions before, and differ in how they take a probe.
Whatever a tool is called with comes back as text, unless its name says otherwise.
"""

import json
import sys
from typing import Any

Message = dict[str, Any]

PREFIX = "io.modelcontextprotocol/"
SCHEMA = {"type": "object"}


def send(message: Message) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
    sys.stdout.flush()


def text(words: str) -> Message:
    return {"content": [{"type": "text", "text": words}]}


def requests() -> Any:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            yield message
        else:
            seen.append(message["method"])


seen: list[str] = []


def answer(request: Message, result: Message) -> None:
    send({"id": request["id"], "result": result})


def refuse(request: Message, code: int = -32601, **data: object) -> None:
    send({"id": request["id"], "error": {"code": code, "message": "No", "data": data}})


def tools(*names: str) -> Message:
    return {"tools": [{"name": name, "inputSchema": SCHEMA} for name in names]}


def legacy(probe: str) -> None:
    """A server with a handshake; `seen` gives the methods that came, `change` adds a tool."""
    names = ["seen", "change"]
    for request in requests():
        method = request["method"]
        seen.append(method)
        if method == "server/discover":
            if probe == "moans":
                sys.stdout.write("panic: unknown method")
                sys.stdout.flush()
            if probe in {"exits", "moans"}:
                sys.exit(3)
            if probe == "refuses":
                refuse(request)
        elif method == "initialize":
            offered = request["params"]["protocolVersion"]
            capabilities = {"tools": {"listChanged": True}}
            answer(request, {"protocolVersion": offered, "capabilities": capabilities, "serverInfo": {"name": probe}})
        elif method == "tools/list":
            answer(request, tools(*names))
        elif method == "tools/call" and request["params"]["name"] == "change":
            names.append(f"tool{len(names)}")
            send({"method": "notifications/tools/list_changed"})
            answer(request, text(" ".join(names)))
        elif method == "tools/call":
            answer(request, text(" ".join(seen)))
        else:
            refuse(request)


def modern() -> None:
    """A server without a handshake; `ask` wants an answer first, `change` adds a tool and tells who listens."""
    names = ["meta", "ask", "change", "seen"]
    listening: list[object] = []
    for request in requests():
        method, params = request["method"], request.get("params", {})
        seen.append(method)
        meta = params.get("_meta", {})
        if meta.get(f"{PREFIX}protocolVersion") != "2026-07-28":
            refuse(request, -32022, supported=["2026-07-28"], requested="?")
        elif method == "server/discover":
            capabilities = {"tools": {"listChanged": True}}
            answer(
                request, {"supportedVersions": ["2026-07-28"], "capabilities": capabilities, "instructions": "Read."}
            )
        elif method == "subscriptions/listen":
            listening.append(request["id"])
            notify(request["id"], "notifications/subscriptions/acknowledged", notifications=params["notifications"])
        elif method == "tools/list":
            answer(request, tools(*names) | {"resultType": "complete", "ttlMs": 0})
        elif method != "tools/call":
            refuse(request)
        else:
            modern_call(request, names, listening)


def modern_call(request: Message, names: list[str], listening: list[object]) -> None:
    params = request["params"]
    if params["name"] == "meta":
        answer(request, text(json.dumps(params["_meta"], sort_keys=True)))
    elif params["name"] == "seen":
        answer(request, text(" ".join(seen)))
    elif params["name"] == "change":
        names.append(f"tool{len(names)}")
        for number in listening:
            notify(number, "notifications/tools/list_changed")
        answer(request, text(" ".join(names)))
    elif params["name"] != "ask":
        answer(request, text("."))
    elif "inputResponses" in params:
        answer(request, text(json.dumps([params["inputResponses"], params["requestState"]])))
    else:
        asked = {"who": {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": SCHEMA}}}
        answer(request, {"resultType": "input_required", "inputRequests": asked, "requestState": "s1"})


def notify(number: object, method: str, **params: object) -> None:
    send({"method": method, "params": params | {"_meta": {f"{PREFIX}subscriptionId": number}}})


if __name__ == "__main__":
    if sys.argv[1] == "modern":
        modern()
    else:
        legacy(sys.argv[1])
