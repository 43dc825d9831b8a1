"""MCP servers as providers: our own lean client."""
