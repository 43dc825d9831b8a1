"""What stands between a request and its tool: the steps that tables ask for, each in a module of its own."""
