"""A wing: the plumb notation, the same tables as TOML written as typed declarations.

`reader` is its door, imported where a configuration names a plumb file, and lark with it; `places` has the plain values
that its callers handle, and imports nothing of it.

    text ── tokens ──▶ parse ──▶ syntax ──▶ tables (wiring, values, expressions) ──▶ [types] [mcp] [processes] [tools]
"""
