"""HTTP APIs: each call is a request, over connections that all agents share.

    ApiCall ─┬─ request, built from the input ──▶ ApiWire ──▶ the wire of `http`
             └─ answer ◀─┬─ replies: the body as a value, a text or a part; a refusal
                         ├─ pages: further pages, joined
                         └─ tokenstreams: tokens as they come

What takes long is done by a checker: `replies` and `pages` hold the functions for it.
"""
