"""Child processes: spawning, group kill, reaping, and the guardian that outlives the daemon."""
