"""One agent's life in the daemon: its session, its toolset, one call's way through."""
