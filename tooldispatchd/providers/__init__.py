"""How each kind of tool runs. Providers never import one another."""
