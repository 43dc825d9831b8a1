"""`tooldispatchd run`: an agent, its channel to a daemon, and the relay between them. A wing, without an event loop.

    run ─▶ opening     `hello` said for the agent, and `ready` read
     ├──▶ spawn        the agent's process
     ├──▶ wiring       which source of bytes fills which sink: a channel on descriptors of its own, or shared with stdio
     │      └──▶ lines     the cut between tool lines and everything else, where they share a stream
     └──▶ relay ─▶ ends    poll, and bytes that move without ever blocking

Its door is `run.run`, which the command imports when it is called. It stands on `client.reach` and on `wire`.
"""
