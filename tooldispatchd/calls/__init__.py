"""The life of a call: outcomes, admission, deadlines, connection states. Pure."""
