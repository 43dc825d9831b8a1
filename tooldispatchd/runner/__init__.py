"""An agent and its one channel to a daemon, for as long as the agent lives; plain poll, no event loop."""
