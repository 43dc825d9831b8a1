"""A module that ends whoever imports it."""

import os

os.write(2, b"no licence found\n")
if os.environ:
    os._exit(7)


def add(a: int) -> int:
    return a + 1
