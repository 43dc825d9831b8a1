"""The life of a call: outcomes, gates, deadlines, connection states. Pure."""
