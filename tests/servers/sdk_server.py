"""An MCP server written with the official SDK: a tool with an output schema, one without, one that fails, one that
tells its progress."""

from mcp.server.mcpserver import Context, MCPServer

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


@server.tool(structured_output=False)
async def count(steps: int, context: Context) -> str:
    """Count, and tell how far it is."""
    for step in range(steps):
        await context.report_progress(step + 1, steps, f"step {step + 1}")
    return "counted"


if __name__ == "__main__":
    server.run()
