"""What the daemon is measured against, and what loads it: each a small program and a process of its own."""
