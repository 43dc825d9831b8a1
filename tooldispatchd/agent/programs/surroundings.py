"""What a program that is shut in has to itself: a directory, a cgroup, and copies of files that it could not read."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from tooldispatchd.children.leaves import Leaf
from tooldispatchd.forked.policy import Policy

# What tells a program of its directory: in the first, libraries make their temporary files.
SCRATCH: Final = ("TMPDIR", "TOOLDISPATCHD_SCRATCH")


class SurroundingsError(Exception):
    """Nothing could be made for a call; the message says why."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot make a scratch directory or a cgroup for the call: {error.strerror}")


class ChildSurroundings(msgspec.Struct, frozen=True):
    """Made for one child, and removed after it. `copies` are by the path of what they are copies of."""

    scratch: str | None
    leaf: Leaf | None
    copies: dict[str, str] = {}

    def env(self, policy: Policy) -> dict[str, str]:
        """What tells the program of its directory; it is its home too where it may not read the account's."""
        if self.scratch is None:
            return {}
        names = SCRATCH if policy.read is None else (*SCRATCH, "HOME")
        return dict.fromkeys(names, self.scratch)

    def bring(self, path: str, policy: Policy) -> None:
        """Copy a file of the daemon's, which the program is to read, into its directory. Raises `OSError`."""
        assert self.scratch is not None
        copy = f"{self.scratch}/{len(self.copies)}-{os.path.basename(path)}"  # noqa: PTH119  # a string is wanted
        fd = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400)
        self.copies[path] = copy
        with os.fdopen(fd, "wb") as file:
            file.write(Path(path).read_bytes())
            if policy.uid is not None or policy.gid is not None:
                os.fchown(fd, -1 if policy.uid is None else policy.uid, -1 if policy.gid is None else policy.gid)

    def drop(self) -> None:
        """Remove the copies: the directory is mostly empty then."""
        for copy in self.copies.values():
            with suppress(OSError):
                os.unlink(copy)  # noqa: PTH108  # as above
