"""The daemon as an MCP server: a wing on the client's side of the wire."""
