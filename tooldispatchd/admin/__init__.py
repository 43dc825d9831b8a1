"""The answers to administrators, who look at a running daemon and change it; a wing, loaded with their first line."""
