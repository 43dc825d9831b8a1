"""What administrators see of a running daemon, and what they may change; a wing, loaded with their first line."""
