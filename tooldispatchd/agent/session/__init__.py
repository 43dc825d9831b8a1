"""A channel's sessions: who may open one, how each begins and ends, and the tasks that it owns."""
