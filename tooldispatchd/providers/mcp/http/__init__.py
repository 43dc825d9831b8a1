"""HTTP to one MCP server: what is sent, where it may go, and how answers are read."""
