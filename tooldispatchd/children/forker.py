"""The daemon's side of one forker: a process that starts others for it (`tooldispatchd.forked`).

    started ──▶ greeted ──▶ starts children, tells how they ended ──▶ retiring ──▶ its last child reaped ──▶ ended
       └────────────┴──────────────────┴── dead, silent, or speaking nonsense ──▶ gone: killed, its children live on

The forker reaps a child only when told, so that the child's number stays its own as long as the forker lives; what the
forker says is believed only of a process that is still its child. When it dies its children come to the daemon
(`orphans`): those that were registered are reaped by their owners, any other is an orphan whose number no living child
has, and is killed.
"""

import os
import re
import signal
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

import trio

from tooldispatchd.children.control import Control, ForkerGone, ForkerReply
from tooldispatchd.children.family import Family, Reservation
from tooldispatchd.children.pipes import rest
from tooldispatchd.children.procstat import fields_of
from tooldispatchd.children.spawn import KILL_S, Child, Exit, SpawnError, exit_of
from tooldispatchd.children.tail import STDERR_TAIL_BYTES, Tail

# A fork takes milliseconds, however many stand in line; on a busy machine, at the lowest priority, a hundred times so.
ANSWER_S: Final = 5.0

# While a forker starts, what it says is read so often, lest it wait for room in the pipe.
DRAIN_S: Final = 0.1
# And so often while it talks.
BUSY_DRAIN_S: Final = 0.001


# The exit of a child that cannot be learnt any more: never taken for a success.
UNKNOWN: Final = Exit(signal=signal.SIGKILL)


class Forker:
    """One forker, from its start: raises SpawnError where it cannot be started.

    `argv` runs a program of `tooldispatchd.forked`, which finds the control socket as its descriptor 3 and greets over
    it once it can serve. `name` is what messages call it; `answer_s` bounds every answer, in seconds. `children` counts
    those that it has started and has not been told to reap.
    """

    def __init__(
        self,
        family: Family,
        argv: Sequence[str],
        *,
        name: str,
        env: Mapping[str, str] = {},
        cwd: str | None = None,
        answer_s: float = ANSWER_S,
    ) -> None:
        self.name = name
        self.children = 0
        self._family = family
        self._is_ready = False
        self._is_retiring = False
        self._errors = Tail(STDERR_TAIL_BYTES)
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError as error:
            raise SpawnError(argv[0], error.strerror or str(error)) from error
        try:
            self._process = family.spawn(argv, env=env, cwd=cwd, extra={3: theirs.fileno()})
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._control = Control(ours, answer_s=answer_s, take=self._take, fail=self._give_up)
        family.forkers.add(self)
        self._process.close_stdin()
        self._process.close_pipe(self._process.stdout)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_usable(self) -> bool:
        """Whether it may be asked for another child."""
        return not self._control.is_closed and not self._is_retiring

    @property
    def is_gone(self) -> bool:
        """Whether it is known to have died or was ended."""
        return self._control.is_closed

    @property
    def is_idle(self) -> bool:
        """Whether no request waits for it, and it has no child."""
        return not self.children and self._control.is_idle

    @property
    def is_ready(self) -> bool:
        """Whether it has greeted, and can serve as far as is known."""
        return self._is_ready and not self.is_gone

    async def ready(self) -> None:
        """Wait until it has greeted. Raises ForkerGone with its own words where it cannot serve."""
        greeting: ForkerReply | None = None
        while greeting is None:
            # A module that talks while it is imported must not wait for room in the pipe.
            is_busy = self._drain()
            with trio.move_on_after(BUSY_DRAIN_S if is_busy else DRAIN_S):
                greeting = await self._control.greeting()
        if greeting.error is not None:
            self._give_up(greeting.error)
            raise ForkerGone(greeting.error)
        self._is_ready = True

    async def start_child(
        self, reserved: Reservation, argv0: str, request: Mapping[str, object], fds: Sequence[int], pipes: Sequence[int]
    ) -> Child:
        """Have a child started: `request` as the protocol has it (`forked.loop`), with our `fds` sent along.

        `pipes` are our ends, as `Child` takes them; they are its own when this returns, and still the caller's when it
        raises, as `fds` always are. Raises SpawnError where the forker cannot start it and ForkerGone where the forker
        died before it answered; the reservation is cancelled then. Once the request is sent this cannot be cancelled,
        takes at most `answer_s`, and returns the child even if the caller is cancelled by then.
        """
        self._drain()
        try:
            reply = await self._control.ask(request, fds)
            pid, pidfd = self._hold(reply, argv0)
        except OSError as error:
            self._family.cancel(reserved)
            raise SpawnError(argv0, error.strerror or str(error)) from error
        except BaseException:
            self._family.cancel(reserved)
            raise
        child = Child(pid, pidfd, pipes, owner=self._family, parent=self)
        self._family.register(child, reserved)
        return child

    def retire(self) -> None:
        """Let it have no more children, and end it when the last one is reaped, as if it had asked; idempotent."""
        self._is_retiring = True
        self._end_if_done()

    def end(self) -> None:
        """KILL it, wait for nothing; its children live on as ours. The family reaps it. Idempotent."""
        self._give_up("it was ended")

    async def close(self) -> None:
        """End it and reap it; bounded by KILL_S, cannot be cancelled. Idempotent."""
        self.end()
        await self._dead()
        if self._process.has_exited():
            self._process.reap()

    def seen(self, pid: int) -> Exit | None:
        """How a child that nobody has reaped yet ended, as /proc tells it: a round trip less for each call.

        None where the kernel does not tell this user.
        """
        if not TELLS_EXITS or self.is_gone:
            return None
        try:
            # A user that may not know is told 0, and may not follow this link either. It is gone when a process ended.
            os.readlink(f"/proc/{pid}/cwd")  # noqa: PTH115  # a path that is made and thrown away in each call
        except FileNotFoundError:
            with suppress(OSError):
                return exit_of(int(fields_of(pid)[-1]))
        except OSError:
            pass
        return None

    async def status(self, pid: int, pidfd: int) -> Exit:
        """Have it reap `pid`; where it is gone, reap the child here, if the kernel gave it to the daemon."""
        reply: ForkerReply | None = None
        # A child of one that is gone is to be reaped here; one that cannot be asked is of no use.
        with suppress(ForkerGone):
            try:
                reply = await self._control.ask({"status": pid})
            except OSError as error:
                self._give_up(f"it cannot be asked: {error.strerror}")
        self.children -= 1
        if reply is None:
            # Its children are ours from when it has exited, which is after its socket was closed.
            await self._dead()
            return _reap_adopted(pidfd)
        self._end_if_done()
        if reply.code is None and reply.signal is None:
            return UNKNOWN
        return Exit(code=reply.code) if reply.signal is None else Exit(signal=reply.signal)

    def forget(self, pid: int, pidfd: int) -> None:
        """Have it reap `pid`, which has exited or was killed, with its next request or soon."""
        self.children -= 1
        if self.is_gone:
            # One that has not ended yet is reaped as an orphan later.
            _reap_adopted(pidfd)
        else:
            self._control.reap(pid)
            self._family.remind(self._control.flush)
            self._end_if_done()

    def _end_if_done(self) -> None:
        if self._is_retiring and self.is_idle:
            self._give_up("it has retired")

    def _take(self, reply: ForkerReply) -> None:
        self._is_retiring |= reply.retiring
        # At once: a forker without children may be ended before the task that asked for this one has its turn.
        self.children += reply.pid is not None

    def _hold(self, reply: ForkerReply, argv0: str) -> tuple[int, int]:
        """The pid of a new child and a pidfd; raises SpawnError, or OSError where there is none to be had."""
        if reply.pid is None:
            self._end_if_done()
            raise SpawnError(argv0, reply.error or f"the {self.name} does not say why")
        pid, pidfd = reply.pid, -1
        try:
            pidfd = os.pidfd_open(pid)
            # A child of the forker that is not reaped: the number is its own.
            if int(fields_of(pid)[1]) == self._process.pid:
                return pid, pidfd
        except (FileNotFoundError, ProcessLookupError):
            pass
        except OSError as error:
            # Out of descriptors: it cannot be known whose number it is. A child that cannot be watched must not live,
            # and without its forker it is killed as an orphan.
            self._lose(pidfd, f"its child cannot be watched: {error.strerror}")
            raise
        # It died, and its child came to us: as an orphan, which may have been reaped, its number given to another.
        self._lose(pidfd, "it ended")
        raise SpawnError(argv0, f"the {self.name} ended when it had been started")

    def _lose(self, pidfd: int, why: str) -> None:
        if pidfd >= 0:
            os.close(pidfd)
        self.children -= 1
        self._give_up(why)

    def _give_up(self, why: str) -> None:
        if not self._control.is_closed:
            self._drain()
            said = self._errors.text().strip().rpartition("\n")[2]
            self._control.close(f"{why} ({said})" if said else why)
            self._process.abandon()

    async def _dead(self) -> None:
        with trio.move_on_after(KILL_S, shield=True):
            await self._process.exited()

    def _drain(self) -> bool:
        """Take what lies in its stderr; whether there was anything."""
        before = self._errors.total
        for chunk in rest(self._process.stderr):
            self._errors.add(chunk)
        return self._errors.total > before


# Whether proc(5) tells how a process ended as wait(2) does. Before Linux 5.17 it told the first thread's end, which is
# not its process's where another thread outlived that one.
TELLS_EXITS: Final = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) >= (5, 17)


def _reap_adopted(pidfd: int) -> Exit:
    """Reap a child whose forker is dead; UNKNOWN where another process has it, it is reaped, or has no pidfd."""
    try:
        ended = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)
    except OSError:
        return UNKNOWN
    if ended is None:
        return UNKNOWN
    return Exit(code=ended.si_status) if ended.si_code == os.CLD_EXITED else Exit(signal=ended.si_status)
