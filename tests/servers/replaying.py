"""An MCP server over stdio that answers each tool with the lines that were recorded for it; the standard library only.

    replaying.py RECORDINGS REVISION

A recording is a block of lines; blocks are parted by an empty one.

    # NAME             what it is called, and so its tool
    @ REVISION …       in which revisions it may be played; without it in every one
    + JSON             further fields of the tool as it is listed
    ! JSON             what an agent is told (`content`, `is_error`, or a fault's `error`) where the SDK reads no result
    < LINE             what the server says, with `@ID@` and `@TOKEN@` where the call's id and progress token stood

In the stateless revision every result says that it is complete unless it says otherwise: the SDK insists on it.
"""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

Recording = dict[str, Any]
MODERN = "2026-07-28"
RESULT = re.compile(r'"result"\s*:\s*\{')


def read(file: Path, revision: str) -> dict[str, Recording]:
    """The recordings that may be played in `revision`, by name."""
    found = {}
    for block in file.read_text(encoding="utf-8").strip().split("\n\n"):
        recording: Recording = {"tool": {}, "told": None, "lines": [], "revisions": [revision]}
        for line in block.splitlines():
            mark, said = line[0], line[2:]
            if mark == "#":
                recording["name"] = said
            elif mark == "@":
                recording["revisions"] = said.split()
            elif mark == "+":
                recording["tool"] = json.loads(said)
            elif mark == "!":
                recording["told"] = json.loads(said)
            elif mark == "<":
                recording["lines"].append(said)
        if revision in recording["revisions"]:
            found[recording["name"]] = recording
    return found


def say(result: object, number: object) -> None:
    os.write(1, json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode() + b"\n")


def greeting(revision: str) -> Recording:
    return {
        "protocolVersion": revision,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "replaying", "version": "1"},
    }


def discovery() -> Recording:
    return {
        "resultType": "complete",
        "supportedVersions": [MODERN],
        "capabilities": {"tools": {}},
        "ttlMs": 0,
        "cacheScope": "public",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "replaying", "version": "1"}},
    }


def listing(recordings: dict[str, Recording], revision: str) -> Recording:
    tools = [{"name": name, "inputSchema": {"type": "object"}} | each["tool"] for name, each in recordings.items()]
    modern = {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "public"}
    return {"tools": tools} | (modern if revision == MODERN else {})


def play(recording: Recording, request: Recording, revision: str) -> None:
    token = request["params"].get("_meta", {}).get("progressToken", 0)
    lines = "".join(line + "\n" for line in recording["lines"])
    if revision == MODERN and '"resultType"' not in lines:
        lines = RESULT.sub(r'\g<0>"resultType":"complete",', lines)
    said = lines.replace("@ID@", json.dumps(request["id"])).replace("@TOKEN@", json.dumps(token)).encode()
    while said:
        said = said[os.write(1, said) :]


def refuse(request: Recording) -> None:
    error = {"code": -32601, "message": "Method not found"}
    os.write(1, json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}).encode() + b"\n")


def main() -> None:
    revision = sys.argv[2]
    recordings = read(Path(sys.argv[1]), revision)
    for line in sys.stdin.buffer:
        request = json.loads(line)
        match request.get("method") if "id" in request else None:
            case "tools/call":
                play(recordings[request["params"]["name"]], request, revision)
            case "tools/list":
                say(listing(recordings, revision), request["id"])
            case "initialize" if revision != MODERN:
                say(greeting(revision), request["id"])
            case "server/discover" if revision == MODERN:
                say(discovery(), request["id"])
            case str():
                refuse(request)


if __name__ == "__main__":
    main()
