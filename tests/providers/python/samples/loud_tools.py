"""A module that says more than a pipe holds when it is imported."""

import sys

print("x" * 200_000)
print("y" * 200_000, file=sys.stderr)


def add(a: int) -> int:
    return a + 1
