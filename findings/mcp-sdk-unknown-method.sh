#!/usr/bin/env bash
# mcp (the Python SDK of MCP) 1.30.0 answers a method that it does not know with -32602, "Invalid request parameters", where
# JSON-RPC has -32601 for that; 2.3.0 answers -32601. A client that probes for 2026-07-28 with `server/discover` and takes
# -32601 alone for "an older server" gives up on every server that was written with the SDK's first major version.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cat >"$dir/one.py" <<'PY'
from mcp.server.fastmcp import FastMCP

FastMCP("s").run()
PY
cat >"$dir/two.py" <<'PY'
from mcp.server.mcpserver import MCPServer

MCPServer("s").run()
PY
cat >"$dir/ask.py" <<'PY'
import json
import subprocess
import sys


def ask(process: subprocess.Popen, id: int, method: str, params: dict) -> dict:
    process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


who = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
with subprocess.Popen(sys.argv[1:], stdin=-1, stdout=-1, stderr=subprocess.DEVNULL) as process:
    ask(process, 1, "initialize", who)
    process.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
    error = ask(process, 2, "no/such/method", {})["error"]
    print(error["code"], error["message"])
    process.stdin.close()
PY
for pair in 1.30.0:one 2.3.0:two; do
    python3 -m venv --clear "$dir/venv"
    "$dir/venv/bin/pip" install --quiet "mcp==${pair%:*}"
    echo "${pair%:*} $("$dir/venv/bin/python" "$dir/ask.py" "$dir/venv/bin/python" "$dir/${pair#*:}.py")"
done >"$dir/seen"
diff - "$dir/seen" <<'OUT'
1.30.0 -32602 Invalid request parameters
2.3.0 -32601 Method not found
OUT
echo "as found: -32602 by the first major version, -32601 by the second"
