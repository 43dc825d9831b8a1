"""Which of a session's tools are on and which are off, as its agent has switched them. Pure."""

from collections.abc import Mapping
from typing import Final

import msgspec

# In the place of a tool's name: each of which nothing else is said.
EVERY: Final = "*"


class ToolSelection(msgspec.Struct, frozen=True):
    """What is said of `tags` and of `tools`, by their names. It only takes away from what a session has.

    What is said of a tool by name comes first; then what is said of its tags, of which one that is off is enough.
    """

    tags: Mapping[str, bool] = {}
    tools: Mapping[str, bool] = {}

    def is_on(self, name: str, tags: tuple[str, ...]) -> bool:
        """Whether a tool with these tags is on."""
        own = self.tools.get(name)
        if own is not None:
            return own
        said = [self.tags[tag] for tag in tags if tag in self.tags]
        return all(said) if said else self.tools.get(EVERY, True)

    def switched(self, tags: Mapping[str, bool] | None, tools: Mapping[str, bool] | None) -> "ToolSelection":
        """With what is said now, the rest as it was."""
        return ToolSelection({**self.tags, **(tags or {})}, {**self.tools, **(tools or {})})

    @property
    def size(self) -> int:
        """Of how many tags and tools something is said."""
        return len(self.tags) + len(self.tools)
