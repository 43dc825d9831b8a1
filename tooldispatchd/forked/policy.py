"""The policy of one process: what it may use and see. The daemon gives it to the forker that starts the process."""

import json
from typing import NamedTuple

# Stands among `read` and `write` for the directory of whatever session a process serves.
_WORKSPACE = "workspace"


class Policy(NamedTuple):
    """Users are numbers, sizes are bytes, paths are absolute and without symbolic links. None asks for nothing.

    Only what is in `read` may be read, and only what is in `write` changed. The system's own directories and the
    program's can be read too, and are not among `read` yet. `means` says what enforces these two and `network`.
    `asked_read` and `asked_write` are those that no means enforces: tools of files keep to them by themselves.
    """

    cpu_s: int | None = None
    memory: int | None = None
    processes: int | None = None
    files: int | None = None
    file_size: int | None = None
    nice: int | None = None
    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()
    network: bool = True
    read: tuple[str, ...] | None = None
    write: tuple[str, ...] | None = None
    means: str = "landlock"
    """`landlock` (with seccomp) or `bubblewrap` (with the same seccomp)."""
    asked_read: tuple[str, ...] | None = None
    asked_write: tuple[str, ...] | None = None

    @property
    def is_sandboxed(self) -> bool:
        """Whether anything is asked for that needs `means`."""
        return not self.network or self.read is not None or self.write is not None

    @property
    def is_in_workspace(self) -> bool:
        """Whether it names a session's workspace, and so is not yet the policy of any process."""
        return any(_WORKSPACE in places for places in self._places() if places is not None)

    def at(self, workspace: str | None) -> "Policy":
        """The policy with this directory in the place of the word for it, or without the word."""
        if not self.is_in_workspace:
            return self
        there = {_WORKSPACE: workspace}
        read, write, asked_read, asked_write = (
            None if places is None else tuple(found for each in places if (found := there.get(each, each)) is not None)
            for places in self._places()
        )
        return self._replace(read=read, write=write, asked_read=asked_read, asked_write=asked_write)

    def _places(self) -> tuple[tuple[str, ...] | None, ...]:
        return self.read, self.write, self.asked_read, self.asked_write

    def to_json(self) -> str:
        """As one line, which `from_json` reads."""
        return json.dumps(self._asdict())

    @classmethod
    def from_json(cls, text: str) -> "Policy":
        """The policy that `to_json` wrote; raises ValueError or TypeError for anything else."""
        fields = json.loads(text)
        for name in ("groups", "read", "write", "asked_read", "asked_write"):
            if fields.get(name) is not None:
                fields[name] = tuple(fields[name])
        return cls(**fields)
