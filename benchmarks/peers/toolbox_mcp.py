"""The toolbox's functions behind the official SDK's server, over stdio.

python -m benchmarks.peers.toolbox_mcp WORKSPACE
"""

import sys
from pathlib import Path

from mcp.server import MCPServer

from benchmarks.peers.toolbox_calls import direct_functions

server = MCPServer("toolbox")
functions = direct_functions(Path(sys.argv[1]))


@server.tool()
def read(path: str) -> str:
    """Read a file."""
    return "\n".join(functions["read"](path))


@server.tool()
def edit(path: str, old: str, new: str) -> str:
    """Edit a file."""
    return str(functions["edit"](path, old, new))


@server.tool()
def grep(pattern: str, path: str) -> str:
    """Search in files."""
    return str(functions["grep"](pattern, path))


if __name__ == "__main__":
    server.run("stdio")
