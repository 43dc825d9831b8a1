"""The checker's own process: jobs from the daemon over descriptor 3, one after the other, until the daemon closes it.

    daemon ── name, arguments, payload ──▶ checker
    daemon ◀── out of memory?, reply, payload ── checker

A job is a function of the package, by its name, of bytes and bytes; the daemon alone says which. The process may be
killed at any moment. Its memory is bounded: a value that takes more is refused. A defect of a job ends it.
"""

import contextlib
import gc
import importlib
import os
import resource
import socket
from functools import cache
from pathlib import Path
from typing import Final

from tooldispatchd.checkers.frames import JOB, RESULT, Work
from tooldispatchd.forked.libc import load

CONTROL: Final = 3
# 64 MiB of the smallest values take half of this; two such checkers still leave a small machine alive.
MEMORY_BYTES: Final = 1024 * 1024 * 1024
# After a job of this size what it freed is given back to the kernel.
LARGE_BYTES: Final = 1024 * 1024
# The dispatch thread comes first where there are few cores.
NICE: Final = 15


def main() -> None:
    """Serve until the daemon closes the socket."""
    os.nice(NICE)
    # Where the kernel groups processes by session, that is nothing to any but its own group, in which it is alone.
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(NICE))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    # Decoded values have no cycles, and looking for some would take longer than the decoding.
    gc.disable()
    with socket.socket(fileno=CONTROL) as control:
        os.set_inheritable(CONTROL, False)  # noqa: FBT003  # the standard library's own
        while serve_one(control):
            pass


def serve_one(control: socket.socket) -> bool:
    """Do one job; whether there may be another."""
    head = _receive(control, JOB.size)
    if head is None:
        return False
    sizes = JOB.unpack(head)
    words = [_receive(control, size) for size in sizes]
    name, arguments, payload = (word if word is not None else bytearray() for word in words)
    is_out_of_memory, reply, result = _do(name.decode(), bytes(arguments), payload)
    try:
        control.sendall(RESULT.pack(is_out_of_memory, len(reply), len(result)) + reply)
        control.sendall(result)
    except ConnectionError:
        return False
    if len(payload) + len(result) > LARGE_BYTES:
        del name, arguments, payload, result, words
        _trim()
    return True


def _do(name: str, arguments: bytes, payload: bytearray) -> tuple[bool, bytes, bytes | bytearray]:
    try:
        return False, *_work(name)(arguments, payload)
    except MemoryError:
        return True, b"", b""


@cache
def _work(name: str) -> Work:
    module, _, function = name.partition(":")
    work: Work = getattr(importlib.import_module(module), function)
    return work


def _receive(control: socket.socket, size: int) -> bytearray | None:
    """So many bytes; None where the daemon is gone."""
    if not size:
        return bytearray()
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


def _trim() -> None:
    with contextlib.suppress(AttributeError):
        # Only glibc has it.
        load().malloc_trim(0)


if __name__ == "__main__":
    main()
