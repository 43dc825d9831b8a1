"""The context of a call, for functions with a parameter named `ctx`. Stdlib only."""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

# Of one update: at twelve bytes for each, as JSON writes the rarest, it is well under what the daemon takes.
MAX_MESSAGE_CHARS = 4_000


class ToolContext:
    """One call, as its function is told of it. `ctx` may be annotated with this type, and need not be.

    `id` is the call's, as its agent gave it, and `agent` the one that calls (None for the unnamed agent of a channel).
    `deadline` is when the call is given up, on the clock of `time.monotonic`; None where nothing bounds it.
    """

    __slots__ = ("_scratch", "_tell", "agent", "deadline", "id")

    def __init__(
        self,
        *,
        id: str,  # noqa: A002  # the name that functions know it by
        agent: str | None,
        left_s: float | None,
        scratch: str | None,
        tell: Callable[[bytes], None] | None,
    ) -> None:
        """`tell` takes the bytes of an update, and is None where none are wanted."""
        self.id = id
        self.agent = agent
        self.deadline = None if left_s is None else time.monotonic() + left_s
        self._scratch = scratch
        self._tell = tell

    @property
    def left_s(self) -> float | None:
        """Seconds until the deadline, never below 0; None where nothing bounds the call."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    @property
    def scratch(self) -> Path:
        """A directory of this call's own, removed after it; raises RuntimeError where the call has none.

        From when it is asked for it is also where `tempfile` and programs make their files; a function that is shut in
        has it from the start.
        """
        if self._scratch is None:
            raise RuntimeError("this call has no scratch directory")
        if not os.path.isdir(self._scratch):  # noqa: PTH112  # pathlib costs more, and this may be asked again and again
            os.mkdir(self._scratch, 0o700)  # noqa: PTH102  # as above
            enter_scratch(self._scratch)
        return Path(self._scratch)

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the agent how far the call is, where it wants to know; from any thread, and never to be waited for.

        Raises TypeError for anything but numbers and a string.
        """
        if not isinstance(done, (int, float)) or not isinstance(total, (int, float, type(None))):
            raise TypeError("progress takes numbers: how much is done, and of how much")
        if not isinstance(message, (str, type(None))):
            raise TypeError("the message of progress is a string")
        if self._tell is not None:
            cut = None if message is None else message[:MAX_MESSAGE_CHARS]
            self._tell(json.dumps({"progress": done, "total": total, "message": cut}).encode())


def enter_scratch(path: str) -> None:
    """Have programs and `tempfile` make their files in the directory `path`."""
    os.environ["TMPDIR"] = os.environ["TOOLDISPATCHD_SCRATCH"] = path
    if "tempfile" in sys.modules:
        # It may have chosen another one in the parent.
        sys.modules["tempfile"].tempdir = None  # type: ignore[attr-defined]  # a module's attributes are not typed


Places = tuple[tuple[str | None, ...], str | None]
"""The result of `files_places`: the variables, and the directory that `tempfile` has chosen."""

_VARIABLES = "TMPDIR", "TOOLDISPATCHD_SCRATCH"


def files_places() -> Places:
    """Where programs and `tempfile` make their files now."""
    chosen: str | None = getattr(sys.modules.get("tempfile"), "tempdir", None)
    return tuple(os.environ.get(name) for name in _VARIABLES), chosen


def put_back(places: Places) -> None:
    """Have them make their files where they did when `files_places` was asked: a call's own directory goes with it."""
    values, chosen = places
    for name, value in zip(_VARIABLES, values, strict=True):
        # Setting one changes the C library's environment too.
        if os.environ.get(name) == value:
            continue
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value
    if "tempfile" in sys.modules:
        sys.modules["tempfile"].tempdir = chosen  # type: ignore[attr-defined]  # as above
