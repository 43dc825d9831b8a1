"""MCP over HTTP: a wing, reached through `door`.

    door ─▶ streamable ─┬─▶ posting ──────▶ http.wire
       └──▶ pair ───────┘
                  └──▶ serverstream ─▶ http.eventstream

It turns messages into requests and responses into messages; how a request gets to a server is `tooldispatchd.http`'s.
"""
