"""Entries of `tools/list`, as servers write them."""

import msgspec
from msgspec import Raw

from tooldispatchd.providers.mcp.server import Server

SERVER = Server(name="docs", argv=("docs",), max_line_bytes=10_000, max_content_bytes=100)


def listed(name: str, **fields: object) -> Raw:
    return Raw(msgspec.json.encode({"name": name, "inputSchema": {"type": "object"}, **fields}))
