"""The toolbox's functions called directly, as a peer has them: no daemon, no fork, no sandbox."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from tooldispatchd.forked.python.context import ToolContext
from tooldispatchd.forked.python.frames import FrameKind
from tooldispatchd.providers.python.tool import CallHeader
from tooldispatchd.toolbox.editing import edit
from tooldispatchd.toolbox.grep import grep
from tooldispatchd.toolbox.reading import read


class Unheard:
    """A daemon that nobody listens to."""

    def tell(self, kind: FrameKind, payload: bytes) -> None:
        """Drop it."""

    def is_cancelled(self) -> bool:
        """No."""
        return False

    def fileno(self) -> int:
        """There is none."""
        return -1


def direct_functions(workspace: Path) -> dict[str, Callable[..., Any]]:
    """`read`, `edit` and `grep` with one context, whose state lasts as a session's does."""
    header = msgspec.to_builtins(CallHeader(id="1", left_s=None, scratch=None, updates=False))
    ctx = ToolContext(header | {"workspace": str(workspace), "state": {}, "options": {}}, Unheard())
    return {
        "read": lambda path: read(path, ctx),
        "edit": lambda path, old, new: edit(ctx, path, old, new),
        "grep": lambda pattern, path: grep(ctx, pattern, path),
    }
