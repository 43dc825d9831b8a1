"""A wing: the forms in which tools are shown, one for each model provider, MCP's, and the daemon's own.

`form` is its door. `rewriting` makes of any bounded schema one that says as much in few keywords and without
references, counted as it goes; `merging` puts such schemas together; each provider's module spells the result. What a
form cannot say is left open and noted, so that the shown schema admits all that the tool's own does.
"""
