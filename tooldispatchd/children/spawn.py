"""Start one child in a process group of its own, and end it whole: the group is killed before its leader is reaped.

    started ──▶ leader exited ──▶ group killed ──▶ slot freed ──▶ leader reaped, descriptors closed

The order is the rule of this module. Until the leader is reaped its number cannot be given to another process, so
that a signal to the group can hit nobody else; once it is reaped, nothing is signalled any more.
"""

import contextlib
import ctypes
import errno
import functools
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
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

# <spawn.h>: a group of its own, default signals, a signal mask.
SPAWN_FLAGS: Final = 0x02 | 0x04 | 0x08
# More than any C library takes for its list of actions, its attributes (336 on Linux) or a set of signals.
OPAQUE_BYTES: Final = 1024


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
    """One process group: its leader `pid`, and our ends of its pipes.

    `stdin`, `stdout`, `stderr` and `updates` are raw non-blocking descriptors, -1 once closed; `updates` reads what the
    child writes to its descriptor 3, and is -1 where it has none. `pidfd` is readable when the leader has exited, and
    -1 once it is reaped. Wait for the pipes in an epoll set of your own and take them out of it before they are closed:
    closing one wakes nobody in trio, which would cost every call four system calls.
    """

    __slots__ = ("_exit", "_lot", "_owner", "_watched", "pid", "pidfd", "stderr", "stdin", "stdout", "updates")

    def __init__(self, pid: int, pidfd: int, pipes: Sequence[int], *, owner: Owner) -> None:
        self.pid = pid
        self.pidfd = pidfd
        self.stdin, self.stdout, self.stderr = pipes[:3]
        self.updates = pipes[3] if len(pipes) > 3 else -1
        self._owner = owner
        self._exit: Exit | None = None
        self._watched = False
        self._lot = trio.lowlevel.ParkingLot()

    def close_stdin(self) -> None:
        """Close our end; the child reads end of input. Idempotent, as its siblings."""
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

    def close_updates(self) -> None:
        """Close our end, where there is one; what the child writes from now on gets a broken pipe."""
        fd, self.updates = self.updates, -1
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
        self.close_updates()


def spawn(argv: Sequence[str], *, env: Mapping[str, str], cwd: str | None, owner: Owner, with_updates: bool) -> Child:
    """Start `argv` with exactly the environment `env`; raises SpawnError.

    A program without a slash is looked for in the PATH of `env`. Where `cwd` is given, a relative program or PATH
    entry starts there. A child `with_updates` has a pipe to write to as its descriptor 3; any other has nothing there.
    """
    try:
        return _spawn(argv, env, cwd, owner, pipes=4 if with_updates else 3)
    except OSError as error:
        why = error.strerror or str(error)
        # The kernel does not say whether it missed the directory or the program.
        if cwd is not None and (wrong := _directory_error(cwd)) is not None:
            why = f"directory '{cwd}': {wrong}"
        raise SpawnError(argv[0], why) from error
    except ValueError as error:
        # A NUL or a lone surrogate in a word, an equals sign in a variable's name.
        raise SpawnError(argv[0], str(error)) from error


def _spawn(argv: Sequence[str], env: Mapping[str, str], cwd: str | None, owner: Owner, *, pipes: int) -> Child:
    fds: list[int] = []
    try:
        for _ in range(pipes):
            open_pipe(fds)
        # The child reads the first and writes the others.
        theirs = (fds[0], *fds[3::2])
        ours = (fds[1], *fds[2::2])
        for fd in ours:
            os.set_blocking(fd, False)
        pid = _exec(argv, env, theirs) if cwd is None else _exec_in(cwd, argv, env, theirs)
        pidfd = open_pidfd(pid)
    except BaseException:
        close_all(fds)
        raise
    close_all(theirs)
    return Child(pid, pidfd, ours, owner=owner)


def _exec(argv: Sequence[str], env: Mapping[str, str], fds: Sequence[int]) -> int:
    program = argv[0]
    # glibc looks in our own PATH, which need not be the child's.
    if "/" not in program and env.get("PATH") != os.environ.get("PATH"):
        program = _find(program, env.get("PATH", os.defpath))
    return os.posix_spawnp(
        program,
        list(argv),
        env,
        # No source is below 3; the one that may be 3 has been copied, or is the fourth, when 3 is written to.
        file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(fds)],
        setpgroup=0,
        setsigmask=(),
        setsigdef=RESET_SIGNALS,
    )


def _exec_in(cwd: str, argv: Sequence[str], env: Mapping[str, str], fds: Sequence[int]) -> int:
    # Python's posix_spawn cannot change the directory; its subprocess cannot give a child descriptor 3 but by
    # preexec_fn, for which it forks the whole daemon. The C library can do both.
    program = argv[0]
    if "/" not in program:
        here = Path(cwd).absolute()
        program = _find(program, os.pathsep.join(str(here / entry) for entry in os.get_exec_path(env)))
    if any("=" in name for name in env):
        raise ValueError("illegal environment variable name")
    paths = _strings([cwd, program])
    words, variables = _strings(argv), _strings([f"{name}={value}" for name, value in env.items()])
    libc = _libc()
    actions, attributes, signals, pid = _opaque(), _opaque(), _opaque(), ctypes.c_int()
    libc.posix_spawn_file_actions_init(actions)
    libc.posix_spawnattr_init(attributes)
    try:
        _check(libc.posix_spawn_file_actions_addchdir_np(actions, paths[0]))
        for number, fd in enumerate(fds):
            _check(libc.posix_spawn_file_actions_adddup2(actions, fd, number))
        libc.posix_spawnattr_setflags(attributes, SPAWN_FLAGS)
        libc.sigemptyset(signals)
        libc.posix_spawnattr_setsigmask(attributes, signals)
        for signum in RESET_SIGNALS:
            libc.sigaddset(signals, signum)
        libc.posix_spawnattr_setsigdefault(attributes, signals)
        _check(libc.posix_spawn(ctypes.byref(pid), paths[1], actions, attributes, words, variables))
    finally:
        libc.posix_spawn_file_actions_destroy(actions)
        libc.posix_spawnattr_destroy(attributes)
    return pid.value


def _find(program: str, path: str) -> str:
    found = shutil.which(program, path=path)
    if found is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    return found


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def _opaque() -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(OPAQUE_BYTES)


def _strings(words: Sequence[str]) -> ctypes.Array[ctypes.c_char_p]:
    """The words as C has them, with a NULL behind; raises ValueError for what no C string can hold."""
    encoded = [os.fsencode(word) for word in words]
    if any(0 in word for word in encoded):
        raise ValueError("embedded null byte")
    return (ctypes.c_char_p * (len(encoded) + 1))(*encoded, None)


def _check(number: int) -> None:
    if number:
        raise OSError(number, os.strerror(number))


def _directory_error(cwd: str) -> str | None:
    """Why `cwd` cannot be entered; None where it can."""
    try:
        # The dot needs the same permission as entering does, and pathlib would drop it.
        os.stat(f"{cwd}/.")  # noqa: PTH116  # as above
    except OSError as error:
        return error.strerror
    return None


def _close(fd: int) -> None:
    # Nobody waits for a pipe in trio itself: who reads one has it in an epoll set of his own.
    if fd >= 0:
        os.close(fd)
