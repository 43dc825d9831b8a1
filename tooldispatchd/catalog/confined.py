"""The keys with which a program is bounded and shut in, wherever they stand."""

from typing import Annotated, Literal

from msgspec import Meta

from tooldispatchd.catalog.secrecy import Spec
from tooldispatchd.catalog.speckinds import Owner, Size, SomeWord

Sandbox = Literal["required", "landlock", "bubblewrap", "best-effort"]


class ConfinedSpec(Spec, frozen=True, kw_only=True):
    """What a program may use and see: keys of tools, processes and servers that run one, and of profiles for theirs.

    A profile's keys narrow what its tools have and never widen it; they hold for what agent processes call in turn,
    too. What is asked for and cannot be had on the machine stops the start, unless `sandbox` says otherwise.
    """

    cpu_s: Annotated[int, Meta(ge=1, le=86_400)] | None = None
    """Seconds of processor time of each of a call's processes."""
    memory: Size | None = None
    """Memory of a call, or of a server: of all its processes together where the daemon has a cgroup of its own, else of
    each."""
    processes: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    """Processes and threads of a call at once, its first included."""
    files: Annotated[int, Meta(ge=8, le=1_000_000)] | None = None
    """Descriptors that one of its processes may have open."""
    file_size: Size | None = None
    """The largest file that it may write."""
    output_bytes: Size | None = None
    """What it may write to stdout, and how long its answer may be; never more than `limits.max_content_bytes`."""
    nice: Annotated[int, Meta(ge=0, le=19)] | None = None
    """How much it stands back behind others for the processor."""
    user: Owner | None = None
    """Who it runs as, by name or number; only where the daemon is root."""
    group: Owner | None = None
    """Its group; by default the user's own. Beside it a user has its other groups; without `user` there are none."""
    network: bool = True
    """With `false` it cannot reach or be reached by anything: no sockets but pairs of its own."""
    read: tuple[SomeWord, ...] | None = None
    """The only files and directories that it may read, beside the system's own, its program, `write` and its scratch
    directory; a function reads the places of its modules too. Where it is left out, everything may be read."""
    write: tuple[SomeWord, ...] | None = None
    """The only files and directories that it may change, beside its scratch directory; by default nothing where `read`
    is given."""
    sandbox: Sandbox | None = None
    """How all this is enforced: whole or not at all, by what the machine has (`required`, the default) or for
    `network`, `read` and `write` by that means alone (`bubblewrap` for programs only); or as far as the machine can
    (`best-effort`: what it cannot is told in the log, and as `unenforced` in `ready` and in lists of tools)."""
