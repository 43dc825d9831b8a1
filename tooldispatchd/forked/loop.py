"""A forker's loop: requests from the daemon over descriptor 3, each with descriptors, one after the other.

    greeting ──▶ request ──▶ reply ──▶ request … ──▶ the daemon closed the socket, or it spoke nonsense: the end

Requests are JSON objects with one key, at most 64 KiB in one datagram; a larger one is a datagram `{"memfd": size}`
whose last descriptor is a file in memory that holds it.

    {"spawn": {…}}, {"fork": {…}}   ──▶ {"pid": n} | {"error": words, "errno": n}
    {"status": pid}                 ──▶ {"code": n} | {"signal": n}; asked once the child has exited
    {"reap": [pid, …]}              ──▶ no reply; they have exited, or were killed

The first thing said is the greeting, `{"ready": true}` or an error. A reply may say `"retiring": true`: another forker
should take this one's place. A child is reaped when it is asked for and never before, so that its number stays its own.
Single-threaded and blocking: nothing here waits for anything but the daemon, an exec and children that have ended.
"""

import json
import os
import socket
from array import array
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

CONTROL: Final = 3
MAX_DATAGRAM_BYTES: Final = 64 * 1024
# Over twice what Linux takes for words and environment together with the usual stack (2 MiB), escaped for JSON.
MAX_REQUEST_BYTES: Final = 16 * 1024 * 1024
# A child's own (0 to 5), a cgroup's and a file in memory, with room to spare.
MAX_FDS: Final = 16

Start = Callable[[dict[str, Any], list[int]], int]
"""Starts a child for what the request says with the descriptors that came along, which are closed afterwards; its pid.

Raises OSError or ValueError where it cannot. A child that it forks must never return.
"""


def serve(start: Start, *, is_retiring: Callable[[], bool] = lambda: False) -> None:
    """Greet, then serve until the daemon closes the socket; raises ValueError for what is no request."""
    os.set_inheritable(CONTROL, False)  # noqa: FBT003  # the standard library's own
    with socket.socket(fileno=CONTROL) as control:
        _say(control, {"ready": True})
        while (received := _receive(control)) is not None:
            request, fds = received
            reply = _answer(request, fds, start)
            if reply is not None:
                if is_retiring():
                    reply["retiring"] = True
                _say(control, reply)


def refuse(error: OSError) -> None:
    """Say in the greeting's place that this forker cannot serve."""
    with socket.socket(fileno=CONTROL) as control:
        _say(control, failure(error))


def failure(error: OSError | ValueError) -> dict[str, Any]:
    """`error` as a reply."""
    if isinstance(error, OSError):
        return {"error": error.strerror or str(error), "errno": error.errno}
    return {"error": str(error)}


def _say(control: socket.socket, reply: dict[str, Any]) -> None:
    # Nobody listens any more where the daemon has died; the next read ends the loop.
    with suppress(ConnectionError):
        control.send(json.dumps(reply).encode())


def _receive(control: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    fds = array("i")
    try:
        chunk, ancillary, flags, _ = control.recvmsg(
            MAX_DATAGRAM_BYTES, socket.CMSG_SPACE(MAX_FDS * fds.itemsize), socket.MSG_CMSG_CLOEXEC
        )
    except ConnectionResetError:
        return None
    for _, _, rights in ancillary:
        fds.frombytes(rights)
    if not chunk:
        return None
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        raise ValueError("a request was cut short")
    request = json.loads(chunk)
    if "memfd" in request:
        request = json.loads(_read_memory(fds.pop(), request["memfd"]))
    if not isinstance(request, dict) or len(request) != 1:
        raise ValueError("a request has one key")
    return request, list(fds)


def _read_memory(fd: int, size: int) -> bytes:
    try:
        if not 0 < size <= MAX_REQUEST_BYTES:
            raise ValueError(f"a request of {size} bytes")
        return os.pread(fd, size, 0)
    finally:
        os.close(fd)


def _answer(request: dict[str, Any], fds: list[int], start: Start) -> dict[str, Any] | None:
    ((kind, what),) = request.items()
    if kind in {"spawn", "fork"}:
        reply = _start(start, what, fds)
        if kind == "fork" and "pid" in reply:
            # The child does so too: whoever is first, it is done before the daemon hears of it.
            with suppress(OSError):
                os.setpgid(reply["pid"], reply["pid"])
        return reply
    if kind == "status":
        return _status(what)
    if kind == "reap":
        for pid in what:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
        return None
    raise ValueError(f"there is no request '{kind}'")


def _start(start: Start, what: dict[str, Any], fds: list[int]) -> dict[str, Any]:
    try:
        pid = start(what, fds)
    except (OSError, ValueError) as error:
        return failure(error)
    finally:
        for fd in fds:
            os.close(fd)
    return {"pid": pid}


def _status(pid: int) -> dict[str, Any]:
    try:
        _, status = os.waitpid(pid, 0)
    except ChildProcessError as error:
        return failure(error)
    code = os.waitstatus_to_exitcode(status)
    return {"code": code} if code >= 0 else {"signal": -code}
