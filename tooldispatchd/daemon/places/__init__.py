"""Where agents come in: places of a configuration, opened, kept, handed over and taken over; of the rest of the daemon
it knows nothing."""
