"""Tools behind those that the suite's scenarios of tasks call: a configuration makes jobs of most of them.

What becomes a job at once ends in `_now` here.
"""

import time

from tests.servers.conforming.channel import Message, RefusedError, Request
from tests.servers.conforming.tools import NAME, OK, elicitation, text, tool

# A call becomes a task after 4 s.
LONG_S = 5


@tool(name={"type": "string"})
def greet(request: Request, arguments: Message) -> list[Message]:
    """Greet somebody."""
    return text(f"Hello, {arguments['name']}!")


@tool(seconds={"type": "number"}, label={"type": "string"})
def slow_compute_now(request: Request, arguments: Message) -> list[Message]:
    """Take so many seconds."""
    time.sleep(arguments["seconds"])
    return text(f"{arguments['label']} is computed.")


@tool()
def failing_job_now(request: Request, arguments: Message) -> list[Message]:
    """Fail after a second."""
    time.sleep(1)
    raise ValueError("It failed, as it should.")


@tool()
def protocol_error_job_now(request: Request, arguments: Message) -> list[Message]:
    """Answer with an error of JSON-RPC."""
    raise RefusedError(-32603, "It broke, as it should.")


@tool(filename={"type": "string"})
def confirm_delete_now(request: Request, arguments: Message) -> list[Message]:
    """Ask before a file is deleted."""
    answer = request.ask(confirm=elicitation(f"Delete {arguments['filename']}?", {"confirm": OK["ok"]}))["confirm"]
    return text(f"It was answered: {answer['action']}.")


@tool()
def multi_input_now(request: Request, arguments: Message) -> list[Message]:
    """Ask two things at once."""
    name = elicitation("What is your name?", NAME, ["name"])
    return text(str(sorted(request.ask(name=name, confirm=elicitation("Please confirm", {"confirm": OK["ok"]})))))


@tool()
def test_tool_with_task(request: Request, arguments: Message) -> list[Message]:
    """Ask for a name, and greet it after long."""
    answer = request.ask(user_name=elicitation("What is your name?", NAME, ["name"]))["user_name"]
    time.sleep(LONG_S)
    return text(f"Hello, {answer['content']['name']}!")


@tool()
def ask_late(request: Request, arguments: Message) -> list[Message]:
    """Ask for a name after long."""
    if not request.params.get("inputResponses"):
        time.sleep(LONG_S)
    answer = request.ask(user_name=elicitation("What is your name?", NAME, ["name"]))["user_name"]
    return text(f"Hello, {answer['content']['name']}!")
