"""The wing of the plumb notation: the tables of a configuration, written as typed declarations.

`reader` is its door. It is imported, and lark with it, where a configuration names a plumb file. `places` holds the
plain values that callers handle, and imports nothing else of this folder.

    text ── tokens ──▶ parse ──▶ syntax ──▶ tables (wiring, values, expressions) ──▶ [types] [mcp] [processes] [tools]
"""
