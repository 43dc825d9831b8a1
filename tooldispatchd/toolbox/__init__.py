"""Tools for coding and research agents: ordinary typed functions, run by warm parents under the sandbox."""
