"""Tools for agents that work with files, programs and the web: ordinary functions, each call in a fork and shut in."""
