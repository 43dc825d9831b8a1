"""Which tools there are and what each takes: specs, types, schemas, expressions, names. Pure."""
