"""Shut a process in, in the right order, between its fork and the program or function that it is for.

    forker, once:     become(policy)
    launcher, once:   set_limits(policy) where its children need nothing else, and so no fork: they inherit them
    forker, once:     prepare(policy), which opens and computes what all calls share
    each fork:        confine(policy, program=…, scratch=…, leaf=…)
                        cgroup → namespaces → no_new_privs → landlock → capabilities → system calls → limits

Each step needs what a later one takes away. A fork that cannot be confined raises `ConfineError` and must end there.
With `means = "bubblewrap"` a fork goes from the namespaces to the limits, and `bubble.wrap` says what to execute.
"""

import functools
import glob
import os
import resource
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from tooldispatchd.forked import libc
from tooldispatchd.forked.policy import Policy
from tooldispatchd.forked.sandbox import attendant, landlock, namespaces, places, pyvenv, seccomp

OUTSIDE_BUBBLE: Final = 2
"""Processes of bubblewrap itself that are counted with a call's own: its parent, and the first of its namespace."""

_SHEBANG_BYTES: Final = 256
"""The kernel reads no more of a script's first line (BINPRM_BUF_SIZE)."""

MAX_POLICIES: Final = 64
"""Policies that one forker prepares: as many as there are sets of limits for functions of one interpreter."""

Place = tuple[int, bool]
"""A descriptor that names a file or directory, and whether it is a directory."""


_held: Final[list[tuple[int, int]]] = []
"""Ranges of descriptors that name places, each as its first and its end; open for as long as this forker lives."""


class ConfineError(OSError):
    """A process cannot be shut in as its policy asks; the message says what was tried and why it failed."""


class PreparedPolicy(NamedTuple):
    """The parts that all calls under one policy share; its descriptors are closed when a program is executed."""

    policy: Policy
    handled: landlock.Handled | None
    """The rights that Landlock takes away; None where nothing is shut in, or bubblewrap does it."""
    readable: tuple[Place, ...]
    devices: tuple[Place, ...]
    writable: tuple[Place, ...]
    code: bytes
    """The filter of system calls; empty where nothing is shut in."""
    has_mounts: bool
    """Whether forks get mounts of their own, in which files, or those of the kernel, are read-only."""
    holds: bool = False
    """Whether forks can have an attendant, with which all that they start ends."""


def become(policy: Policy) -> None:
    """Take on the policy's groups, group and user; raises ConfineError."""
    try:
        if policy.gid is not None or policy.uid is not None:
            os.setgroups(policy.groups)
        if policy.gid is not None:
            os.setresgid(policy.gid, policy.gid, policy.gid)
        if policy.uid is not None:
            os.setresuid(policy.uid, policy.uid, policy.uid)
    except OSError as error:
        raise _failure(f"cannot become user {policy.uid}, group {policy.gid}", error) from error


def set_limits(policy: Policy) -> None:
    """Put the policy's limits on this process and on those that it starts; may be done again. Raises ConfineError.

    `processes` is not among them: it needs a namespace or a cgroup of the call's own. A process that lives on must look
    at `is_worn`: the limit on processor time is its own too.
    """
    asked = {
        resource.RLIMIT_CPU: policy.cpu_s,
        # Not the address space, of which node and Go reserve terabytes that they never touch.
        resource.RLIMIT_DATA: policy.memory,
        resource.RLIMIT_NOFILE: policy.files,
        resource.RLIMIT_FSIZE: policy.file_size,
        resource.RLIMIT_CORE: 0,
    }
    try:
        for kind, amount in asked.items():
            if amount is not None:
                _limit(kind, amount, spare=1 if kind == resource.RLIMIT_CPU else 0)
        if policy.nice is not None:
            os.setpriority(os.PRIO_PROCESS, 0, max(policy.nice, os.getpriority(os.PRIO_PROCESS, 0)))
        if any(amount is not None for amount in (policy.cpu_s, policy.memory, policy.files, policy.file_size)):
            namespaces.keep_limits()
    except (OSError, ValueError) as error:
        raise _failure("cannot set limits", error) from error


def is_worn(policy: Policy) -> bool:
    """Whether this process has used so much of its own processor time that another should take its place."""
    return policy.cpu_s is not None and time.process_time() > policy.cpu_s / 2


@functools.lru_cache(maxsize=MAX_POLICIES)
def prepare(policy: Policy) -> PreparedPolicy:
    """Open and compute what all calls share, once in a forker, as the policy's user; raises ConfineError.

    Paths of `read` and `write` that do not exist, or are not for this user to reach, are refused here.
    """
    libc.load()
    landlock.abi()
    if not policy.is_sandboxed:
        return PreparedPolicy(policy, None, (), (), (), b"", has_mounts=False)
    # Where the root may be written to, everything may, and nothing can be mounted over it.
    restricts_writes = policy.write is not None and "/" not in policy.write
    in_bubble = policy.means == "bubblewrap"
    # Where all files may be written to, root could still write to the kernel's, and change the whole machine.
    needs_mounts = restricts_writes or (policy.write is None and os.geteuid() == 0)
    has_mounts = needs_mounts and not in_bubble and _can(try_mounts)
    try:
        attributes = in_bubble or has_mounts or not restricts_writes
        code = seccomp.build(network=policy.network, attributes=attributes)
    except ValueError as error:
        raise ConfineError(str(error)) from error
    if in_bubble:
        return PreparedPolicy(policy, None, (), (), (), code, has_mounts=False)
    version, least = landlock.abi(), 1 if policy.write is None else 3
    if version < least:
        raise ConfineError(f"cannot restrict files: this needs Landlock ABI {least}, and the kernel has {version}")
    return PreparedPolicy(
        policy,
        landlock.handled(version, read=policy.read is not None, write=policy.write is not None, network=policy.network),
        () if policy.read is None else (*_system(), *_open(policy.read)),
        () if policy.read is None and policy.write is None else _devices(),
        tuple(_open(policy.write or ())),
        code,
        has_mounts,
        _can(try_holding),
    )


def confine(
    policy: Policy,
    *,
    program: str | None,
    scratch: str | None,
    leaf: int | None,
    also: Sequence[str] = (),
    attended: bool = False,
) -> None:
    """Shut this process, freshly forked and with one thread, in for good; raises ConfineError.

    `program` is the path of what will be executed. It may be read and executed, and so may its interpreter where it is
    a script, but not the directory that it stands in. `scratch` may be read and changed, `also` read. `leaf` is a
    descriptor of the `cgroup.procs` of a cgroup, opened by a process that may move others there. One that is `attended`
    gets an attendant where the machine allows it, and can start no thread then.
    """
    prepared = prepare(policy)
    # A leaf counts its processes itself.
    counted = policy.processes is not None and leaf is None
    holds = prepared.holds and attended
    step = "hold its processes together"
    try:
        # Before the cgroup, in which the attendant would be counted.
        if holds:
            try_holding()
        step = "enter the call's cgroup"
        if leaf is not None:
            os.write(leaf, b"0")
        step = "enter namespaces"
        _enter_namespaces(prepared, scratch, counted=counted, holds=holds)
        if prepared.handled is not None:
            step = "give up privileges"
            libc.forbid_privileges()
            step = "restrict files (landlock)"
            _restrict_files(prepared, program, scratch, also)
            step = "drop capabilities"
            namespaces.drop_capabilities()
            step = "filter system calls (seccomp)"
            seccomp.install(prepared.code)
        elif counted:
            # Those that its new namespace has given it; a function would keep them.
            namespaces.drop_capabilities()
        # Those of all policies: each leads past the mounts of this process, and a function would see them.
        for low, high in _held:
            os.closerange(low, high)
    except ConfineError:
        raise
    except OSError as error:
        raise _failure(f"cannot {step}", error) from error
    # Last: few descriptors and little memory may be left for what else is to be done.
    set_limits(policy)


def system_places() -> list[str]:
    """The system's own files and directories, which every program may read."""
    found = [match for pattern in places.RUNTIMES for match in glob.glob(f"/etc/{pattern}")]  # noqa: PTH207  # as fast
    return [*places.SYSTEM, *places.SETTINGS, *found, *places.KERNEL]


def _limit(kind: int, amount: int, *, spare: int) -> None:
    # Never above the limit that holds already, which only root may raise.
    _, hard = resource.getrlimit(kind)
    most = amount + spare if hard == resource.RLIM_INFINITY else min(amount + spare, hard)
    resource.setrlimit(kind, (min(amount, most), most))


def _enter_namespaces(prepared: PreparedPolicy, scratch: str | None, *, counted: bool, holds: bool) -> None:
    policy = prepared.policy
    if counted and os.getuid() == 0:
        raise ConfineError("cannot count the processes of a call: root is exempt, which needs `user` or a cgroup")
    if holds and os.geteuid() != 0:
        if prepared.has_mounts:
            namespaces.enter_mount_namespace()
    elif counted or (prepared.has_mounts and os.geteuid() != 0):
        namespaces.enter_user_namespace(with_mounts=prepared.has_mounts)
    elif prepared.has_mounts:
        namespaces.enter_mount_namespace()
    if prepared.has_mounts and policy.write is None:
        namespaces.make_kernel_read_only()
    elif prepared.has_mounts:
        namespaces.make_read_only([*(policy.write or ()), *([scratch] if scratch else [])])
    if counted and policy.processes is not None:
        # Behind the namespace: before, it would also bound what its parent counts.
        spare = OUTSIDE_BUBBLE if policy.is_sandboxed and policy.means == "bubblewrap" else int(holds)
        _limit(resource.RLIMIT_NPROC, policy.processes + spare, spare=0)


def _hold(found: list[Place]) -> list[Place]:
    for fd, _ in found:
        if _held and _held[-1][1] == fd:
            _held[-1] = (_held[-1][0], fd + 1)
        else:
            _held.append((fd, fd + 1))
    return found


@functools.cache
def _system() -> list[Place]:
    # A path beneath another, by its links (`/bin` in `/usr`), needs no rule: each costs all calls its time.
    real = dict.fromkeys(os.path.realpath(path) for path in system_places())
    return _hold(landlock.open_places([path for path in real if not any(path.startswith(f"{one}/") for one in real)]))


@functools.cache
def _devices() -> tuple[Place, ...]:
    return tuple(_hold(landlock.open_places(places.DEVICES)))


def _restrict_files(prepared: PreparedPolicy, program: str | None, scratch: str | None, also: Sequence[str]) -> None:
    assert prepared.handled is not None
    everything = prepared.handled.files
    with landlock.Ruleset(prepared.handled) as rules:
        _allow(rules, prepared.readable, landlock.READ)
        _allow(rules, prepared.devices, landlock.READ | landlock.WRITE_FILE | landlock.IOCTL_DEV)
        _allow(rules, prepared.writable, everything & ~landlock.MAKE_DEVICES)
        if scratch is not None:
            rules.allow_path(scratch, everything & ~landlock.MAKE_DEVICES)
        if prepared.policy.read is not None:
            own = run_by(program)
            for path in own:
                rules.allow_path(path, landlock.READ)
            for path in environments_of(own):
                rules.allow_path(path, landlock.READ, is_straight=True)
            for path in ("/proc/self", *also):
                rules.allow_path(path, landlock.READ)
        if prepared.policy.write is None:
            # Files may be moved; never to where more could be done with them, which the kernel sees to itself.
            rules.allow_path("/", landlock.REFER)
        rules.restrict_self()


def run_by(program: str | None) -> list[str]:
    """The program and, where it is a script, the interpreter that its first line names."""
    if program is None:
        return []
    try:
        fd = os.open(program, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        # Executable and not readable: no script then, which its interpreter must read.
        return [program]
    try:
        line = os.read(fd, _SHEBANG_BYTES).partition(b"\n")[0]
    finally:
        os.close(fd)
    words = line[2:].split(maxsplit=1) if line.startswith(b"#!") else []
    return [program, *map(os.fsdecode, words[:1])]


def environments_of(programs: Sequence[str]) -> list[str]:
    """The directories of the Python virtual environments that the programs stand in, without symbolic links."""
    return list(dict.fromkeys(path for program in programs for path in pyvenv.environment_of(program)))


def _allow(rules: landlock.Ruleset, found: Sequence[Place], rights: int) -> None:
    for fd, is_directory in found:
        rules.allow(fd, rights, is_directory=is_directory)


def _open(paths: Sequence[str]) -> list[Place]:
    found: list[Place] = []
    for path in paths:
        try:
            found += _hold([landlock.open_place(path, is_straight=True)])
        except OSError as error:
            raise _failure(f"cannot let a program use '{path}'", error) from error
    return found


def try_mounts() -> None:
    """Enter namespaces in which nothing can be changed; raises OSError where this user may not."""
    if os.geteuid() == 0:
        namespaces.enter_mount_namespace()
    else:
        namespaces.enter_user_namespace(with_mounts=True)
    namespaces.make_read_only(())


def try_holding() -> None:
    """Have all that this process starts end with it; raises OSError where this user may not."""
    if os.geteuid() != 0:
        namespaces.enter_user_namespace()
    attendant.hold_descendants()


@functools.cache
def _can(attempt: Callable[[], None]) -> bool:
    """Whether `attempt` succeeds, in a process of its own."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            attempt()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _failure(what: str, error: Exception) -> ConfineError:
    if isinstance(error, OSError):
        return ConfineError(error.errno, f"{what}: {error.strerror or error}")
    return ConfineError(f"{what}: {error}")
