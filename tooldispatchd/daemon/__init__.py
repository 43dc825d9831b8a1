"""The process: configuration in, listeners, signals, drain, logs."""
