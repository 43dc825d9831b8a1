"""What runs in processes of their own between the daemon and a tool: it forks, confines and starts. Stdlib only.

Its programs run under any interpreter that a tool names, in which nothing of the daemon is installed.
"""
