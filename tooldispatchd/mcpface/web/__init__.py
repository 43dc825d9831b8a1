"""The process that serves MCP clients over HTTP: a wing, started by the daemon and reached by it as a program alone.

serving ──▶ connection ──▶ exchange ──▶ guard        who may come in
                              └───────▶ sessions ──▶ one Face and one channel to the daemon for each
                                           └──▶ feeds    what a client is told, and may read again
"""
