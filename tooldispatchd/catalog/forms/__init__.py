"""The forms in which tools are shown: one for each model provider, MCP's, and the daemon's own."""
