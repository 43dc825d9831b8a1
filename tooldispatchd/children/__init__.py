"""Child processes: spawning, group kill, reaping, and the guardians that outlive the daemon."""
