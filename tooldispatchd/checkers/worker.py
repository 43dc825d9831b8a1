"""The checker's own process: jobs from the daemon over descriptor 3, one after the other, until the daemon closes it.

    daemon ── name, arguments, payload ──▶ checker
    daemon ◀── out of memory?, reply, payload, what stands beside it ── checker

A job is a function of the package, by its name, of bytes and bytes; the daemon alone says which. The process may be
killed at any moment. Its memory is bounded: a value that takes more is refused. A defect of a job ends it.
"""

import contextlib
import gc
import importlib
import os
import resource
import socket
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

from tooldispatchd.forked.libc import load

# The sizes of a function's name, its arguments and its payload, before the words themselves.
JOB: Final = struct.Struct("<IQQ")
# Whether memory was too little, and the sizes of reply, payload and what stands beside it, likewise: each is received
# into a buffer of its own, since cutting one in two would copy it in one turn of the loop.
RESULT: Final = struct.Struct("<?QQQ")

Work = Callable[[bytes, bytearray], tuple[bytes, bytes | bytearray, *tuple[bytes, ...]]]
"""A pure function at the top of a module: arguments and payload in; a small reply, a payload and what is beside it."""

CONTROL: Final = 3
# 64 MiB of the smallest values take half of this; two such checkers still leave a small machine alive.
MEMORY_BYTES: Final = 1024 * 1024 * 1024
# After a job of this size what it freed is given back to the kernel.
LARGE_BYTES: Final = 1024 * 1024
# The dispatch thread comes first where there are few cores: a checker that had its core until the next tick of the
# scheduler (4 ms) would hold up every agent. At 5 the 99th percentile of others beside large inputs was 17 times the
# quiet one, at 10 some 4 times, at 15 it is below 2.
NICE: Final = 15
# In the environment of a checker that is to stand back no sooner than its first job is done.
HURRIED: Final = "TOOLDISPATCHD_HURRIED"


def main() -> None:
    """Serve until the daemon closes the socket."""
    if HURRIED not in os.environ:
        os.nice(NICE)
        stand_back("self", NICE)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    # Decoded values have no cycles, and looking for some would take longer than the decoding.
    gc.disable()
    with socket.socket(fileno=CONTROL) as control:
        os.set_inheritable(CONTROL, False)  # noqa: FBT003  # the standard library's own
        while serve_one(control):
            pass


def stand_back(pid: str, nice: int) -> None:
    """Let a checker's group of processes, in which it is alone, come behind others, if the kernel groups by session.

    There a process's own nice value counts within its group only. Within a control group it is the other way round.
    """
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(nice))


def renice(pid: int, nice: int) -> bool:
    """Give a checker and its group a nice value; whether the kernel allows that for the checker's own."""
    stand_back(str(pid), nice)
    try:
        os.setpriority(os.PRIO_PROCESS, pid, nice)
    except OSError:
        return False
    return True


def serve_one(control: socket.socket) -> bool:
    """Do one job; whether there may be another."""
    head = _receive(control, JOB.size)
    if head is None:
        return False
    sizes = JOB.unpack(head)
    words = [_receive(control, size) for size in sizes]
    name, arguments, payload = (word if word is not None else bytearray() for word in words)
    try:
        is_out_of_memory, (reply, result, *beside) = False, _work(name.decode())(bytes(arguments), payload)
    except MemoryError:
        is_out_of_memory, reply, result, beside = True, b"", b"", []
    try:
        control.sendall(RESULT.pack(is_out_of_memory, len(reply), len(result), sum(map(len, beside))) + reply)
        control.sendall(result)
        control.sendall(b"".join(beside))
    except ConnectionError:
        return False
    if len(payload) + len(result) + sum(map(len, beside)) > LARGE_BYTES:
        del name, arguments, payload, result, beside, words
        # Only glibc has it.
        with contextlib.suppress(AttributeError):
            load().malloc_trim(0)
    return True


@cache
def _work(name: str) -> Work:
    module, _, function = name.partition(":")
    work: Work = getattr(importlib.import_module(module), function)
    return work


def _receive(control: socket.socket, size: int) -> bytearray | None:
    """So many bytes; None where the daemon is gone."""
    chunk = bytearray(size)
    view = memoryview(chunk)
    while view:
        try:
            count = control.recv_into(view)
        except ConnectionError:
            return None
        if not count:
            return None
        view = view[count:]
    return chunk


if __name__ == "__main__":
    main()
