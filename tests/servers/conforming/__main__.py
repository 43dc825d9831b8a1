"""An MCP server over stdio that offers what the official conformance suite looks for, in both eras of the protocol.

Each request has a thread of its own.
"""

import json
import sys
import threading
from collections.abc import Callable
from typing import Final

from tests.servers.conforming import jobs, resources, skills  # noqa: F401  # its tools are offered by being imported
from tests.servers.conforming.channel import (
    META,
    Message,
    NeedsInputError,
    RefusedError,
    Request,
    changes,
    listening,
    send,
    waiting,
)
from tests.servers.conforming.tools import call, tools

STATELESS: Final = "2026-07-28"
HANDSHAKES: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
SERVER: Final = {"name": "conforming", "version": "1.0.0"}
CAPABILITIES: Final = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
}


def initialize(request: Request) -> Message:
    wanted = request.params["protocolVersion"]
    agreed = wanted if wanted in HANDSHAKES else HANDSHAKES[-1]
    return {"protocolVersion": agreed, "capabilities": CAPABILITIES, "serverInfo": SERVER}


def discover(request: Request) -> Message:
    extensions = {META + "skills": {"directoryRead": True}}
    return {"supportedVersions": [STATELESS], "capabilities": CAPABILITIES | {"extensions": extensions}}


def listed_tools(request: Request) -> Message:
    # The names stay: an order that changes with each list would be a finding of the suite.
    counted = tools["test_trigger_tool_change"] | {"description": f"Change this; done {changes['tools']} times."}
    return {"tools": list((tools | {counted["name"]: counted}).values())}


def unknown(request: Request) -> Message:
    raise RefusedError(-32601, f"no such method: {request.method}")


def nothing(request: Request) -> Message:
    return {}


ALWAYS: Final[dict[str, Callable[[Request], Message]]] = {
    "tools/list": listed_tools,
    "tools/call": call,
    "resources/list": resources.resources,
    "resources/templates/list": resources.templates,
    "resources/read": resources.read,
    "prompts/list": resources.prompts,
    "prompts/get": resources.prompt,
    "completion/complete": resources.complete,
}
WITH_HANDSHAKE: Final = ALWAYS | {
    "initialize": initialize,
    "ping": nothing,
    "logging/setLevel": nothing,
    "resources/subscribe": resources.subscribe,
    "resources/unsubscribe": resources.unsubscribe,
}
OF_SKILLS: Final[dict[str, Callable[[Request], Message]]] = {
    "skills/list": skills.skills,
    "skills/get": skills.skill,
    "resources/directory/read": skills.directory,
}
WITHOUT: Final = ALWAYS | OF_SKILLS | {"server/discover": discover}
LISTS: Final = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")
CACHED: Final = ("server/discover", "resources/read", *LISTS, *OF_SKILLS)


def answer(request: Request) -> None:
    methods = WITHOUT if request.is_stateless else WITH_HANDSHAKE
    try:
        result = methods.get(request.method, unknown)(request)
    except RefusedError as error:
        send(id=request.id, error=error.error)
        return
    except NeedsInputError as need:
        result = need.result
    if request.is_stateless:
        hints = {"ttlMs": 0, "cacheScope": "private"} if request.method in CACHED else {}
        result = {"resultType": "complete", **hints, **result, "_meta": {META + "serverInfo": SERVER}}
    send(id=request.id, result=result)


def listen(request: Request) -> None:
    """Stays open until it is cancelled."""
    wanted = request.params.get("notifications") or {}
    listening[request.id] = list(wanted)
    told = {"notifications": wanted, "_meta": {META + "subscriptionId": str(request.id)}}
    send(method="notifications/subscriptions/acknowledged", params=told)


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "method" not in message:
            waiting.pop(message["id"]).put(message)
        elif message["method"] == "notifications/cancelled":
            listening.pop(message["params"]["requestId"], None)
        elif "id" in message:
            request = Request(message)
            if request.is_stateless and request.method == "subscriptions/listen":
                listen(request)
            else:
                threading.Thread(target=answer, args=(request,), daemon=True).start()


if __name__ == "__main__":
    main()
