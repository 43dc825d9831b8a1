"""The first process of a PID namespace: it holds together whatever a function that is shut in starts. Stdlib only.

    function ──▶ program ──▶ … ── its parents end ──▶ attendant ── the function's process ends ──▶ all end, at once

The function's process stays outside of the namespace, where none that it has started can signal it or name it; so it
can keep their limits. With the attendant the kernel ends all others in its namespace, which none of them can leave,
whatever their session, their environment and the speed at which they fork. See pid_namespaces(7).
"""

import os
import select
import signal
import socket
import struct
from contextlib import suppress
from typing import Final, NoReturn

from tooldispatchd.forked.libc import check, load, prctl, syscall

_NEW_PIDS: Final = 0x20000000
_PR_SET_PDEATHSIG: Final = 1
_CLONE: Final = {"x86_64": 56, "aarch64": 220}
_REQUEST: Final = struct.Struct("=BI")
# Of an attendant that does not answer nothing is waited for: it looks at a few files of the kernel.
_ANSWER_MS: Final = 500

_socket: socket.socket | None = None


def hold_descendants() -> None:
    """Have all that this process starts from now on end with it; needs CAP_SYS_ADMIN. Raises OSError.

    For a process with one thread, and no more than one from then on, before it is shut in: what is shut in can neither
    trace nor stop the attendant.
    """
    global _socket  # noqa: PLW0603  # one for a process, as its namespace is
    number = _CLONE.get(os.uname().machine)
    if number is None:
        raise OSError(f"no number of clone(2) is known for {os.uname().machine}")
    ours, theirs = socket.socketpair()
    function = os.pidfd_open(os.getpid())
    try:
        check(load().unshare(_NEW_PIDS))
        # Without a signal for its end no wait(2) of the function's finds it: it is no child that the function knows of.
        if syscall(number, 0) == 0:
            _attend(function, theirs.fileno())
    finally:
        os.close(function)
        theirs.close()
    _socket = ours


def is_attended() -> bool:
    """Whether what this process starts is held together so."""
    return _socket is not None


def signal_orphans(signum: int, *, but_of: int) -> bool:
    """Signal what has lost its parent, outside the process group `but_of`; whether there is any, of that group too.

    Each gets a signal once, unless that is SIGKILL.
    """
    if _socket is None:
        return False
    try:
        _socket.sendall(_REQUEST.pack(signum, but_of))
        poll = select.poll()
        poll.register(_socket, select.POLLIN)
        return bool(poll.poll(_ANSWER_MS)) and _socket.recv(1) == b"\1"
    except OSError:
        # It has ended, and all of them with it.
        return False


def _attend(function: int, asked: int) -> NoReturn:
    """Until the function's process has ended. Nothing of the parent's may run on here."""
    try:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # The kernel reaps what ends, and none of its namespace can end its first process.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        low, high = sorted((function, asked))
        for first, end in ((0, low), (low + 1, high), (high + 1, 1 << 20)):
            os.closerange(first, end)
        poll = select.poll()
        poll.register(function, select.POLLIN)
        poll.register(asked, select.POLLIN)
        told: set[tuple[bytes, int]] = set()
        while function not in dict(poll.poll()):
            request = os.read(asked, _REQUEST.size)
            if len(request) == _REQUEST.size:
                signum, but_of = _REQUEST.unpack(request)
                os.write(asked, b"\1" if _signal(signum, but_of, told) else b"\0")
            else:
                # Its own copies of the socket are closed: it has become another program, which is yet to end.
                poll.unregister(asked)
    finally:
        os._exit(0)


def _signal(signum: int, but_of: int, told: set[tuple[bytes, int]]) -> bool:
    """Signal this process's children as `signal_orphans` says."""
    with open("/proc/thread-self/children", "rb") as file:  # noqa: PTH123  # each module touched costs its pages
        listed = file.read().split()
    told.intersection_update([(pid, number) for pid in listed for number in (signal.SIGTERM, signal.SIGCONT)])
    for pid in listed:
        if (pid, signum) in told:
            continue
        told.add((pid, signum))
        # What /proc shows are numbers of the namespace in which it was mounted.
        with suppress(OSError, ValueError, StopIteration):
            with open(b"/proc/%b/stat" % pid, "rb") as file:  # noqa: PTH123  # as above
                group = int(file.read().rpartition(b")")[2].split()[2])
            with open(b"/proc/%b/status" % pid, "rb") as file:  # noqa: PTH123  # as above
                own = next(int(line.split()[-1]) for line in file if line.startswith(b"NSpid:"))
            if group != but_of:
                os.kill(own, signum)
    return bool(listed)
