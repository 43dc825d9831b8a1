"""The tools of a session: declared, built in, or of its servers, and how they are shown."""
