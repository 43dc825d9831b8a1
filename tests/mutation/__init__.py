"""How many small defects of the session machine the transcripts notice: `python -m tests.mutation`."""
