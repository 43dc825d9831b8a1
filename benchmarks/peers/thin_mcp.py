"""A stdio MCP server that does next to nothing, so that what is measured is its client.

    thin_mcp.py

It answers all requests of one read in one write. Tools: `echo` gives its `text` back; `blob` gives that many bytes.
"""

import os

import msgspec

TOOLS = [
    {
        "name": "echo",
        "description": "Give the text back.",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    },
    {
        "name": "blob",
        "description": "Give a text of so many bytes.",
        "inputSchema": {"type": "object", "properties": {"bytes": {"type": "integer"}}, "required": ["bytes"]},
    },
]


class Arguments(msgspec.Struct, frozen=True):
    """The arguments of both tools."""

    text: str = ""
    bytes: int = 0


class Params(msgspec.Struct, frozen=True):
    """Of `tools/call` and of `initialize`."""

    name: str = ""
    arguments: Arguments = Arguments()
    protocolVersion: str = "2025-11-25"  # noqa: N815 (the field is spelt so on the wire)


class Message(msgspec.Struct):
    """A request, or a notification where it has no id."""

    method: str = ""
    id: int | str | None = None
    params: Params = Params()


decode = msgspec.json.Decoder(Message).decode
encode = msgspec.json.Encoder().encode


def result(message: Message) -> object:
    params = message.params
    match message.method:
        case "tools/call":
            text = params.arguments.text if params.name == "echo" else "x" * params.arguments.bytes
            return {"content": [{"type": "text", "text": text}], "isError": False}
        case "initialize":
            return {
                "protocolVersion": params.protocolVersion,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "thin", "version": "1"},
            }
        case "tools/list":
            return {"tools": TOOLS}
        case "ping":
            return {}
    return None


def answer(line: bytes) -> bytes:
    """The response as a line, or nothing for a notification."""
    message = decode(line)
    if message.id is None:
        return b""
    found = result(message)
    if found is None:
        fault = {"code": -32601, "message": f"no such method: {message.method}"}
        return encode({"jsonrpc": "2.0", "id": message.id, "error": fault}) + b"\n"
    return encode({"jsonrpc": "2.0", "id": message.id, "result": found}) + b"\n"


def write(answers: bytes) -> None:
    left = memoryview(answers)
    while left:
        left = left[os.write(1, left) :]


def main() -> None:
    tail = b""
    while chunk := os.read(0, 65536):
        *lines, tail = (tail + chunk).split(b"\n")
        write(b"".join(answer(line) for line in lines if line))


if __name__ == "__main__":
    main()
