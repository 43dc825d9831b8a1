"""The guard of files: one that an agent has not read, or that was changed since, is not overwritten unseen.

The session's state keeps the version of each file that the agent has seen. It compares times, sizes and inodes: a
change within one tick of the file system's clock that keeps the size goes unnoticed.
"""

import hashlib
import os
from pathlib import Path
from typing import Final, Literal

from tooldispatchd.forked.python.context import ToolContext, ToolFailedError

# A file takes at most 80 bytes of the state, which may have 64 KiB and is shared with nothing else.
MAX_SEEN: Final = 500


def note_read(ctx: ToolContext, path: Path, status: os.stat_result | None = None) -> None:
    """The agent knows what is in the file at `path`: it has read it, or written it.

    `status` is that of the descriptor before it was read: what is written meanwhile then counts as modified later. A
    path where nothing is any more is forgotten.
    """
    if _guard(ctx) == "off":
        return
    seen, key = ctx.state.setdefault("seen", {}), _key(path)
    seen.pop(key, None)
    try:
        seen[key] = _version(path.stat() if status is None else status)
    except OSError:
        return
    # Last in, last out: the ones in front were read longest ago.
    for oldest in list(seen)[:-MAX_SEEN]:
        del seen[oldest]


def check_unchanged(ctx: ToolContext, path: Path) -> str | None:
    """Ask before the file at `path` is overwritten; a path where nothing is may be written.

    Raises ToolFailedError where the agent has not read it as it is now; with `guard = "warn"` that sentence is
    returned, to stand on top of the answer.
    """
    return _judge(ctx, path, f"{path} was not read in this session. Read it first.")


def check_unmodified(ctx: ToolContext, path: Path) -> str | None:
    """Ask before the file at `path` is deleted or moved away, as `check_unchanged`; it need not have been read."""
    return _judge(ctx, path, None)


def _judge(ctx: ToolContext, path: Path, unread: str | None) -> str | None:
    if _guard(ctx) == "off":
        return None
    try:
        version = _version(path.stat())
    except OSError:
        # The tool that asks meets the same error, and tells it.
        return None
    known = ctx.state.get("seen", {}).get(_key(path))
    if known == version:
        return None
    sentence = unread if known is None else f"{path} was modified since it was read. Read it again."
    if sentence is not None and _guard(ctx) == "block":
        raise ToolFailedError(sentence)
    return sentence


def _guard(ctx: ToolContext) -> Literal["block", "warn", "off"]:
    guard: Literal["block", "warn", "off"] = ctx.options.get("guard", "block")
    return guard


def _key(path: Path) -> str:
    """One key for a file by whatever path; a digest, since a path may be long, and need not be text."""
    try:
        real = os.path.realpath(path)
    except OSError:
        # A link on the way was replaced in this moment.
        real = os.path.abspath(path)  # noqa: PTH100  # `Path.absolute` keeps what is to be left out
    return hashlib.blake2b(os.fsencode(real), digest_size=8).hexdigest()


def _version(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns}-{status.st_size}-{status.st_ino}"
