"""A wing: all that a configuration names is tried, and what is wrong is said. Its door is `examination`.

It starts servers in a daemon of its own, and calls no tool.
"""
