"""The context of a call, for functions with a parameter named `ctx`. Stdlib only."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Protocol

from tooldispatchd.forked.python.frames import FrameKind

# Of one update or line of the log: at twelve bytes for each, as JSON writes the rarest, it is well under what the
# daemon takes.
MAX_MESSAGE_CHARS = 4_000
LEVELS = "debug", "info", "warning", "error"


class InvalidInputError(ValueError):
    """An input that the function's types admit and the function does not: `field` is the parameter to blame.

    The call is answered with `invalid_input`, and `why` is told of that field. `ToolContext.invalid` makes one.
    """

    def __init__(self, field: str, why: str) -> None:
        super().__init__(why)
        self.field = field


class ToolFailedError(Exception):
    """What the function was asked for cannot be done, in one sentence that a model can act on.

    The call is answered with `tool_failed`, whose `detail` is that sentence and nothing else: no traceback is told.
    `ToolContext.failed` makes one.
    """


class Teller(Protocol):
    """The way to the daemon while the call lasts (`calling.CallSocket`)."""

    def tell(self, kind: FrameKind, payload: bytes) -> None:
        """Write a frame, unless the call is answered."""

    def is_cancelled(self) -> bool:
        """Whether the daemon wants the call to end."""

    def fileno(self) -> int:
        """What can be read once it does."""


class Shutting:
    """Places that the tables let this process read and write, whether or not the kernel keeps it to them.

    None where no table says so. What may be written may be read too.
    """

    read: tuple[str, ...] | None = None
    write: tuple[str, ...] | None = None
    # Whether what this process starts is kept to `read` by the kernel.
    is_kept: bool = True


class ToolContext:
    """One call, as its function is told of it. `ctx` may be annotated with this type, and need not be.

    `id` is the call's, as its agent gave it; `tool` the tool's name, `agent` the one that calls (None for the unnamed
    agent of a channel), `session` the number of its session in the daemon's log, `profile` its profile, and `workspace`
    its directory (None where it has none). `deadline` is when the call is given up, on the clock of `time.monotonic`;
    None where nothing bounds it. `options` are those of the tool's table. What the function puts into `details` goes to
    the agent's runtime, beside the answer.
    """

    __slots__ = (
        *("_scratch", "_state", "_teller", "_updates"),
        *("agent", "deadline", "details", "id", "options", "profile", "session", "tool", "workspace"),
    )

    def __init__(self, call: dict[str, Any], teller: Teller) -> None:
        """`call` is the header of a CALL."""
        left_s = call["left_s"]
        self.id: str = call["id"]
        self.tool: str = call["tool"]
        self.agent: str | None = call["agent"]
        self.session: int = call["session"]
        self.profile: str = call["profile"]
        self.workspace: str | None = call["workspace"]
        self.deadline: float | None = None if left_s is None else time.monotonic() + left_s
        self.options: dict[str, Any] = call["options"]
        self.details: dict[str, Any] = {}
        self._state: dict[str, Any] | None = call["state"]
        self._scratch: str | None = call["scratch"]
        self._updates: bool = call["updates"]
        self._teller = teller

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

    @property
    def state(self) -> dict[str, Any]:
        """The state of the session under the tool's name for it, to be changed; raises RuntimeError where it has none.

        What it is when the function returns is what the next call finds, unless this one fails.
        """
        if self._state is None:
            raise RuntimeError("this tool has no state; say state = true in its table")
        return self._state

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        if self._state is None or not isinstance(state, dict):
            raise TypeError("state is a dict, of a tool that has state = true in its table")
        self._state = state

    @staticmethod
    def invalid(field: str, why: str) -> InvalidInputError:
        """The error to raise for a value of the parameter `field` that is of its type and yet no good."""
        return InvalidInputError(field, why)

    @staticmethod
    def failed(sentence: str) -> ToolFailedError:
        """The error to raise for what cannot be done: the model reads the sentence, and no traceback."""
        return ToolFailedError(sentence)

    def cancelled(self) -> bool:
        """Whether the call is given up: what is left of it is killed when the tool's `stop_s` are over."""
        return self._teller.is_cancelled()

    def fileno(self) -> int:
        """A descriptor that can be read once the call is given up, for `select` and `poll`; never read from it."""
        return self._teller.fileno()

    async def wait_cancelled(self) -> None:
        """Wait until the call is given up; under trio or asyncio, whichever runs."""
        if self.cancelled():
            return
        if "trio" in sys.modules and _is_under_trio():
            await sys.modules["trio"].lowlevel.wait_readable(self._teller.fileno())
            return
        import asyncio  # noqa: PLC0415  # who awaits this under asyncio has it

        loop, told = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._teller.fileno(), told.set)
        try:
            await told.wait()
        finally:
            loop.remove_reader(self._teller.fileno())

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the agent how far the call is, where it wants to know; from any thread, and never to be waited for.

        Raises TypeError for anything but numbers and a string.
        """
        if not isinstance(done, (int, float)) or not isinstance(total, (int, float, type(None))):
            raise TypeError("progress takes numbers: how much is done, and of how much")
        if not isinstance(message, (str, type(None))):
            raise TypeError("the message of progress is a string")
        cut = None if message is None else message[:MAX_MESSAGE_CHARS]
        self._update({"progress": done, "total": total, "message": cut})

    def update(self, *, content: str) -> None:
        """Show the agent a part of the answer as it comes, where it wants to; as `progress` otherwise."""
        if not isinstance(content, str):
            raise TypeError("the content of an update is a string")
        for start in range(0, len(content), MAX_MESSAGE_CHARS):
            self._update({"content": content[start : start + MAX_MESSAGE_CHARS]})

    def log(self, message: str, level: str = "info") -> None:
        """Write a line to the daemon's log, cut at 4000 characters; a call has 100 of them."""
        if level not in LEVELS:
            raise ValueError(f"the level of a line is one of {', '.join(LEVELS)}")
        said = {"level": level, "message": str(message)[:MAX_MESSAGE_CHARS]}
        self._teller.tell(FrameKind.LOG, json.dumps(said).encode())

    def _update(self, said: dict[str, object]) -> None:
        if self._updates:
            self._teller.tell(FrameKind.UPDATE, json.dumps(said).encode())


def _is_under_trio() -> bool:
    try:
        sys.modules["trio"].lowlevel.current_task()
    except RuntimeError:
        return False
    return True


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
