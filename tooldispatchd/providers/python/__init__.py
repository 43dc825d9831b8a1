"""Tools that are Python functions: a warm parent for each environment, and a fork of it for each call."""
