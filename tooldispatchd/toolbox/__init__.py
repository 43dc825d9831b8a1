"""Tools that come with the daemon: ordinary typed Python functions, as an operator could have written them."""
