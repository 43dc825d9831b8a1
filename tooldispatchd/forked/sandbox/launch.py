"""The launcher: puts a policy's limits on itself once, then starts programs that inherit them. Stdlib only.

    become user ──▶ prepared ──┬─ set limits ──▶ greeted ──▶ posix_spawn for each call
                               └─ greeted ──▶ fork, confine, exec for each call that needs something of its own

Where nothing but inherited limits is asked for, the program is started at the speed of vfork. A fork that cannot be
confined, or cannot execute the program, says so through a pipe that an exec closes: a failed start is never taken for a
program's own exit.
"""

import errno
import os
import signal
from typing import Any, Final, NamedTuple, NoReturn

from tooldispatchd.forked import loop
from tooldispatchd.forked.nolinks import enter_straight
from tooldispatchd.forked.policy import Policy
from tooldispatchd.forked.sandbox import bubble, confine
from tooldispatchd.forked.signals import RESET_SIGNALS

# The numbers that children may be given; this process opens nothing below, so that giving one overwrites no other.
MAX_TARGETS: Final = 10

# So many this process itself needs to have open: under a lower limit each call is forked, and limited there.
LEAST_FILES: Final = 32

# Twice what this process itself needs (8 MiB when it serves): as for files. Confining takes as much, so that it is the
# least that a program which is shut in can be given.
LEAST_MEMORY: Final = 16 * 1024 * 1024

# Nothing grows here; should anything, in the interpreter or the C library, it ends with the launcher.
MAX_LAUNCHES: Final = 100_000

# More than any sentence of why a program cannot be started.
MAX_WHY_BYTES: Final = 4096


class LaunchRequest(NamedTuple):
    """The program's words, environment and directory, and the call's private directory."""

    argv: list[str]
    env: dict[str, str]
    cwd: str | None
    fds: list[int]
    """The numbers in the child of the descriptors that came along, in their order, each below MAX_TARGETS - 1."""
    scratch: str | None
    held: list[int] | None = None
    """The device and inode of its directory, of whose path no part may be a link then."""


class Launcher:
    """Starts programs under `policy`, which this process takes on; raises OSError with a sentence where it cannot.

    Where `has_leaf`, the last descriptor of each request is the `cgroup.procs` of a cgroup for that call: it was opened
    by the daemon, which may write to it; this process, as another user, perhaps may not.
    """

    def __init__(self, policy: Policy, *, has_leaf: bool) -> None:
        self._policy = policy
        self._has_leaf = has_leaf
        self._launched = 0
        # Every number below MAX_TARGETS is taken, so that none is given to what comes along.
        while os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC) < MAX_TARGETS - 1:
            pass
        self._home = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._is_away = False
        self._is_wrapping = policy.is_sandboxed and policy.means == "bubblewrap"
        self._is_forking = (
            has_leaf
            or policy.processes is not None
            or (policy.is_sandboxed and not self._is_wrapping)
            or (policy.files is not None and policy.files < LEAST_FILES)
            or (policy.memory is not None and policy.memory < LEAST_MEMORY)
        )
        confine.become(policy)
        self._filter = confine.prepare(policy).code
        if not self._is_forking:
            confine.set_limits(policy)

    def is_retiring(self) -> bool:
        """Whether another should take its place; its own processor time is limited too."""
        return self._launched >= MAX_LAUNCHES or confine.is_worn(self._policy)

    def start(self, request: dict[str, Any], fds: list[int]) -> int:
        """Start the program of `request` (a `LaunchRequest`); its pid. Raises OSError or ValueError with a sentence."""
        launch = LaunchRequest(**request)
        if max(launch.fds) >= MAX_TARGETS - 1:
            raise ValueError(f"no descriptor above {MAX_TARGETS - 2} can be given")
        self._launched += 1
        cwd = launch.cwd
        try:
            # This process goes where the child starts: it has but one thread, and one call at a time.
            if cwd is not None:
                self._is_away = True
                if launch.held is None:
                    os.chdir(cwd)
                else:
                    enter_straight(cwd, launch.held)
            elif self._is_away:
                os.fchdir(self._home)
                self._is_away = False
        except OSError as error:
            raise OSError(error.errno, f"directory '{cwd or '.'}': {error.strerror}") from error
        sources = list(zip(launch.fds, fds, strict=False))
        if self._is_wrapping:
            return self._wrap(launch, sources, fds)
        if self._is_forking:
            return self._fork(launch, find(launch), sources, fds)
        return _spawn(launch, sources)

    def _wrap(self, launch: LaunchRequest, sources: list[tuple[int, int]], fds: list[int]) -> int:
        """Start bubblewrap, which starts the program."""
        program = os.path.abspath(find(launch))  # noqa: PTH100  # a word of a command line
        # Each call reads it from its own start.
        code = bubble.filter_descriptor(self._filter)
        # The program gets it as another number, and not twice.
        os.set_inheritable(code, False)  # noqa: FBT003  # its own way to say it
        try:
            number = max(launch.fds) + 1
            argv = bubble.wrap(
                self._policy, launch.argv, cwd=launch.cwd, scratch=launch.scratch, seccomp_fd=number, program=program
            )
            wrapped = launch._replace(argv=argv)
            sources.append((number, code))
            return self._fork(wrapped, argv[0], sources, fds) if self._is_forking else _spawn(wrapped, sources)
        finally:
            os.close(code)

    def _fork(self, launch: LaunchRequest, program: str, sources: list[tuple[int, int]], fds: list[int]) -> int:
        reading, writing = os.pipe2(os.O_CLOEXEC)
        try:
            pid = os.fork()
            if pid == 0:
                self._become(launch, program, sources, fds[-1] if self._has_leaf else None, writing)
        finally:
            os.close(writing)
        with os.fdopen(reading, "rb") as said:
            why = said.read(MAX_WHY_BYTES)
        if not why:
            return pid
        os.waitpid(pid, 0)
        raise OSError(why.decode(errors="replace"))

    def _become(
        self, launch: LaunchRequest, program: str, sources: list[tuple[int, int]], leaf: int | None, writing: int
    ) -> NoReturn:
        """In the fork: shut this process in and execute the program, or say why not, and end."""
        # Prepared, as there may be no memory left to say more.
        said = b"it cannot be said why"
        try:
            os.setsid()
            for signum in RESET_SIGNALS:
                signal.signal(signum, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            for target, fd in sources:
                os.dup2(fd, target)
            confine.confine(self._policy, program=program, scratch=launch.scratch, leaf=leaf)
            os.execve(program, launch.argv, launch.env)  # noqa: S606  # no shell is wanted
        except OSError as error:
            # Never empty, which would say that the program has been executed.
            said = (error.strerror or str(error) or type(error).__name__).encode(errors="replace")
        except BaseException as error:  # noqa: ASYNC103, BLE001  # nothing of the parent's may run on in the child
            said = f"{type(error).__name__}: {error}".encode(errors="replace")
        finally:
            try:
                os.write(writing, said[:MAX_WHY_BYTES])
            finally:
                os._exit(127)


def serve_launches(policy: str, *, has_leaf: bool) -> None:
    """Serve under `policy` (as `Policy.to_json` writes it), until the daemon ends it."""
    try:
        launcher = Launcher(Policy.from_json(policy), has_leaf=has_leaf)
    except OSError as error:
        loop.refuse(error)
    else:
        loop.serve(launcher.start, is_retiring=launcher.is_retiring)


def find(launch: LaunchRequest) -> str:
    """Where the program lies, in the PATH that it will have itself; raises FileNotFoundError."""
    program = launch.argv[0]
    if "/" in program:
        return program
    path = launch.env.get("PATH", os.defpath)
    # In no path there is nothing to look into; in a directory of the call's own it means that directory.
    for entry in path.split(os.pathsep) if path or launch.cwd is not None else ():
        found = os.path.join(entry or ".", program)  # noqa: PTH118  # a fifth of the cost of Path, in each call
        if os.access(found, os.X_OK) and not os.path.isdir(found):  # noqa: PTH112  # as above
            return found
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)


def _spawn(launch: LaunchRequest, sources: list[tuple[int, int]]) -> int:
    # The C library looks in our own PATH, which is mostly the program's too.
    is_same_path = launch.env.get("PATH") == os.environ.get("PATH")
    return os.posix_spawnp(
        launch.argv[0] if is_same_path else find(launch),
        launch.argv,
        launch.env,
        file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in sources],
        setsid=True,
        setsigmask=(),
        setsigdef=RESET_SIGNALS,
    )
