"""How a call's child is started: whoever plans the call says it, for a tool may be shut in and another not."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from tooldispatchd.children.spawn import Child


class ChildStarter(Protocol):
    """Starts one child; all that is the same for every call (directory, policy, scratch) is its own."""

    async def __call__(self, argv: Sequence[str], /, *, env: Mapping[str, str], with_updates: bool) -> Child:
        """The child of `argv`, as `Family.spawn` would start it. Raises SpawnError."""
