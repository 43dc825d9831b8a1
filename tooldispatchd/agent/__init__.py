"""Agents in the daemon: their sessions, the calls and the tools of each, and the programs that calls run."""
