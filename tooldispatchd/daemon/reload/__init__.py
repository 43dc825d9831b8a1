"""Reading the configuration anew while the daemon runs, and what is made of each reading: `reloading` begins."""
