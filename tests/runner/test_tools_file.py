"""The file of an agent's tools: as the daemon showed them."""

import json
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.runner.running import finish

NAMED: Final = Path(__file__).parents[1] / "servers" / "named.py"
CONFIG: Final = """
[tools.echo]
type = "string -> string"
inline = "id"
description = "Give the text back."
[tools."text.trim"]
type = "string -> string"
inline = "id"
title = "Trim"
[agents.default]
tools = ["echo", "text.trim"]
jobs = false
"""
SCHEMA: Final = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}


def run(directory: Path, script: str, *words: str) -> bytes:
    """What an agent says that is a script."""
    (directory / "c.toml").write_text(CONFIG)
    ended = finish(directory, "--config", "c.toml", *words, "--", "sh", "-c", script)
    assert (ended.returncode, ended.stderr) == (0, b"")
    return ended.stdout


def listed(directory: Path, *words: str) -> list[dict[str, Any]]:
    """What stands in an agent's file."""
    tools = json.loads(run(directory, 'cat "$TOOLDISPATCHD_TOOLS"', *words))
    assert isinstance(tools, list)
    return tools


def test_without_a_form_it_is_the_plain_one(tmp_path: Path) -> None:
    assert listed(tmp_path) == [
        {"name": "echo", "description": "Give the text back.", "input_schema": SCHEMA},
        {"name": "text.trim", "title": "Trim", "description": "", "input_schema": SCHEMA},
    ]


@pytest.mark.parametrize(
    ("form", "first"),
    [
        ("anthropic", {"name": "echo", "description": "Give the text back.", "input_schema": SCHEMA}),
        (
            "openai",
            {
                "type": "function",
                "function": {
                    "name": "echo",
                    "description": "Give the text back.",
                    "parameters": SCHEMA,
                    "strict": True,
                },
            },
        ),
        ("mcp", {"name": "echo", "description": "Give the text back.", "inputSchema": SCHEMA}),
    ],
)
def test_the_file_has_the_tools_in_the_form_that_run_was_asked_for(
    tmp_path: Path, form: str, first: dict[str, object]
) -> None:
    tools = listed(tmp_path, "--schemas", form)
    assert (tools[0], len(tools)) == (first, 2)


def test_the_tools_of_servers_stand_in_a_file_of_their_own(tmp_path: Path) -> None:
    with_server = f"""
mcp = ["served"]
[mcp.served]
command = "{sys.executable}"
args = ["{NAMED}", "Served", "look"]
"""
    (tmp_path / "c.toml").write_text(CONFIG + with_server)
    show = """printf '[%s,%s]' "$(cat "$TOOLDISPATCHD_TOOLS")" "$(cat "$PLUMB_MCP_TOOLS")" """
    ended = finish(tmp_path, "--config", "c.toml", "--", "sh", "-c", show)
    tools, of_servers = json.loads(ended.stdout)
    assert [tool["name"] for tool in tools] == ["echo", "text.trim", "served:look"]
    assert of_servers == tools[2:]


def test_the_file_of_servers_tools_is_there_in_the_plain_form_alone(tmp_path: Path) -> None:
    assert run(tmp_path, 'echo "${PLUMB_MCP_TOOLS:-none}"', "--schemas", "anthropic") == b"none\n"


def test_a_name_in_the_file_is_one_to_call(tmp_path: Path) -> None:
    ask = """echo '{"id":"1","name":"text_trim","input":"x"}' >&4; read -r answer <&5; echo "$answer" """
    assert run(tmp_path, ask, "--schemas", "google") == b'{"id":"1","content":"\\"x\\"","is_error":false}\n'


def test_a_form_that_there_is_not_is_a_mistake_of_usage(tmp_path: Path) -> None:
    ended = finish(tmp_path, "--schemas", "cobol", "--", "true")
    assert (ended.returncode, b"invalid choice: 'cobol'" in ended.stderr) == (2, True)
