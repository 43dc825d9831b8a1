"""OAuth 2.1 for MCP servers behind URLs: a wing that only servers with `auth = "oauth"` need.

    daemon ── accounts ──┐                      ┌── documents   what servers say, as values
    login ── login ──────┴─▶ flow (one token) ──┼── grants      what was granted, kept by http.oauth
                └── redirect   the browser      └── refusals    why there is no token

Two doors, `accounts` for a daemon and `login` for a person, both opened by `agent.accounts` alone. Requests leave on
the server's own `HttpWire`, whose rules of where a server may lead hold here too.
"""
