"""A forker's loop: requests from the daemon over descriptor 3, each with descriptors, one after the other.

    greeting ──▶ request ──▶ reply ──▶ request … ──▶ the daemon closed the socket, or it spoke nonsense: the end

A request is a dict of one key, as version 2 of `marshal` writes it, which every interpreter reads. `reap` may also
stand beside another key. A request is one datagram of at most 64 KiB. A larger one is a datagram `{"memfd": size}`,
whose last descriptor is a file in memory that holds the request.

    {"spawn": {…}}, {"fork": …}   ──▶ {"pid": n} | {"error": words}
    {"status": pid}               ──▶ {"code": n} | {"signal": n}; asked once the child has exited
    {"reap": [pid, …]}            ──▶ no reply, or that of the other key; they have exited, or were killed

Requests come from the daemon alone. Replies come from where a tool's own code may run and cannot be trusted, so they
are JSON. The first reply is the greeting, `{"ready": true}` or an error. A reply with `"retiring": true` asks for
another forker in this one's place. A request whose descriptors find no room here is answered with an error.

A child is reaped when the daemon allows it and never before, so that its number stays its own. One that has been killed
and has not ended yet is reaped after a later request. This process has one thread, which waits for the daemon, for an
exec, and for children that have ended.
"""

import errno
import json
import marshal
import os
import socket
from array import array
from collections.abc import Callable
from typing import Any, Final

CONTROL: Final = 3
MAX_DATAGRAM_BYTES: Final = 64 * 1024
# Over twice what Linux takes for words and environment together with the usual stack (2 MiB), escaped for JSON.
MAX_REQUEST_BYTES: Final = 16 * 1024 * 1024
# A child's own (0 to 5), a cgroup's and a file in memory, with room to spare.
MAX_FDS: Final = 16

FDS_SPACE: Final = socket.CMSG_SPACE(MAX_FDS * array("i").itemsize)
STARTS: Final = ("fork", "spawn")

Start = Callable[[Any, list[int]], int]
"""Starts the child that a request asks for, and gives its pid; raises OSError or ValueError where it cannot.

The descriptors that came along are closed afterwards. A child that is forked must never return, and begins a session of
its own.
"""


def serve(start: Start, *, is_retiring: Callable[[], bool] = lambda: False) -> None:
    """Greet, then serve until the daemon closes the socket; raises for what is no request."""
    os.set_inheritable(CONTROL, False)  # noqa: FBT003  # the standard library's own
    # Killed, and not yet seen to have ended: at most as many as the daemon has children.
    dying: list[int] = []
    with socket.socket(fileno=CONTROL) as control:
        _say(control, b'{"ready":true}')
        # One for all: a new one of this size would have the C library tidy its heap, which touches many pages.
        buffer = memoryview(bytearray(MAX_DATAGRAM_BYTES))
        while (received := _receive(control, buffer)) is not None:
            request, fds = received
            ended = request.pop("reap", None)
            if request or ended is None:
                _say(control, _answer(request, fds, start, is_retiring))
            if ended is not None:
                dying += ended
            # No request waits for this, and the answer has gone.
            if dying:
                dying = [pid for pid in dying if not _reap(pid)]


def refuse(error: OSError) -> None:
    """Say in the greeting's place that this forker cannot serve."""
    with socket.socket(fileno=CONTROL) as control:
        _say(control, json.dumps(failure(error)).encode())


def failure(error: OSError | ValueError) -> dict[str, Any]:
    """`error` as a reply."""
    return {"error": (error.strerror if isinstance(error, OSError) else None) or str(error)}


def _say(control: socket.socket, reply: bytes) -> None:
    # Where the daemon has died, the next read ends the loop.
    # Not `suppress`: after a fork each page that is written to is copied, and it would be an object more.
    try:  # noqa: SIM105  # as above
        control.send(reply)
    except ConnectionError:
        pass


def _receive(control: socket.socket, buffer: memoryview) -> tuple[dict[str, Any], list[int] | None] | None:
    """A request and its descriptors, None in their place where this process could not take them all."""
    try:
        size, ancillary, flags, _ = control.recvmsg_into([buffer], FDS_SPACE, socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        return None
    fds = array("i")
    for _, _, rights in ancillary:
        fds.frombytes(rights)
    if not size:
        return None
    numbers = fds.tolist()
    is_lacking = bool(flags & socket.MSG_CTRUNC)
    if flags & socket.MSG_TRUNC or (is_lacking and len(numbers) >= MAX_FDS):
        raise ValueError("a request was cut short")
    request = marshal.loads(buffer[:size])  # noqa: S302  # the daemon's own
    if is_lacking:
        for fd in numbers:
            os.close(fd)
    elif "memfd" in request:
        fd, size = numbers.pop(), request["memfd"]
        try:
            if not 0 < size <= MAX_REQUEST_BYTES:
                raise ValueError(f"a request of {size} bytes")
            request = marshal.loads(os.pread(fd, size, 0))  # noqa: S302  # as above
        finally:
            os.close(fd)
    if not isinstance(request, dict):
        raise TypeError("a request is a dict")
    return request, None if is_lacking else numbers


def _answer(request: dict[str, Any], fds: list[int] | None, start: Start, is_retiring: Callable[[], bool]) -> bytes:
    """Do what `request` asks; the reply."""
    if fds is None:
        # Some descriptors were lost (unix(7), SCM_RIGHTS).
        reply = failure(OSError(errno.EMFILE, f"its forker: {os.strerror(errno.EMFILE)}"))
        # Children that were to be reaped may have been named in what is lost: they end with this process.
        return json.dumps({**reply, "retiring": True} if "memfd" in request else reply).encode()
    ((kind, what),) = request.items()
    if kind in STARTS:
        try:
            reply = {"pid": start(what, fds)}
        except (OSError, ValueError) as error:
            reply = failure(error)
        finally:
            for fd in fds:
                os.close(fd)
    elif kind == "status":
        try:
            code = os.waitstatus_to_exitcode(os.waitpid(what, 0)[1])
            reply = {"code": code} if code >= 0 else {"signal": -code}
        except ChildProcessError as error:
            reply = failure(error)
    else:
        raise ValueError(f"there is no request '{kind}'")
    if is_retiring():
        return json.dumps({**reply, "retiring": True}).encode()
    # Nearly always, at a fraction of the cost.
    return b'{"pid":%d}' % reply["pid"] if "pid" in reply else json.dumps(reply).encode()


def _reap(pid: int) -> bool:
    """Whether there is no such child any more."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True
