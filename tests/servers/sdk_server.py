"""An MCP server written with the official SDK: a tool with an output schema, one without, one that fails."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("sdk-server", instructions="Add and say.")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(structured_output=False)
def say(words: str) -> str:
    """Say it again."""
    return words


@server.tool(structured_output=False)
def fail(why: str) -> str:
    """Fail, for the reason given."""
    raise ValueError(why)


if __name__ == "__main__":
    server.run()
