#!/usr/bin/env bash
# @modelcontextprotocol/conformance 0.2.0-alpha.12, a server of 2026-07-28 that answers by a stream of events: a call that takes
# 12 s fails with "HTTP 200: expected a JSON-RPC result … got no result in response body", with no word of time. Its stateless
# requests end after 10 s, also where `--timeout` says 60 s; the same server passes when the call takes 1 s. The suite needs a
# newer Node than 20 (`fs.globSync`), which its package does not say, so this installs one.
set -euo pipefail
dir=$(mktemp -d)
server=""
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-fund --no-audit @modelcontextprotocol/conformance@0.2.0-alpha.12 node@22.23.3 >/dev/null
cat >server.py <<'PY'
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TEXT = {"type": "text", "text": "This is a simple text response for testing."}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.flush()
        time.sleep(float(sys.argv[1]))
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"resultType": "complete", "content": [TEXT]}}
        try:
            self.wfile.write(b"data: " + json.dumps(answer).encode() + b"\n\n")
        except OSError:
            pass

    def log_message(self, *_: object) -> None:
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
PY
for seconds in 1 12; do
    : >port
    python3 server.py "$seconds" >port &
    server=$!
    until [ -s port ]; do kill -0 "$server"; sleep 0.1; done
    echo "$seconds s"
    timeout 90 node_modules/.bin/node node_modules/@modelcontextprotocol/conformance/dist/index.js server --timeout 60000 \
        --url "http://127.0.0.1:$(cat port)/mcp" --scenario tools-call-simple-text --spec-version 2026-07-28 >told 2>&1 || true
    grep -E '^(Passed:| +Error:)' told
    grep -ciE 'time.?out|timed|abort|10 ?s|10000' told || true
    kill "$server"
    wait "$server" 2>/dev/null || true
    server=""
done >seen
diff - seen <<'OUT'
1 s
Passed: 2/2, 0 failed, 0 warnings
0
12 s
Passed: 1/2, 1 failed, 0 warnings
    Error: Failed: HTTP 200: expected a JSON-RPC result for 'tools/call', got no result in response body
0
OUT
echo "as found: an answer after 12 s is told as a wrong one, with no word of time"
