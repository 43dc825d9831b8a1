#!/usr/bin/env bash
# mcp (the Python SDK of MCP) 2.3.0, one server over Streamable HTTP: a client that closes the response of a call cancels the tool
# in 2026-07-28, and in 2025-11-25 the tool runs to its end. Both are as the revisions say; the server is the same process, and
# only the request's own revision decides. So whoever stops waiting has to send `notifications/cancelled` in the older one.
set -euo pipefail
dir=$(mktemp -d)
trap 'kill "$server" 2>/dev/null || true; rm -rf "$dir"' EXIT
server=""
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet mcp==2.3.0
cat >"$dir/server.py" <<'PY'
import socket
import sys
from pathlib import Path

import anyio
import uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("s")


@server.tool(structured_output=False)
async def linger(notes: str) -> str:
    directory = Path(notes)
    (directory / "began").touch()
    try:
        await anyio.sleep(3)
    except anyio.get_cancelled_exc_class():
        (directory / "cancelled").touch()
        raise
    (directory / "done").touch()
    return "done"


place = socket.create_server(("127.0.0.1", 0))
print(place.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="error")).run([place])
PY
cat >"$dir/client.py" <<'PY'
import http.client
import json
import sys
import tempfile
import time
from pathlib import Path

port = int(sys.argv[1])
info, accept = {"name": "c", "version": "1"}, "application/json, text/event-stream"


def post(message: dict, **headers: str) -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    body = json.dumps({"jsonrpc": "2.0", **message})
    connection.request("POST", "/mcp", body, {"Content-Type": "application/json", "Accept": accept, **headers})
    return connection


def call(revision: str, **headers: str) -> str:
    notes = Path(tempfile.mkdtemp(dir=sys.argv[2]))
    prefix = "io.modelcontextprotocol/"
    meta = {f"{prefix}protocolVersion": revision, f"{prefix}clientCapabilities": {}, f"{prefix}clientInfo": info}
    params = {"name": "linger", "arguments": {"notes": str(notes)}, **({"_meta": meta} if revision > "2026" else {})}
    message = {"id": 2, "method": "tools/call", "params": params}
    connection = post(message, **{"MCP-Protocol-Version": revision}, **headers)
    while not (notes / "began").exists():
        time.sleep(0.02)
    connection.close()
    while not (found := [each for each in ("cancelled", "done") if (notes / each).exists()]):
        time.sleep(0.02)
    return found[0]


print("2026-07-28", call("2026-07-28", **{"Mcp-Method": "tools/call", "Mcp-Name": "linger"}))
who = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
first = post({"id": 1, "method": "initialize", "params": who}).getresponse()
session = {"Mcp-Session-Id": first.getheader("Mcp-Session-Id")}
post({"method": "notifications/initialized"}, **session).getresponse()
print("2025-11-25", call("2025-11-25", **session))
PY
"$dir/venv/bin/python" "$dir/server.py" >"$dir/port" 2>"$dir/log" &
server=$!
until [ -s "$dir/port" ]; do kill -0 "$server"; sleep 0.1; done
timeout 60 "$dir/venv/bin/python" "$dir/client.py" "$(cat "$dir/port")" "$dir" >"$dir/seen"
diff - "$dir/seen" <<'OUT'
2026-07-28 cancelled
2025-11-25 done
OUT
echo "as found: the closed response cancels in 2026-07-28 alone"
