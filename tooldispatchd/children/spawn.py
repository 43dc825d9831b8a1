"""Start one child in a session of its own, and end it whole: its group is killed before its leader is reaped.

    started ──▶ leader exited ──▶ group killed ──▶ slot freed ──▶ leader reaped, descriptors closed

The order is the rule of this module. Until the leader is reaped its number cannot be given to another process, so
that a signal to the group can hit no other process; once it is reaped, nothing is signalled any more. The group is that
of a session, whose leader cannot leave it, and which no process of another session can join.

A child that a forker started (`forker`) is used in the same way; it is only reaped by another process.
"""

import contextlib
import fcntl
import os
import select
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec
import trio

from tooldispatchd.children.descriptors import close_all, has_exited, open_pidfd, open_pipe
from tooldispatchd.children.programs import start_program

# The kernel ends a killed process in microseconds unless it sleeps in a driver; then waiting longer does not help.
KILL_S: Final = 2.0
# How often a group whose leader has ended is looked at.
LEFT_LOOK_S: Final = 0.02


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


def exit_of(status: int) -> Exit:
    """The exit in a wait status (wait(2))."""
    code = os.waitstatus_to_exitcode(status)
    return Exit(code=code) if code >= 0 else Exit(signal=-code)


class ChildRegistry(Protocol):
    """Keeps account of children."""

    def release(self, child: "Child") -> None:
        """The child's group has been killed and its leader is about to be reaped."""

    def adopt(self, child: "Child") -> None:
        """The child was killed and does not end; it must be reaped when it does."""


class ForkingParent(Protocol):
    """A process of ours that forked a child and reaps it when it is told to."""

    def seen(self, pid: int) -> Exit | None:
        """How a child that has exited ended, where that can be told at once."""

    async def status(self, pid: int, pidfd: int) -> Exit:
        """Reap a child that has exited, and tell how it ended; bounded, raises nothing."""

    def forget(self, pid: int, pidfd: int) -> None:
        """Have a child reaped that has exited, or was killed, without waiting."""


class Child:
    """One session and its first process group: the leader `pid` of both, and our ends of its pipes.

    `stdin`, `stdout`, `stderr` and `updates` are raw non-blocking descriptors, -1 once closed, or where the child has
    none; `updates` reads what the child writes to its descriptor 3. `pidfd` is readable when the leader has exited, and
    -1 once it is reaped. Wait for the pipes in an epoll set of your own and take them out of it before they are closed:
    closing one does not wake trio's waiters, which would cost every call four system calls.

    `parent` is the forker that has the child; None where it is our own.
    """

    __slots__ = (
        *("_exit", "_is_released", "_lot", "_owner", "_parent", "_watched"),
        *("pid", "pidfd", "stderr", "stdin", "stdout", "updates"),
    )

    def __init__(
        self, pid: int, pidfd: int, pipes: Sequence[int], *, owner: ChildRegistry, parent: ForkingParent | None = None
    ) -> None:
        self.pid = pid
        self.pidfd = pidfd
        self.stdin, self.stdout, self.stderr = pipes[:3]
        self.updates = pipes[3] if len(pipes) > 3 else -1
        self._owner = owner
        self._parent = parent
        self._exit: Exit | None = None
        self._is_released = False
        self._watched = False
        self._lot = trio.lowlevel.ParkingLot()

    def close_stdin(self) -> None:
        """Close our end; the child reads end of input. Idempotent."""
        self.close_pipe(self.stdin)

    def close_pipe(self, fd: int) -> None:
        """Close our end of the pipe that is `fd`, and forget it; a child that writes there gets a broken pipe."""
        for name in ("stdin", "stdout", "stderr", "updates") if fd >= 0 else ():
            if getattr(self, name) == fd:
                setattr(self, name, -1)
                os.close(fd)
                break

    def close_pipes(self) -> None:
        """Close our ends of all pipes. Idempotent."""
        fds = self.stdin, self.stdout, self.stderr, self.updates
        self.stdin = self.stdout = self.stderr = self.updates = -1
        for fd in fds:
            if fd >= 0:
                os.close(fd)

    def signal_group(self, signum: int) -> None:
        """Signal every process of the group; nothing happens once the leader is reaped or about to be."""
        if self._is_released:
            return
        # The group may be gone, or hold only processes that changed their user.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            try:
                os.killpg(self.pid, signum)
            except ProcessLookupError:
                # A warm parent's fork that has not begun its session yet, and so has started nothing; unless it has
                # meanwhile.
                os.kill(self.pid, signum)
                os.killpg(self.pid, signum)

    def has_exited(self) -> bool:
        """Whether the leader has exited, reaped or not."""
        if self._exit is not None:
            return True
        if self._parent is None:
            return has_exited(self.pidfd)
        # Only a parent may wait for a process; that a pidfd is readable says the same to anybody.
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        return bool(poll.poll(0))

    async def exited(self) -> None:
        """Wait until the leader has exited; any number of tasks may."""
        if self.has_exited():
            await trio.lowlevel.checkpoint()
        while not self.has_exited():
            # trio lets one task wait on a descriptor: the others wait on that one.
            if self._watched:
                await self._lot.park()
                continue
            self._watched = True
            try:
                await trio.lowlevel.wait_readable(self.pidfd)
            except trio.ClosedResourceError:
                # Another task reaped the child meanwhile, which is what we waited for.
                pass
            finally:
                self._watched = False
                self._lot.unpark_all()

    def reap(self) -> Exit:
        """Kill what is left of the group, reap the leader and close every descriptor; idempotent.

        Never blocks: calling it before `has_exited()` is a defect and raises RuntimeError. A forker's child may be said
        to have been killed, for only `kill` waits for the forker to tell.
        """
        if self._exit is not None:
            return self._exit
        if not self.has_exited() or self._is_released:
            raise RuntimeError(f"cannot reap child {self.pid}: it still runs")
        if self._parent is None:
            return self._reap()
        ended = self._parent.seen(self.pid) or Exit(signal=signal.SIGKILL)
        self._release()
        self._parent.forget(self.pid, self.pidfd)
        return self._settle(ended)

    async def kill(self, *, within_s: float = KILL_S) -> Exit:
        """KILL the group, wait for its leader and reap it: how every owner ends a child.

        Cannot be cancelled, takes at most `within_s` (and, for a forker's child, the bound of the forker's answer). A
        child of our own that has exited is reaped without a checkpoint. A leader that the kernel cannot end in that
        time (it sleeps in a driver) is left to the family, which reaps it later; the exit is then given as SIGKILL, the
        only one that it can have.
        """
        if not (has_exited := self.has_exited()):
            self.signal_group(signal.SIGKILL)
            with trio.move_on_after(within_s, shield=True):
                await self.exited()
            has_exited = self.has_exited()
        if (ended := self._exit) is not None:
            return ended
        if not has_exited:
            return self.abandon()
        if self._parent is None:
            return self._reap()
        with trio.CancelScope(shield=True):
            if not self._is_released:
                self._release()
                self._settle(await self._parent.status(self.pid, self.pidfd))
            # Another task may have asked already, and gets its answer within a bound.
            while self._exit is None:
                await self._lot.park()
        assert self._exit is not None
        return self._exit

    def abandon(self) -> Exit:
        """KILL the group and wait for nothing: the family reaps the leader when it has ended."""
        if self._exit is not None:
            return self._exit
        self.signal_group(signal.SIGKILL)
        self.close_pipes()
        self._owner.adopt(self)
        return Exit(signal=signal.SIGKILL)

    async def stop(
        self, *, polite_s: float = 2.0, term_s: float = 2.0, hear: Callable[[], None] = lambda: None
    ) -> Exit:
        """Ask the child to end, ever less politely, and reap it.

        Its stdin is closed; after `polite_s` its group gets TERM, after `term_s` more KILL. A leader that ends before
        the program that it started (a shell, or a package runner in one, dies of TERM at once) leaves that the rest of
        `term_s`. Before it is reaped `hear` may read what it has still said.

        Cannot be cancelled, takes at most `polite_s + term_s` and the bound of `kill`.
        """
        self.close_stdin()
        with trio.move_on_after(polite_s, shield=True):
            await self.exited()
        if not self.has_exited() or self._has_left_some():
            self.signal_group(signal.SIGTERM)
            with trio.move_on_after(term_s, shield=True):
                await self.exited()
                while self._has_left_some():  # noqa: ASYNC110  # no event tells it
                    await trio.sleep(LEFT_LOOK_S)
        hear()
        return await self.kill()

    def _has_left_some(self) -> bool:
        """Whether processes of the group live that came to this process when the leader ended."""
        try:
            listed = Path(f"/proc/self/task/{os.getpid()}/children").read_bytes().split()
        except OSError:
            return False
        for pid in map(int, listed):
            # Ours until we reap it: the number cannot be another's meanwhile.
            with contextlib.suppress(OSError):
                is_of_group = pid != self.pid and os.getpgid(pid) == self.pid
                if is_of_group and os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                    return True
        return False

    def _reap(self) -> Exit:
        self._release()
        _, status = os.waitpid(self.pid, 0)
        return self._settle(exit_of(status))

    def _release(self) -> None:
        self.signal_group(signal.SIGKILL)
        self._is_released = True
        self._owner.release(self)

    def _settle(self, ended: Exit) -> Exit:
        self._exit = ended
        self.close_pipes()
        fd, self.pidfd = self.pidfd, -1
        if self._watched:
            trio.lowlevel.notify_closing(fd)
        os.close(fd)
        self._lot.unpark_all()
        return ended


def spawn(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | None,
    owner: ChildRegistry,
    with_updates: bool,
    is_joined: bool = False,
    extra: Mapping[int, int] = {},
) -> Child:
    """As `Family.spawn`, with exactly the environment `env` and for any `owner`; raises SpawnError.

    A child `with_updates` has a pipe to write to as its descriptor 3; any other has nothing there, unless `extra` says
    so.
    """
    try:
        theirs, ours = open_pipes(4 if with_updates else 3, is_joined=is_joined)
        try:
            sources = list(enumerate(theirs))
            if extra:
                sources += extra.items()
                # A number that is given before it has been copied would be lost: all are lifted above any number.
                free = max(number for number, _ in sources) + 1
                for at, (number, fd) in enumerate(sources):
                    if fd < free:
                        theirs.append(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, free))
                        sources[at] = (number, theirs[-1])
            pid = start_program(argv, env=env, cwd=cwd, sources=sources)
            pidfd = open_pidfd(pid)
        except BaseException:
            close_all(ours)
            raise
        finally:
            close_all(theirs)
    except OSError as error:
        why = error.strerror or str(error)
        # The kernel does not say whether it missed the directory or the program.
        if cwd is not None:
            try:
                # The dot needs the same permission as entering does, and pathlib would drop it.
                os.stat(f"{cwd}/.")  # noqa: PTH116  # as above
            except OSError as wrong:
                why = f"directory '{cwd}': {wrong.strerror}"
        raise SpawnError(argv[0], why) from error
    except ValueError as error:
        # A NUL or a lone surrogate in a word, an equals sign in a variable's name.
        raise SpawnError(argv[0], str(error)) from error
    return Child(pid, pidfd, ours, owner=owner)


def open_pipes(count: int, *, is_joined: bool = False) -> tuple[list[int], list[int]]:
    """Pipes for a child's first `count` descriptors: its ends, and ours, which do not block; raises OSError.

    With `is_joined` its stdout and stderr are one pipe, which alone tells in which order it wrote to them; of stderr we
    have no end then, which is -1.
    """
    fds: list[int] = []
    copies: list[int] = []
    try:
        for _ in range(count - is_joined):
            open_pipe(fds)
        if is_joined:
            copies.append(fcntl.fcntl(fds[3], fcntl.F_DUPFD_CLOEXEC, 3))
        # The child reads the first and writes the others.
        ours = [fds[1], *fds[2::2]]
        for fd in ours:
            os.set_blocking(fd, False)
    except BaseException:
        close_all((*fds, *copies))
        raise
    if is_joined:
        ours.insert(2, -1)
    return [fds[0], fds[3], *copies, *fds[5::2]], ours
