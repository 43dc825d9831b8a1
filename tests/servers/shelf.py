"""A stateless MCP server (2026-07-28) over stdio with resources: it tells of changes to who listens, as it should.

`touch` changes `note:day`, `grow` adds a resource; each says which
requests to listen were told. `level` gives the level of log messages that its own call asks for. A prompt needs answers
first, by the keys in its name.
"""

import json
import sys
from typing import Any

Message = dict[str, Any]

PREFIX = "io.modelcontextprotocol/"
CAPABILITIES = {"tools": {}, "resources": {"subscribe": True, "listChanged": True}, "logging": {}}
QUESTIONS = {
    "user_name": {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": {"type": "object"}}},
    "model": {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 10}},
    "places": {"method": "roots/list"},
}
TOOLS = ("touch", "grow", "level")
# What each request to listen asks for, by its id.
listening: dict[object, Message] = {}


def send(**fields: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **fields}), flush=True)


def notify(number: object, method: str, **params: Any) -> None:
    send(method=method, params=params | {"_meta": {f"{PREFIX}subscriptionId": number}})


def touch() -> list[object]:
    told = [number for number, wanted in listening.items() if "note:day" in wanted.get("resourceSubscriptions", ())]
    for number in told:
        notify(number, "notifications/resources/updated", uri="note:day")
    return told


def grow() -> list[object]:
    told = [number for number, wanted in listening.items() if wanted.get("resourcesListChanged")]
    for number in told:
        notify(number, "notifications/resources/list_changed")
    return told


def call(params: Message) -> Message:
    does = {"touch": touch, "grow": grow}.get(params["name"])
    said = params["_meta"].get(f"{PREFIX}logLevel") if does is None else json.dumps(does())
    return {"content": [{"type": "text", "text": said}]}


def read(number: object, params: Message) -> Message:
    if params["uri"] == "note:slow":
        send(method="notifications/progress", params={"progressToken": params["_meta"]["progressToken"], "progress": 1})
    return {"contents": [{"uri": params["uri"], "text": "Monday"}]}


def prompt(params: Message) -> Message:
    """Say what was answered; before that, ask for each thing that the name of the prompt has, by that key."""
    if "inputResponses" in params:
        return {"messages": [{"role": "user", "content": {"type": "text", "text": json.dumps(params, sort_keys=True)}}]}
    asked = {key: QUESTIONS[key] for key in params["name"].split()}
    return {"resultType": "input_required", "inputRequests": asked, "requestState": "s1"}


def serve(message: Message) -> None:
    method, params, number = message["method"], message["params"], message.get("id")
    result: Message | None = None
    if method == "notifications/cancelled":
        listening.pop(params["requestId"], None)
        return
    if method == "server/discover":
        result = {"supportedVersions": ["2026-07-28"], "capabilities": CAPABILITIES}
    elif method == "tools/list":
        alone = {"name": "redraw", "inputSchema": {"type": "object"}, "_meta": {"ui": {"visibility": ["app"]}}}
        result = {"tools": [*({"name": name, "inputSchema": {"type": "object"}} for name in TOOLS), alone]}
    elif method == "tools/call":
        result = call(params)
    elif method == "resources/read":
        result = read(number, params)
    elif method == "prompts/get":
        result = prompt(params)
    elif method == "subscriptions/listen":
        listening[number] = params["notifications"]
        notify(number, "notifications/subscriptions/acknowledged", notifications=params["notifications"])
        return
    if result is None:
        send(id=number, error={"code": -32601, "message": "Method not found"})
    else:
        send(id=number, result={"resultType": "complete", **result})


for line in sys.stdin:
    serve(json.loads(line))
