"""The line that comes before `ready` where servers take their time; its rules are those of the extension `servers`."""

import msgspec
from msgspec import Raw


class OpeningLine(msgspec.Struct, tag_field="__port", tag="opening", omit_defaults=True):
    """`ready` in advance, by what servers said last; `complete` where something is known of each."""

    complete: bool
    capabilities: Raw
    servers: list[Raw]
    agent: str | None = None
    instructions: str | None = None
    id: str | None = None
