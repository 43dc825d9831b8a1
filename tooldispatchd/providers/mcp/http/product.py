"""What the daemon calls itself in a request (RFC 9110, 10.1.5)."""

from typing import Final

from tooldispatchd.providers.mcp.greeting import CLIENT

# The same as in the handshake, so that a server's access log and its own tell of one client.
USER_AGENT: Final = ("User-Agent", f"{CLIENT['name']}/{CLIENT['version']}")
