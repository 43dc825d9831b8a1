"""What is wrong with a configuration, as values: all of them are collected before any is shown; and `cut`."""

import msgspec
from msgspec import UNSET, UnsetType

Path = tuple[str | int, ...]


class Problem(msgspec.Struct, frozen=True):
    """One mistake: where it stands (`path`, keys and indices from the root), why, and what would be right.

    `value` is what was seen, left out where it may be a secret. `allowed` says in words what would be right;
    `nearest` is the known key or name that was probably meant. `excerpt` is what may be shown of a text in which the
    mistake is, with a caret beneath.
    """

    path: Path
    why: str
    value: object | UnsetType = UNSET
    allowed: str | None = None
    nearest: str | None = None
    excerpt: str | None = None


def dotted(path: Path) -> str:
    """Write a path as people do: `processes.writer.mcp[0]`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def cut(text: str, limit: int) -> str:
    """A text of at most so many characters, as it may stand in a message."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
