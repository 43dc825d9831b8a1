"""The plumb notation: the same tables as TOML, written as typed declarations."""
