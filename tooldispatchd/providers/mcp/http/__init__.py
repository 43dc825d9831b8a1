"""MCP over HTTP: a wing, reached through `door`.

    door ─▶ streamable ─┬─▶ posting ─▶ wire ─┬─▶ network ─▶ http1 ─▶ h11      TCP, TLS, proxies
       └──▶ pair ───────┘                    └─▶ reply
                  └──▶ eventstream

`wire` sends requests and knows where they may go; it knows nothing of MCP, and `oauth` stands on it too. All above it
turns messages into requests and responses into messages.
"""
