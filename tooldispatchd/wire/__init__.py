"""Bytes to messages and back: lines, envelopes, faults, the session's state machine. Pure."""
