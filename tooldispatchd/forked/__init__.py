"""The programs between the daemon and a tool, in processes of their own: they fork, confine and start. Stdlib only.

Its programs run under any interpreter that a tool names, in which nothing of the daemon is installed.
"""
