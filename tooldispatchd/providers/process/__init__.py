"""Tools that are programs: one child a call."""
