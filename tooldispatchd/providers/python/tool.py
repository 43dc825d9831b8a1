"""A Python tool as it is run, and the value of a call."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec
from msgspec import Raw

from tooldispatchd.calls.outcome import NOTHING_LEFT, LeftBeside, Update
from tooldispatchd.children.endings import NO_LIMITS, Limits
from tooldispatchd.children.grace import Grace
from tooldispatchd.forked.policy import Policy


class WarmKey(NamedTuple):
    """The values that tools must share to be forked from one warm parent."""

    interpreter: str
    env: tuple[tuple[str, str], ...]
    cwd: str | None
    path: tuple[str, ...]
    uid: int | None
    gid: int | None
    groups: tuple[int, ...]
    code: str


class PythonTool(msgspec.Struct, frozen=True, kw_only=True):
    """How to run a function: where it is, in which interpreter, and within which bounds."""

    function: str
    """`package.module:function`."""
    interpreter: str
    """The path of a Python of 3.11 or newer that has msgspec."""
    env: tuple[tuple[str, str], ...] = ()
    """Names and values, beside the variables of every child."""
    cwd: str | None = None
    path: tuple[str, ...] = ()
    """Directories in which its modules are looked for after the interpreter's own."""
    code: str = ""
    """The digest of the code of all functions that share its warm parent."""
    policy: Policy = Policy()
    limits: Limits = NO_LIMITS
    """Those that it has, by policy or by cgroup; no other one is ever said to be passed."""
    max_output_bytes: int
    """The longest answer, as JSON."""
    resident: bool = False
    """Whether its calls run in workers that live on."""
    keeps_state: bool = False
    """Whether its calls come with the state of a session."""
    max_forks: int = 10_000
    """Calls after which its parent is replaced, or its worker."""
    max_rss: int = 1 << 30
    """Resident bytes of its parent, or of its worker, after which that is replaced."""

    in_workspace: bool = False
    """Whether each call runs in its session's workspace; `cwd` is then that of its parent alone."""
    gives_parts: bool = False
    """Whether its result is a list of typed parts, which is not decoded here."""
    stop_s: float = 0.0
    """Seconds that it has to end itself where it is cancelled."""

    @property
    def needs_workspace(self) -> bool:
        """Whether it cannot run in a session without a workspace."""
        return self.in_workspace or self.policy.is_in_workspace

    @property
    def is_sessions_own(self) -> bool:
        """Whether a worker of it may serve one session alone."""
        return self.keeps_state or self.needs_workspace

    @property
    def surroundings(self) -> WarmKey:
        policy = self.policy
        return WarmKey(
            self.interpreter,
            tuple(sorted(self.env)),
            self.cwd,
            self.path,
            policy.uid,
            policy.gid,
            policy.groups,
            self.code,
        )

    @property
    def has_own_scratch(self) -> bool:
        """Whether its workers have a directory each: one that is shut in can enter no other later."""
        return self.resident and self.restricts_files

    @property
    def restricts_files(self) -> bool:
        """Whether its policy says which files it may see or change, of which its scratch directory is one."""
        return self.policy.read is not None or self.policy.write is not None


class ReturnedValue(msgspec.Struct, frozen=True):
    """The JSON value that a function returned, decoded; and the end of its stderr by then."""

    value: object
    stderr: str = ""
    left: LeftBeside = NOTHING_LEFT


class CallHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The header of a call, as `forked.python.frames.FrameKind.CALL` describes it."""

    id: str
    function: str = ""
    tool: str = ""
    agent: str | None = None
    session: int = 0
    profile: str = ""
    left_s: float | None = None
    scratch: str | None = None
    workspace: str | None = None
    held: tuple[int, int] | None = None
    updates: bool = False
    state: Raw | None = None
    options: dict[str, object] = {}


class CallSide(msgspec.Struct, frozen=True):
    """Who listens to one call while it runs, and how it may be ended.

    `update` is called with what the function says of its progress, merged, and `log` with a level and a line; neither
    ever once the call has returned, and neither may block or raise.
    """

    update: Callable[[Update], None] | None = None
    log: Callable[[str, str], None] | None = None
    grace: Grace | None = None
