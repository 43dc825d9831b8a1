#!/usr/bin/env bash
# Structured content of MCP 2025-06-18 is an object, so FastMCP 2.14.7, 4.2.3 and mcp (the Python SDK of MCP) 1.30.0, 2.3.0 send a
# plain value as `{"result": value}`. FastMCP marks that by `x-fastmcp-wrap-result` in the output schema, version 4 also by `_meta`
# of the result; the SDK marks nothing. The text differs as well: the SDK writes a list as one text block per element, so that
# `["a"]` is the text `a`; an Enum is `"red"` with quotes in all but FastMCP 4, and the SDK gives it no output schema at all.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cat >"$dir/server.py" <<'PY'
import sys
from enum import Enum
from importlib import import_module

module, name = sys.argv[1].split(":")
server = getattr(import_module(module), name)("s")


class Color(Enum):
    RED = "red"


@server.tool()
def text() -> str:
    return "red"


@server.tool()
def words() -> list[str]:
    return ["a", "b"]


@server.tool()
def word() -> list[str]:
    return ["a"]


@server.tool()
def color() -> Color:
    return Color.RED


server.run()
PY
cat >"$dir/ask.py" <<'PY'
import json
import subprocess
import sys


def ask(process: subprocess.Popen, id: int, method: str, params: dict) -> dict:
    process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())["result"]


who = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
with subprocess.Popen(sys.argv[1:], stdin=-1, stdout=-1, stderr=subprocess.DEVNULL) as process:
    ask(process, 1, "initialize", who)
    process.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
    for tool in ask(process, 2, "tools/list", {})["tools"]:
        result = ask(process, 3, "tools/call", {"name": tool["name"], "arguments": {}})
        schema = tool.get("outputSchema")
        marks = "-" if schema is None else "schema" if schema.get("x-fastmcp-wrap-result") else "none"
        marks += "+meta" if result.get("_meta") == {"fastmcp": {"wrap_result": True}} else ""
        texts = " | ".join(block["text"] for block in result["content"])
        print(f"  {tool['name']}: {json.dumps(result.get('structuredContent'))} marks {marks}, text {texts}")
    process.stdin.close()
PY
for each in mcp==1.30.0/mcp.server.fastmcp:FastMCP mcp==2.3.0/mcp.server.mcpserver:MCPServer \
    fastmcp==2.14.7/fastmcp:FastMCP fastmcp==4.2.3/fastmcp:FastMCP; do
    python3 -m venv --clear "$dir/venv"
    "$dir/venv/bin/pip" install --quiet "${each%/*}"
    echo "${each%/*}"
    timeout 120 "$dir/venv/bin/python" "$dir/ask.py" "$dir/venv/bin/python" "$dir/server.py" "${each#*/}"
done >"$dir/seen"
diff - "$dir/seen" <<'OUT'
mcp==1.30.0
  text: {"result": "red"} marks none, text red
  words: {"result": ["a", "b"]} marks none, text a | b
  word: {"result": ["a"]} marks none, text a
  color: null marks -, text "red"
mcp==2.3.0
  text: {"result": "red"} marks none, text red
  words: {"result": ["a", "b"]} marks none, text a | b
  word: {"result": ["a"]} marks none, text a
  color: null marks -, text "red"
fastmcp==2.14.7
  text: {"result": "red"} marks schema, text red
  words: {"result": ["a", "b"]} marks schema, text ["a","b"]
  word: {"result": ["a"]} marks schema, text ["a"]
  color: {"result": "red"} marks schema, text "red"
fastmcp==4.2.3
  text: {"result": "red"} marks schema+meta, text red
  words: {"result": ["a", "b"]} marks schema+meta, text ["a","b"]
  word: {"result": ["a"]} marks schema+meta, text ["a"]
  color: {"result": "red"} marks schema+meta, text red
OUT
echo "as found: FastMCP marks what it wraps, the SDK does not, and the texts of lists and Enums differ"
