"""MCP over HTTP: a wing, reached through `door`.

    door ─▶ streamable ─▶ exchange ─┐                        network ─▶ TCP, TLS, proxies
       └──▶ pair ───────────────────┴─▶ posting ─▶ wire ─┬─▶ http1 ───▶ h11
                                                         └─▶ reply, eventstream

`wire` sends requests and knows where they may go; it knows nothing of MCP, and `oauth` stands on it too. All above it
turns messages into requests and responses into messages.
"""
