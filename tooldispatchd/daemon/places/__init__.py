"""The places where agents come in, opened, kept and handed over; they know nothing of the rest of the daemon."""
