"""Programs as calls run them: started by the daemon itself or shut in; agents with a channel of their own around it.

no policy ─────────────────────────────────▶ the family starts it
a policy  ──▶ scratch directory, cgroup ──▶ a launcher starts it ──▶ ended ──▶ both are removed
"""

import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import msgspec
import trio

from tooldispatchd.agent.calls.call import Call
from tooldispatchd.calls.outcome import Unread
from tooldispatchd.catalog.speckinds import WORKSPACE
from tooldispatchd.catalog.workspaces import Workspace
from tooldispatchd.children import endings
from tooldispatchd.children.family import Family
from tooldispatchd.children.launchers import Launchers
from tooldispatchd.children.leaves import Leaf, Leaves
from tooldispatchd.children.procstat import ProcessorTime
from tooldispatchd.children.scratch import Scratches
from tooldispatchd.children.spawn import Child, Exit, SpawnError
from tooldispatchd.forked.policy import Policy
from tooldispatchd.privatefiles import create_private
from tooldispatchd.providers.process.ports import PortPipes
from tooldispatchd.providers.process.running import ChildStarter, Command, ProgramValue, Spill, run_command
from tooldispatchd.providers.updates import UpdateLines
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.lines import framed


class Program(msgspec.Struct, frozen=True):
    """A command as a profile's agents run it.

    `policy` is what it is started under, None where nothing is asked of it, and `unenforced` the keys that this machine
    cannot keep it to. An agent that may call tools has a `profile`, by its key.
    """

    command: Command
    policy: Policy | None = None
    unenforced: tuple[str, ...] = ()
    profile: str | None = None
    shares_streams: bool = False
    """Whether an agent has its channel on its stdin and stdout."""
    home: dict[str, str] = {}
    """Its `HOME`, where its table says one."""
    held: tuple[int, int] | None = None
    """The device and inode of its directory, where that is a session's workspace: it starts in no other."""
    files: tuple[str, ...] = ()
    """Files of the daemon's that it is told of and must be able to read."""

    @property
    def needs_workspace(self) -> bool:
        """Whether it cannot run in a session without a workspace."""
        return self.command.cwd == WORKSPACE or (self.policy is not None and self.policy.is_in_workspace)

    def at(self, workspace: Workspace | None) -> "Program":
        """The program as a session with this workspace runs it."""
        if workspace is None or not self.needs_workspace:
            return self
        policy = None if self.policy is None else self.policy.at(workspace.path)
        if self.command.cwd != WORKSPACE:
            return msgspec.structs.replace(self, policy=policy)
        command = msgspec.structs.replace(self.command, cwd=workspace.path)
        return msgspec.structs.replace(self, command=command, policy=policy, held=workspace.identity)

    @property
    def reads_text(self) -> bool:
        """Whether its input is text, and not JSON."""
        return self.command.feed.mode == "text"


# The trace that its call is a part of (OpenTelemetry, "Environment Variables as Context Propagation Carriers").
TRACEPARENT: Final = "TRACEPARENT"
PREFIX: Final = "TOOLDISPATCHD_"
# The variables that name a program's directory; libraries make their temporary files in the first.
SCRATCH: Final = ("TMPDIR", "TOOLDISPATCHD_SCRATCH")


class SurroundingsError(Exception):
    """A scratch directory or cgroup could not be made."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot make a scratch directory or a cgroup for the call: {error.strerror}")


class ChildSurroundings(msgspec.Struct, frozen=True):
    """Made for one child, and removed after it. `copies` are by the path of what they are copies of."""

    scratch: str | None
    leaf: Leaf | None
    copies: dict[str, str] = {}

    def env(self, policy: Policy) -> dict[str, str]:
        """The variables that name its directory; it is its home too where it may not read the account's."""
        if self.scratch is None:
            return {}
        names = SCRATCH if policy.read is None else (*SCRATCH, "HOME")
        return dict.fromkeys(names, self.scratch)

    def bring(self, path: str, policy: Policy) -> None:
        """Copy a file of the daemon's, which the program is to read, into its directory. Raises `OSError`."""
        assert self.scratch is not None
        copy = f"{self.scratch}/{len(self.copies)}-{os.path.basename(path)}"  # noqa: PTH119  # a string is wanted
        fd = create_private(copy, 0o400)
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


def variables_of(call: Call) -> dict[str, str]:
    """Those of a child that serves this call alone; what there is none of is left out.

    The id is that of the agent's own call, the tool that which the program is: within a chain it is a stage.
    """
    context = call.context
    left_s = call.until - trio.current_time()
    said = {
        "CALL_ID": call.id,
        "TOOL": call.name if call.plan is None else call.plan.name,
        "AGENT": context.agent,
        "SESSION": str(context.lineage.number),
        "PROFILE": context.profile,
        "DEADLINE": f"{time.time() + left_s:.3f}",
        "WORKSPACE": None if context.workspace is None else context.workspace.path,
    }
    # What holds a NUL, as an agent's id may, can be in no variable.
    env = {PREFIX + name: value for name, value in said.items() if value is not None and "\0" not in value}
    if call.traceparent is not None:
        env[TRACEPARENT] = call.traceparent
    return env


class Lent(Protocol):
    """A channel that one child calls tools on."""

    extra: dict[int, int]
    """The child's descriptors by their number in the child, until `started`."""
    env: dict[str, str]
    """The variables that name them to the child."""

    def started(self) -> None:
        """The child has them."""

    def share_streams(self) -> PortPipes:
        """Keep the child's descriptors from it, for its stdin and stdout; they are closed with the channel."""

    async def close(self) -> None:
        """End its session and close its descriptors. Idempotent."""


class ProgramBounds(NamedTuple):
    """Needed to run programs with bounds, and Python functions."""

    scratches: Scratches
    launchers: Launchers
    leaves: Leaves | None


class Programs:
    """How the daemon runs programs: until it is equipped only those that have no bounds."""

    def __init__(self, family: Family) -> None:
        self._family = family
        self.equip(None)

    def equip(self, bounds: ProgramBounds | None) -> None:
        """From now on have these bounds, which do not change once they are there."""
        self._launchers = None if bounds is None else bounds.launchers
        self._scratches = None if bounds is None else bounds.scratches
        self._leaves = None if bounds is None else bounds.leaves

    async def run(
        self,
        program: Program,
        call: Call,
        lent: Lent | None,
        updates: UpdateLines | None,
        spill: Spill | None = None,
    ) -> ProgramValue | Unread | Fault:
        """Run `program` once for `call`; nothing is left when this returns or is cancelled."""
        program = program.at(call.context.workspace)
        env = variables_of(call)
        ports: PortPipes | None = None
        if lent is not None:
            # Before its variables are looked at: they say where the channel is.
            ports = lent.share_streams() if program.shares_streams else None
            env |= lent.env
        line = call.sent_line if program.reads_text else framed(b"", call.sent_line, b"\n")
        run = partial(run_command, updates=updates, grace=call.grace, ports=ports, spill=spill)
        if program.policy is None:
            return await run(self.directly(program, lent), program.command, line, env=env)
        try:
            async with self.surroundings(program.policy) as around:
                self.bring(program, program.policy, around, lent)
                env |= around.env(program.policy) | program.home
                launch = self.shut_in(program, program.policy, around, lent)
                passed = None if around.leaf is None else around.leaf.passed
                return await run(launch, program.command, line, env=env, passed=passed)
        except SurroundingsError as error:
            return Fault(Code.TOOL_FAILED, str(error)).ran(may_have=False)

    def directly(self, program: Program, lent: Lent | None) -> ChildStarter:
        """Starts the program from the daemon itself."""
        family, cwd, is_joined = self._family, program.command.cwd, program.command.is_joined
        extra = NO_DESCRIPTORS if lent is None else lent.extra

        # Others of its kind wait.
        async def launch(  # noqa: ASYNC124
            argv: Sequence[str], /, *, env: Mapping[str, str], with_updates: bool
        ) -> Child:
            pipes = {"with_updates": with_updates, "is_joined": is_joined}
            child = family.spawn(argv, env=env, cwd=cwd, held=program.held, extra=extra, **pipes)
            if lent is not None:
                lent.started()
            return child

        return launch

    def shut_in(self, program: Program, policy: Policy, around: ChildSurroundings, lent: Lent | None) -> ChildStarter:
        """Starts the program under its policy."""
        launchers = self._launchers
        assert launchers is not None
        extra = NO_DESCRIPTORS if lent is None else lent.extra
        # A program that may not see the daemon's own directory could not even begin there.
        is_blind = policy.read is not None or policy.write is not None
        cwd = program.command.cwd or (around.scratch if is_blind else None)
        leaf = None if around.leaf is None else around.leaf.path
        rest = self._uncounted(policy)

        async def launch(argv: Sequence[str], /, *, env: Mapping[str, str], with_updates: bool) -> Child:
            child = await launchers.launch(
                rest,
                [around.copies.get(word, word) for word in argv],
                env={name: around.copies.get(value, value) for name, value in env.items()},
                cwd=cwd,
                with_updates=with_updates,
                is_joined=program.command.is_joined,
                extra=extra,
                leaf=leaf,
                scratch=around.scratch,
                held=program.held,
            )
            if lent is not None:
                lent.started()
            return child

        return launch

    @asynccontextmanager
    async def surroundings(
        self, policy: Policy, scratch: Callable[[Policy], str | None] | None = None
    ) -> AsyncIterator[ChildSurroundings]:
        """Make a call's directory and cgroup under `policy`; removed when the block is left, within seconds.

        `scratch` gives the directory, by default a new one. Raises `SurroundingsError`.
        """
        around = self.surround(policy, scratch or self.make_scratch)
        try:
            yield around
        finally:
            # Both bound themselves.
            with trio.CancelScope(shield=True):
                await self.clear(around)

    def make_scratch(self, policy: Policy) -> str | None:
        """A new directory for a program that is shut in, or is not the daemon's user's. Raises OSError.

        A directory is not nothing: on some file systems it costs as much as starting the program.
        """
        if not policy.is_sandboxed and policy.uid is None:
            return None
        assert self._scratches is not None
        return self._scratches.make(policy.uid, policy.gid)

    def name_scratch(self, _policy: Policy) -> str:
        """The path of a directory that a program of the daemon's own user may make."""
        assert self._scratches is not None
        return self._scratches.name()

    def surround(self, policy: Policy, scratch: Callable[[Policy], str | None]) -> ChildSurroundings:
        """As `surroundings`, for a child that outlives a call; `clear` must follow. Raises `SurroundingsError`."""
        leaf: Leaf | None = None
        try:
            rest = self._uncounted(policy)
            # Only where something is to be counted in it.
            if self._leaves is not None and rest != policy:
                memory = policy.memory if rest.memory is None else None
                leaf = self._leaves.make(memory=memory, processes=policy.processes if rest.processes is None else None)
            return ChildSurroundings(scratch(policy), leaf)
        except OSError as error:
            if leaf is not None and self._leaves is not None:
                self._leaves.remove_now(leaf.path)
            raise SurroundingsError(error) from error

    def bring(self, program: Program, policy: Policy, around: ChildSurroundings, lent: Lent | None) -> None:
        """Let a program that is shut in read what it is told of: its spec, and its list of tools.

        Raises `SurroundingsError`.
        """
        lists = () if lent is None else lent.env.values()
        files = (*program.files, *(value for value in dict.fromkeys(lists) if value.startswith("/")))
        try:
            for path in files if around.scratch is not None else ():
                around.bring(path, policy)
        except OSError as error:
            raise SurroundingsError(error) from error

    async def clear(self, around: ChildSurroundings) -> None:
        """Remove what was made for a program whose processes are dead; takes seconds at most."""
        around.drop()
        if around.leaf is not None:
            await around.leaf.remove()
        if around.scratch is not None:
            assert self._scratches is not None
            await self._scratches.remove(around.scratch)

    def _uncounted(self, policy: Policy) -> Policy:
        """The part of `policy` that a cgroup does not enforce."""
        there = frozenset() if self._leaves is None else self._leaves.controllers
        return policy._replace(
            memory=None if "memory" in there else policy.memory,
            processes=None if "pids" in there else policy.processes,
        )


class Housed:
    """`stdio.Housing`: what one child has that serves as long as its connection lasts."""

    def __init__(self, programs: Programs, program: Program) -> None:
        assert program.policy is not None
        self._programs = programs
        self._program = program
        self._policy = program.policy
        self._around: ChildSurroundings | None = None

    async def start(self, argv: Sequence[str], env: Mapping[str, str]) -> Child:
        """The child; raises SpawnError."""
        try:
            around = self._around = self._programs.surround(self._policy, self._programs.make_scratch)
        except SurroundingsError as error:
            raise SpawnError(argv[0], str(error)) from error
        launch = self._programs.shut_in(self._program, self._policy, around, None)
        whole = {**env, **around.env(self._policy), **self._program.home}
        return await launch(argv, env=whole, with_updates=False)

    def passed(self, ended: Exit, stderr: str, cpu: ProcessorTime | None) -> tuple[str, str] | None:
        """The limit that ended the child, and the words for what it allowed."""
        command = self._program.command
        if command.is_wrapped:
            ended = endings.unwrapped(ended)
        leaf = None if self._around is None else self._around.leaf
        limit = (None if leaf is None else leaf.passed()) or endings.passed_limit(
            command.limits, ended, stderr, cpu=cpu, is_wrapped=command.is_wrapped
        )
        return None if limit is None else (limit, command.limits.words(limit))

    async def clear(self) -> None:
        """Remove what was made for the child. Idempotent."""
        around, self._around = self._around, None
        if around is not None:
            await self._programs.clear(around)


NO_DESCRIPTORS: Final[Mapping[int, int]] = {}
