"""Read a configuration: files become a table, the table a checked `Config`, that a catalog; or a report of mistakes."""
