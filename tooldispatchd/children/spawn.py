"""Start one child in a process group of its own, and end it whole: the group is killed before its leader is reaped.

    started ──▶ leader exited ──▶ group killed ──▶ slot freed ──▶ leader reaped, descriptors closed

The order is the rule of this module. Until the leader is reaped its number cannot be given to another process, so
that a signal to the group can hit nobody else; once it is reaped, nothing is signalled any more.
"""

import contextlib
import errno
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec
import trio

from tooldispatchd.children.descriptors import close_all, has_exited, open_pidfd, open_pipe

# The kernel ends a killed process in microseconds unless it sleeps in a driver; then waiting longer helps nobody.
KILL_S: Final = 2.0

# Python ignores the first two and its children would inherit that; the others may have been ignored by our parent
# (nohup, a shell's background job), and a child must be able to be told to end.
RESET_SIGNALS: Final = (
    *(signal.SIGPIPE, signal.SIGXFSZ),
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD),
)


class SpawnError(Exception):
    """A child could not be started: `argv0` is the program, `why` the reason in words."""

    def __init__(self, argv0: str, why: str) -> None:
        super().__init__(f"cannot start '{argv0}': {why}")
        self.argv0 = argv0
        self.why = why


class Exit(msgspec.Struct, frozen=True):
    """How a child ended: by itself with `code`, or by the number of a `signal`; exactly one is set."""

    code: int | None = None
    signal: int | None = None


class Owner(Protocol):
    """Who keeps account of children."""

    def release(self, child: "Child") -> None:
        """The child's group has been killed and its leader is about to be reaped."""

    def take_over(self, child: "Child") -> None:
        """The child was killed and does not end; it must be reaped when it does."""


class Child:
    """One process group: its leader `pid`, and our ends of its three pipes.

    `stdin`, `stdout` and `stderr` are raw non-blocking descriptors, -1 once closed. `pidfd` is readable when the
    leader has exited, and -1 once it is reaped. Wait for the pipes in an epoll set of your own and take them out of it
    before they are closed: closing one wakes nobody in trio, which would cost every call four system calls.
    """

    __slots__ = ("_exit", "_lot", "_owner", "_watched", "pid", "pidfd", "stderr", "stdin", "stdout")

    def __init__(self, pid: int, pidfd: int, pipes: tuple[int, int, int], *, owner: Owner) -> None:
        self.pid = pid
        self.pidfd = pidfd
        self.stdin, self.stdout, self.stderr = pipes
        self._owner = owner
        self._exit: Exit | None = None
        self._watched = False
        self._lot = trio.lowlevel.ParkingLot()

    def close_stdin(self) -> None:
        """Close our end; the child reads end of input. Idempotent, as its two siblings."""
        fd, self.stdin = self.stdin, -1
        _close(fd)

    def close_stdout(self) -> None:
        """Close our end; what the child writes from now on gets a broken pipe."""
        fd, self.stdout = self.stdout, -1
        _close(fd)

    def close_stderr(self) -> None:
        """Close our end; what the child writes from now on gets a broken pipe."""
        fd, self.stderr = self.stderr, -1
        _close(fd)

    def signal_group(self, signum: int) -> None:
        """Signal every process of the group; nothing happens once the leader is reaped."""
        if self._exit is None:
            # The group may be gone, or may hold only processes that changed their user.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signum)

    def has_exited(self) -> bool:
        """Whether the leader has exited, reaped or not."""
        return self._exit is not None or has_exited(self.pidfd)

    async def exited(self) -> None:
        """Wait until the leader has exited; any number of tasks may."""
        if self.has_exited():
            await trio.lowlevel.checkpoint()
        while not self.has_exited():
            # trio lets one task wait on a descriptor: the others wait on that one.
            if self._watched:
                await self._lot.park()
            else:
                await self._watch()

    def reap(self) -> Exit:
        """Kill what is left of the group, reap the leader and close every descriptor; idempotent.

        Never blocks: calling it before `has_exited()` is a defect and raises RuntimeError.
        """
        if self._exit is not None:
            return self._exit
        if not has_exited(self.pidfd):
            raise RuntimeError(f"cannot reap child {self.pid}: it still runs")
        self.signal_group(signal.SIGKILL)
        self._owner.release(self)
        _, status = os.waitpid(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        self._exit = Exit(code=code) if code >= 0 else Exit(signal=-code)
        self._close_pipes()
        fd, self.pidfd = self.pidfd, -1
        if self._watched:
            trio.lowlevel.notify_closing(fd)
        _close(fd)
        return self._exit

    async def kill(self, *, within_s: float = KILL_S) -> Exit:
        """KILL the group, wait for its leader and reap it; cannot be cancelled, takes at most `within_s`.

        A leader that the kernel cannot end in that time (it sleeps in a driver) is left to the family, which reaps
        it later; its exit is then given as by SIGKILL, which is the only one that it can have.
        """
        self.signal_group(signal.SIGKILL)
        with trio.move_on_after(within_s, shield=True):
            await self.exited()
        if self.has_exited():
            return self.reap()
        self._close_pipes()
        self._owner.take_over(self)
        return Exit(signal=signal.SIGKILL)

    async def stop(self, *, polite_s: float = 2.0, term_s: float = 2.0) -> Exit:
        """Ask the child to end, ever less politely, and reap it.

        Its stdin is closed; after `polite_s` its group gets TERM, after `term_s` more KILL. Cannot be cancelled,
        takes at most `polite_s + term_s` and the bound of `kill`.
        """
        self.close_stdin()
        with trio.move_on_after(polite_s, shield=True):
            await self.exited()
        if not self.has_exited():
            self.signal_group(signal.SIGTERM)
            with trio.move_on_after(term_s, shield=True):
                await self.exited()
        return await self.kill()

    async def _watch(self) -> None:
        self._watched = True
        try:
            await trio.lowlevel.wait_readable(self.pidfd)
        except trio.ClosedResourceError:
            # Another task reaped the child meanwhile, which is what we waited for.
            pass
        finally:
            self._watched = False
            self._lot.unpark_all()

    def _close_pipes(self) -> None:
        self.close_stdin()
        self.close_stdout()
        self.close_stderr()


def spawn(argv: Sequence[str], *, env: Mapping[str, str], cwd: str | None, owner: Owner) -> Child:
    """Start `argv` with exactly the environment `env`; raises SpawnError.

    A program without a slash is looked for in the PATH of `env`. Where `cwd` is given, a relative program or PATH
    entry starts there.
    """
    try:
        return _spawn(argv, env, cwd, owner)
    except OSError as error:
        why = error.strerror or str(error)
        # subprocess tells a bad directory from a bad program by the file that it names.
        if cwd is not None and error.filename == cwd:
            why = f"directory '{cwd}': {why}"
        raise SpawnError(argv[0], why) from error
    except ValueError as error:
        # A NUL or a lone surrogate in a word, an equals sign in a variable's name.
        raise SpawnError(argv[0], str(error)) from error


def _spawn(argv: Sequence[str], env: Mapping[str, str], cwd: str | None, owner: Owner) -> Child:
    fds: list[int] = []
    try:
        for _ in range(3):
            open_pipe(fds)
        theirs = (fds[0], fds[3], fds[5])
        ours = (fds[1], fds[2], fds[4])
        for fd in ours:
            os.set_blocking(fd, False)
        pid = _exec(argv, env, theirs) if cwd is None else _exec_in(cwd, argv, env, theirs)
        pidfd = open_pidfd(pid)
    except BaseException:
        close_all(fds)
        raise
    close_all(theirs)
    return Child(pid, pidfd, ours, owner=owner)


def _exec(argv: Sequence[str], env: Mapping[str, str], fds: tuple[int, int, int]) -> int:
    # glibc looks in our own PATH, which need not be the child's.
    program: str | None = argv[0]
    if "/" not in argv[0] and env.get("PATH") != os.environ.get("PATH"):
        program = shutil.which(argv[0], path=env.get("PATH", os.defpath))
    if program is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), argv[0])
    return os.posix_spawnp(
        program,
        list(argv),
        env,
        file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(fds)],
        setpgroup=0,
        setsigmask=(),
        setsigdef=RESET_SIGNALS,
    )


def _exec_in(cwd: str, argv: Sequence[str], env: Mapping[str, str], fds: tuple[int, int, int]) -> int:
    # posix_spawn cannot change the directory; without preexec_fn and user= this uses vfork too. It resets no mask
    # and only the signals that Python ignores, which a daemon started by a service manager has at their defaults.
    stdin, stdout, stderr = fds
    process = subprocess.Popen(argv, env=env, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr, process_group=0)  # noqa: S603  # a tool's argv is the operator's, and no shell reads it
    # It is ours to reap: subprocess would wait for it, and warn, as long as it believes that the child runs.
    process.returncode = 0
    return process.pid


def _close(fd: int) -> None:
    # Nobody waits for a pipe in trio itself: who reads one has it in an epoll set of his own.
    if fd >= 0:
        os.close(fd)
