"""Warm Python, a wing: a parent that imports the modules of Python tools once, and its forks that serve their calls.

`warm` is its door for calls, `reading` the one for a function's types. Stdlib only, but for msgspec in `signature`.
The daemon's side of it is `providers.python`.
"""
