"""The keys that bound a program and shut it in, which several tables of the configuration share."""

from typing import Annotated, Literal

from msgspec import Meta

from tooldispatchd.catalog.secrecy import Spec
from tooldispatchd.catalog.speckinds import OwnerId, Size, SomeWord

Sandbox = Literal["required", "landlock", "bubblewrap", "best-effort"]


class ConfinedSpec(Spec, frozen=True, kw_only=True):
    """What a program may use and see: keys of tools, processes and servers that run one, and of profiles for theirs.

    A profile's keys narrow what its tools have and never widen it; they hold for what agent processes call in turn,
    too. What is asked for and cannot be had on the machine stops the start, unless `sandbox` says otherwise.
    """

    cpu_s: Annotated[int, Meta(ge=1, le=86_400)] | None = None
    """Seconds of processor time that each of a call's processes may use."""
    memory: Size | None = None
    """Bytes, or text like `"512M"`, 16M at least: of all processes of a call, or of a server, together where the daemon
    has a cgroup of its own, else of each."""
    processes: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    """How many processes and threads a call may have at once, its first included; of programs that run as root only
    where the daemon has a cgroup of its own."""
    files: Annotated[int, Meta(ge=8, le=1_000_000)] | None = None
    """How many descriptors one of its processes may have open."""
    file_size: Size | None = None
    """The largest file that it may write."""
    output_bytes: Size | None = None
    """How much it may write to stdout, and how long its answer may be; never more than `limits.max_content_bytes`."""
    nice: Annotated[int, Meta(ge=0, le=19)] | None = None
    """How far it stands back behind others for the processor."""
    user: OwnerId | None = None
    """The user that it runs as, by name or number; only a daemon that is root can do that. Its `HOME` is the daemon's,
    unless `env` says another."""
    group: OwnerId | None = None
    """Its group; by default the user's own. Beside it a user has its other groups; without `user` there are none."""
    network: bool = True
    """With `false` it cannot reach or be reached by anything: it has no sockets but pairs within itself."""
    read: tuple[SomeWord, ...] | None = None
    """The only files and directories that it may read, beside the system's programs and libraries, itself, `write` and
    its scratch directory; a function reads the places of its modules too. Without it everything may be read.
    `"workspace"` is the session's [workspace](#workspaces)."""
    write: tuple[SomeWord, ...] | None = None
    """The only files and directories that it may change, beside its scratch directory; by default nothing where `read`
    is given. `"workspace"` is the session's workspace, as in `read`."""
    sandbox: Sandbox | None = None
    """How all this is enforced. `required`, the default: whole, or the daemon does not start. `landlock`, or for
    programs `bubblewrap`: `network`, `read` and `write` by that means alone. `best-effort`: as far as the machine can;
    what it cannot is said in the log, and as `unenforced` of the tool in `ready` and in lists of tools."""
