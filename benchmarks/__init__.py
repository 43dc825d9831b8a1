"""Programs that measure the daemon against bare peers in the same run; `run.py` writes RESULTS.md."""
