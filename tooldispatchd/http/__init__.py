"""HTTP/1.1 as a client: a wing on which those wings stand that reach servers behind URLs.

    wire ─┬─▶ network ─▶ http1 ─▶ h11      TCP, TLS, proxies
          ├─▶ places                       origins, and where a server may lead
          └─▶ reply ◀─ eventstream         a body in bounded steps; the events in it

`wire` sends requests and knows where they may go; `oauth` has tokens for them. No protocol above HTTP is known here.
"""
