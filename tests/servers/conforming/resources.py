"""The resources, prompts and completions that the suite asks for."""

import json
from typing import Final

from tests.servers.conforming.channel import Message, RefusedError, Request, changes
from tests.servers.conforming.media import png
from tests.servers.conforming.skills import FILES, LISTED
from tests.servers.conforming.tools import elicitation, image, text

subscribed: set[str] = set()

RESOURCES: Final[dict[str, Message]] = {
    "test://static-text": {"mimeType": "text/plain", "text": "This is the content of the static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": png()},
    "test://watched-resource": {"mimeType": "text/plain", "text": "Watched."},
}
TEMPLATE: Final = ("test://template/", "/data")


def resources(request: Request) -> Message:
    listed = [
        {"uri": uri, "name": uri.removeprefix("test://"), "description": "To be read.", "mimeType": each["mimeType"]}
        for uri, each in RESOURCES.items()
    ]
    return {"resources": [*listed, *LISTED]}


def templates(request: Request) -> Message:
    template = {"uriTemplate": "{id}".join(TEMPLATE), "name": "template", "mimeType": "application/json"}
    return {"resourceTemplates": [template | {"description": "Of each id."}]}


def read(request: Request) -> Message:
    uri = request.params["uri"]
    found = RESOURCES.get(uri) or FILES.get(uri)
    if found is not None:
        return {"contents": [{"uri": uri, **found}]}
    head, tail = TEMPLATE
    if not (uri.startswith(head) and uri.endswith(tail)):
        code = -32602 if request.is_stateless else -32002
        raise RefusedError(code, "Resource not found", {"uri": uri})
    id_ = uri[len(head) : -len(tail)]
    told = json.dumps({"id": id_, "templateTest": True, "data": f"Data for ID: {id_}"})
    return {"contents": [{"uri": uri, "mimeType": "application/json", "text": told}]}


def subscribe(request: Request) -> Message:
    subscribed.add(request.params["uri"])
    return {}


def unsubscribe(request: Request) -> Message:
    subscribed.discard(request.params["uri"])
    return {}


PROMPTS: Final[dict[str, list[str]]] = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
    "test_prompt_with_image": [],
    "test_input_required_result_prompt": [],
}


def prompts(request: Request) -> Message:
    listed = [
        {
            "name": name,
            "description": f"To be had; changed {changes['prompts']} times.",
            "arguments": [{"name": each, "description": "Stands in it.", "required": True} for each in takes],
        }
        for name, takes in PROMPTS.items()
    ]
    return {"prompts": listed}


def prompt(request: Request) -> Message:
    arguments = request.params.get("arguments") or {}
    match request.params["name"]:
        case "test_simple_prompt":
            said = text("This is a simple prompt for testing.")
        case "test_prompt_with_arguments":
            said = text(f"Prompt with arguments: arg1='{arguments['arg1']}', arg2='{arguments['arg2']}'")
        case "test_prompt_with_embedded_resource":
            resource = {"uri": arguments["resourceUri"], "mimeType": "text/plain"}
            embedded = {"type": "resource", "resource": resource | {"text": "Embedded resource content for testing."}}
            said = [embedded, *text("Please process the embedded resource above.")]
        case "test_prompt_with_image":
            said = [image(), *text("Please analyze the image above.")]
        case "test_input_required_result_prompt":
            question = elicitation("What context should the prompt use?", {"context": {"type": "string"}}, ["context"])
            said = text(json.dumps(request.ask(user_context=question)))
        case name:
            raise RefusedError(-32602, f"Unknown prompt: {name}")
    return {"messages": [{"role": "user", "content": each} for each in said]}


def complete(request: Request) -> Message:
    begun = request.params["argument"]["value"]
    values = [word for word in ("paris", "park", "party") if word.startswith(begun)]
    return {"completion": {"values": values, "total": len(values), "hasMore": False}}
