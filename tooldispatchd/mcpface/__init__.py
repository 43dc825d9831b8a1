"""The daemon as an MCP server: a wing that turns MCP into the daemon's own lines. `face.Face` is its pure machine."""
