#!/usr/bin/env python3
"""A coding agent: a model's API has a daemon's tools until it has done its task; what they say goes to stdout.

    tooldispatchd init --coding-agent agent.toml
    tooldispatchd serve --config agent.toml --listen unix:./dispatch.sock

    export TOOLDISPATCHD_SOCKET=./dispatch.sock AGENT_KEY=… AGENT_MODEL=…
    python3 examples/coding_agent.py "Make the tests pass."

The model's API and its key are those of agent.py, which stands beside this file: `AGENT_URL`, `AGENT_API` and the
others mean the same here. `tooldispatchd run --config agent.toml -- python3 …` brings a daemon of its own; the session
is open then before the agent starts, and the tools' hints for the system prompt are not told again.
"""
# ruff: noqa: T201  # the transcript

import json
import os
import sys
from typing import Any

# The type checker knows it as examples.agent, a program started from anywhere as agent.
from agent import API, anthropic, openai  # type: ignore[import-not-found]

from tooldispatchd.client import Client, ClientError, FaultError, connect

PROMPT = """\
You work on a project with the tools that you are given; relative paths start in its directory.
Look before you change something, run the tests after it, and end with a short account of what you have done."""
# A task that needs more has gone astray, and every turn sends all those before it.
TURNS = 50
# A file that is written whole must fit into one answer. OpenAI's has no bound unless one is given.
BOUNDS = {"max_tokens": 16_000} if API == "anthropic" else {}
# The model is given results whole; who reads along wants their beginning and their end.
HEAD, TAIL = 8, 4


class SpokenTools:
    """What a turn in agent.py takes as its `tools`: each call is shown with its result, after what the model said."""

    def __init__(self, client: Client, messages: list[dict[str, Any]]) -> None:
        self._client = client
        self._messages = messages
        self.instructions = ""
        if "TOOLDISPATCHD_CHANNEL" in os.environ:
            self.shown = client.tools(API)
        else:
            ready = client.hello(schemas=API)
            self.shown, self.instructions = ready.tools, ready.instructions or ""

    def call(self, calls: list[tuple[str, str, Any]]) -> dict[str, tuple[str, bool]]:
        """The answers to calls of one turn: text and whether it is an error, by the calls' ids."""
        show(words_of(self._messages[-1]))
        # One after the other: models ask for an edit and for the tests in one turn, and mean this order.
        return {call_id: self._answer(name, value) for call_id, name, value in calls}

    def _answer(self, name: str, value: object) -> tuple[str, bool]:
        show(f"> {name} {json.dumps(value, ensure_ascii=False)}")
        try:
            answer = self._client.call(name, value, content="text")
        except FaultError as fault:
            text, is_error = fault.answer.content if fault.answer else str(fault), True
        else:
            text, is_error = answer.content, answer.is_error
        show(excerpt(text, "  ! " if is_error else "  | "))
        return text, is_error


def words_of(message: dict[str, Any]) -> str:
    """What a model said beside its calls, in either API's form."""
    content = message["content"] or ""
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content if part["type"] == "text")


def excerpt(text: str, margin: str) -> str:
    lines = text.splitlines()
    left_out = len(lines) - HEAD - TAIL
    if left_out > 1:
        lines = [*lines[:HEAD], f"… {left_out} lines …", *lines[-TAIL:]]
    return "\n".join(margin + line for line in lines)


def show(text: str) -> None:
    if text:
        print(text, flush=True)


def work(task: str) -> None:
    """Show the model's work on a task, to its last word; `TURNS` bounds it."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": task}]
    turn = openai if API == "openai" else anthropic
    with connect() as client:
        tools = SpokenTools(client, messages)
        body = {"model": os.environ.get("AGENT_MODEL", ""), **BOUNDS}
        for _ in range(TURNS):
            last_words = turn(body, f"{PROMPT}\n\n{tools.instructions}", messages, tools)
            if last_words is not None:
                show(last_words)
                return
    sys.exit(f"no end after {TURNS} turns")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} TASK")
    try:
        work(sys.argv[1])
    except (ClientError, FaultError) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        # The channel ends with this process, and the call that runs with the channel.
        sys.exit(130)
