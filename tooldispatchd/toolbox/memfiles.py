"""Files without a name, by which a program that is run takes and gives more than words of a command line can hold."""

import fcntl
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

CHUNK_BYTES: Final = 64 * 1024


@contextmanager
def memfile(content: bytes = b"", *, lowest: int = 0) -> Iterator[int]:
    """A descriptor of a file with this content, at its beginning; its number is `lowest` or above, if it may be."""
    made = os.memfd_create("tooldispatchd")
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        fd = fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, min(lowest, allowed // 2))
    finally:
        os.close(made)
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(fd, left) :]
        os.lseek(fd, 0, os.SEEK_SET)
        yield fd
    finally:
        os.close(fd)


def content_of(fd: int, max_bytes: int) -> bytes:
    """All that is in the file, of which a program may have written anything; nothing where that is too much."""
    if os.fstat(fd).st_size > max_bytes:
        return b""
    chunks = []
    at = 0
    while chunk := os.pread(fd, CHUNK_BYTES, at):
        chunks.append(chunk)
        at += len(chunk)
        if at > max_bytes:
            return b""
    return b"".join(chunks)
