"""What an agent or a command needs to talk to the daemon; stands on wire alone."""
