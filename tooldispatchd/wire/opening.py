"""The lines that come before `ready` where servers take their time (extension `servers`)."""

import msgspec
from msgspec import Raw


class OpeningLine(msgspec.Struct, tag_field="__port", tag="opening", omit_defaults=True):
    """`ready` in advance, by what servers said last; `complete` where something is known of each.

    Later ones have `waiting` alone: the servers that have not answered yet.
    """

    complete: bool
    capabilities: Raw
    servers: list[Raw]
    agent: str | None = None
    instructions: str | None = None
    id: str | None = None
    waiting: list[str] = []
