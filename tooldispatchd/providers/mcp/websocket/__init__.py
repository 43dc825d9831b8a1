"""MCP over WebSocket: a wing, reached through `door`; it stands on `http` for the way to a server."""
