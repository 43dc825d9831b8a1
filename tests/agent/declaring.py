"""Servers written where they are used, for the tests of tools that are declared on them."""

import json
import os
import sys
from pathlib import Path
from typing import Final

from tests.daemon.spawned import MISBEHAVING, Message

NAMED: Final = MISBEHAVING.with_name("named.py")


def command(program: Path, *words: str, **keys: object) -> str:
    """A server's table, written in place."""
    table = {"command": sys.executable, "args": ["-I", "-S", str(program), *words], **keys}
    return "{ " + ", ".join(f"{key} = {json.dumps(value)}" for key, value in table.items()) + " }"


def late(program: Path, *words: str) -> str:
    """The same, of a server that takes its time before it says anything."""
    words = ("-c", 'sleep 0.3; exec "$@"', "sh", sys.executable, "-I", "-S", str(program), *words)
    return f'{{ command = "sh", args = {json.dumps(words)} }}'


def agent_process(name: str, *servers: str) -> str:
    """An agent process, and so a profile, which is offered these servers and which this user may open."""
    return "\n".join(
        [
            f"[processes.{name}]",
            'kind = "agent"',
            'type = "!string -> !string"',
            'command = ["true"]',
            f"mcp = [{', '.join(servers)}]",
            f"uid = {os.geteuid()}",
        ]
    )


def code_of(answer: Message) -> str:
    """The code of an answer that is a fault."""
    assert answer["is_error"]
    assert answer["fault"]
    return str(json.loads(answer["content"])["error"])


def names_of(ready: Message) -> list[str]:
    assert ready["__port"] == "ready", ready
    return [tool["name"] for tool in ready["tools"] if not tool["name"].startswith("job_")]
