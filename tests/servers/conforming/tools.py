"""The tools that the suite calls, each under the name by which it looks for it."""

import json
import time
from collections.abc import Callable
from typing import Final

from tests.servers.conforming.channel import Message, RefusedError, Request, list_changed
from tests.servers.conforming.media import png, wav

STEP_S: Final = 0.05
"""Between two notifications of one call; the suite asks for about that."""

Work = Callable[[Request, Message], list[Message]]

tools: dict[str, Message] = {}
works: dict[str, Work] = {}


def tool(schema: Message | None = None, **properties: Message) -> Callable[[Work], Work]:
    """Offer a function by its name; all its properties are required."""

    def offered(work: Work) -> Work:
        takes = schema or {"type": "object", "properties": properties, "required": list(properties)}
        tools[work.__name__] = {"name": work.__name__, "description": work.__doc__, "inputSchema": takes}
        works[work.__name__] = work
        return work

    return offered


def text(words: str) -> list[Message]:
    return [{"type": "text", "text": words}]


def image() -> Message:
    return {"type": "image", "data": png(), "mimeType": "image/png"}


def elicitation(message: str, properties: Message, required: list[str] | None = None) -> Message:
    schema = {"type": "object", "properties": properties, "required": required or []}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def sampling(prompt: str) -> Message:
    messages = [{"role": "user", "content": {"type": "text", "text": prompt}}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": 100}}


ROOTS: Final = {"method": "roots/list", "params": {}}
NAME: Final = {"name": {"type": "string"}}
OK: Final = {"ok": {"type": "boolean"}}


@tool()
def test_simple_text(request: Request, arguments: Message) -> list[Message]:
    """Give a text."""
    return text("This is a simple text response for testing.")


@tool()
def test_image_content(request: Request, arguments: Message) -> list[Message]:
    """Give an image."""
    return [image()]


@tool()
def test_audio_content(request: Request, arguments: Message) -> list[Message]:
    """Give a sound."""
    return [{"type": "audio", "data": wav(), "mimeType": "audio/wav"}]


@tool()
def test_embedded_resource(request: Request, arguments: Message) -> list[Message]:
    """Give a resource."""
    resource = {"uri": "test://embedded-resource", "mimeType": "text/plain"}
    return [{"type": "resource", "resource": resource | {"text": "This is an embedded resource content."}}]


@tool()
def test_multiple_content_types(request: Request, arguments: Message) -> list[Message]:
    """Give a text, an image and a resource."""
    resource = {"uri": "test://mixed-content-resource", "mimeType": "application/json"}
    mixed = {"type": "resource", "resource": resource | {"text": '{"test":"data","value":123}'}}
    return [*text("Multiple content types test:"), image(), mixed]


@tool()
def test_tool_with_logging(request: Request, arguments: Message) -> list[Message]:
    """Log what it does."""
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        request.log(words)
        time.sleep(STEP_S)
    return text("It has been logged.")


@tool()
def test_logging_tool(request: Request, arguments: Message) -> list[Message]:
    """Log once, to whoever asked for it."""
    request.log("logged")
    return text("It has been logged, if that was asked for.")


@tool()
def test_error_handling(request: Request, arguments: Message) -> list[Message]:
    """Fail."""
    raise ValueError("This tool intentionally returns an error for testing")


@tool()
def test_tool_with_progress(request: Request, arguments: Message) -> list[Message]:
    """Tell how far it is."""
    for done in (0, 50, 100):
        request.progress(done, 100)
        time.sleep(STEP_S)
    return text("It is done.")


@tool(prompt={"type": "string"})
def test_sampling(request: Request, arguments: Message) -> list[Message]:
    """Ask the client's model."""
    answer = request.ask(sample=sampling(arguments["prompt"]))["sample"]
    return text(f"LLM response: {answer['content']['text']}")


@tool(message={"type": "string"})
def test_elicitation(request: Request, arguments: Message) -> list[Message]:
    """Ask the user who they are."""
    asked_for = {"username": {"type": "string", "description": "User's response"}, "email": {"type": "string"}}
    answer = request.ask(user=elicitation(arguments["message"], asked_for, ["username", "email"]))["user"]
    return text(f"User response: action={answer['action']}, content={json.dumps(answer.get('content'))}")


@tool()
def test_elicitation_sep1034_defaults(request: Request, arguments: Message) -> list[Message]:
    """Ask for what has a default."""
    asked_for = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return elicited(request, asked_for)


@tool()
def test_elicitation_sep1330_enums(request: Request, arguments: Message) -> list[Message]:
    """Ask for a choice, in all five ways."""
    options = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"{nth} Option"} for n, nth in enumerate(("First", "Second", "Third"), 1)]
    asked_for = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return elicited(request, asked_for)


def elicited(request: Request, asked_for: Message) -> list[Message]:
    answer = request.ask(choice=elicitation("Please choose", asked_for))["choice"]
    return text(f"Elicitation completed: action={answer['action']}, content={json.dumps(answer.get('content'))}")


@tool()
def test_reconnection(request: Request, arguments: Message) -> list[Message]:
    """Take long enough for a client to come back for the answer."""
    time.sleep(0.5)
    return text("Reconnection test completed successfully")


@tool()
def test_missing_capability(request: Request, arguments: Message) -> list[Message]:
    """Ask the client's model, which the client may not have."""
    if not request.client_can("sampling"):
        raise RefusedError(-32021, "it needs sampling", {"requiredCapabilities": {"sampling": {}}})
    return text(json.dumps(request.ask(sample=sampling("Are you there?"))["sample"]))


@tool()
def test_streaming_elicitation(request: Request, arguments: Message) -> list[Message]:
    """Tell how far it is, then ask."""
    request.progress(1, 2)
    return text(json.dumps(request.ask(name=elicitation("What is your name?", NAME, ["name"]))["name"]))


@tool()
def test_trigger_tool_change(request: Request, arguments: Message) -> list[Message]:
    """Change the list of tools."""
    list_changed("tools")
    return text("The tools have changed.")


@tool()
def test_trigger_prompt_change(request: Request, arguments: Message) -> list[Message]:
    """Change the list of prompts."""
    list_changed("prompts")
    return text("The prompts have changed.")


@tool(region={"type": "string", "x-mcp-header": "Region"})
def test_header(request: Request, arguments: Message) -> list[Message]:
    """Give back what came in a header too."""
    return text(arguments["region"])


PHONE: Final = {"required": ["phone"]}
EMAIL: Final = {"required": ["email"]}


@tool(
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [PHONE, EMAIL]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": PHONE,
        "else": EMAIL,
        "additionalProperties": False,
    }
)
def json_schema_2020_12_tool(request: Request, arguments: Message) -> list[Message]:
    """Take what a rich schema allows."""
    return text(json.dumps(arguments))


@tool()
def test_input_required_result_elicitation(request: Request, arguments: Message) -> list[Message]:
    """Ask for a name, and greet it."""
    answer = request.ask(user_name=elicitation("What is your name?", NAME, ["name"]))["user_name"]
    return text(f"Hello, {answer.get('content', {}).get('name', 'stranger')}!")


@tool()
def test_input_required_result_sampling(request: Request, arguments: Message) -> list[Message]:
    """Ask the client's model for a capital."""
    question = sampling("What is the capital of France?")
    return text(request.ask(capital_question=question)["capital_question"]["content"]["text"])


@tool()
def test_input_required_result_list_roots(request: Request, arguments: Message) -> list[Message]:
    """Ask for the roots."""
    return text(json.dumps(request.ask(client_roots=ROOTS)["client_roots"]))


@tool()
def test_input_required_result_request_state(request: Request, arguments: Message) -> list[Message]:
    """Ask for a confirmation."""
    request.ask(confirm=elicitation("Please confirm", OK, ["ok"]))
    return text("state-ok")


@tool()
def test_input_required_result_tampered_state(request: Request, arguments: Message) -> list[Message]:
    """Ask for a confirmation."""
    request.ask(confirm=elicitation("Please confirm", OK, ["ok"]))
    return text("state-ok")


@tool()
def test_input_required_result_multiple_inputs(request: Request, arguments: Message) -> list[Message]:
    """Ask for three things at once."""
    name = elicitation("What is your name?", NAME, ["name"])
    return text(json.dumps(request.ask(user_name=name, greeting=sampling("Generate a greeting"), client_roots=ROOTS)))


@tool()
def test_input_required_result_multi_round(request: Request, arguments: Message) -> list[Message]:
    """Ask twice."""
    name = request.ask(step1=elicitation("Step 1: What is your name?", NAME, ["name"]))
    color = {"color": {"type": "string"}}
    return text(json.dumps(name | request.ask(step2=elicitation("Step 2: Which color do you like?", color, ["color"]))))


@tool()
def test_input_required_result_capabilities(request: Request, arguments: Message) -> list[Message]:
    """Ask whoever the client has: its model, else its user."""
    if request.client_can("sampling"):
        return text(json.dumps(request.ask(sample=sampling("Who is there?"))))
    return text(json.dumps(request.ask(name=elicitation("Who is there?", NAME, ["name"]))))


def call(request: Request) -> Message:
    name = request.params["name"]
    if name not in works:
        raise RefusedError(-32602, f"Unknown tool: {name}")
    try:
        return {"content": works[name](request, request.params.get("arguments") or {})}
    except ValueError as error:
        return {"content": text(str(error)), "isError": True}
