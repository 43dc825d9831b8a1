"""OAuth as far as every client of it needs: tokens on disk, requests to a token endpoint, one flow at a time.

    authorizer ─┬─▶ flows       one at a time, and to its end
                ├─▶ endpoint    a request for a token, and its answer
                └─▶ tokens      on disk, sealed where there is a key

`authorizer` is whole for an API whose token endpoint the configuration names. How MCP servers lead to theirs, and how
a person logs in, is `providers.mcp.oauth`'s.
"""
