"""One call's way through: its input read, its turn, its tool's plan, its one end."""
