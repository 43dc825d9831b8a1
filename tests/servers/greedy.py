"""An MCP server over stdio that takes much memory, in the way that its argument names; the standard library only."""

import json
import os
import sys

SEED = os.urandom(8).hex()
PROPERTIES = {f"p{number}_{SEED}": {"type": "string", "maxLength": number} for number in range(60)}
# Fifty tools whose schemas no other run of it has.
DIFFERING = [{"name": f"t{n}", "inputSchema": {"type": "object", "properties": PROPERTIES}} for n in range(50)]
ECHO = [{"name": "echo", "inputSchema": {"type": "object"}}]


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        result: object = {"tools": DIFFERING if sys.argv[1] == "schemas" else ECHO}
        if request["method"] == "initialize":
            information = {"name": "greedy", "version": "1"}
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": information}
        # A call is answered with a line that has no end.
        while request["method"] == "tools/call":
            os.write(1, b"x" * 65_536)
        answer = {"jsonrpc": "2.0", "id": request.get("id")}
        answer |= {"result": result} if request["method"] in {"initialize", "tools/list"} else {"error": UNKNOWN}
        if "id" in request:
            print(json.dumps(answer), flush=True)


UNKNOWN = {"code": -32601, "message": "No"}

if __name__ == "__main__":
    main()
