"""A wing: what a daemon has counted, as Prometheus reads it; imported when somebody asks for it."""
