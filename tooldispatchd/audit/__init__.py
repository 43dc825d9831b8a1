"""The audit of calls: one record for each, written by one thread into a store, and read from there. A wing."""
