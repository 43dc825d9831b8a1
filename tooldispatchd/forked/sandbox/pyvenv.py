"""The parts of a Python virtual environment without which the interpreter of a program in it cannot start.

    ENV/pyvenv.cfg    home = PREFIX/bin
    ENV/bin/python    a link into PREFIX/bin; its standard library lies in PREFIX/lib/python3.N

A program that may write to the environment may write its settings too, so that a prefix counts only if it is an
installation of Python: another directory is not made readable. See https://docs.python.org/3/library/venv.html.
"""

import errno
import glob
import os
from typing import Final

_MAX_BYTES: Final = 4096
_PARTS: Final = ("bin", "lib", "lib64")


def environment_of(program: str) -> list[str]:
    """The directories, without symbolic links, of the environment of `program` and of the Python that it was made of.

    Nothing where the program stands in no environment.
    """
    place = os.path.dirname(os.path.dirname(program))  # noqa: PTH120  # for every call; half the cost of Path
    if not place.strip("/"):
        return []
    home = _home(f"{place}/pyvenv.cfg")
    if home is None:
        return []
    found = [os.path.realpath(place)]
    prefix = os.path.dirname(os.path.realpath(home))  # noqa: PTH120  # as above
    # Escaped: the path may hold what a pattern would.
    if prefix.strip("/") and glob.glob(f"{glob.escape(prefix)}/lib*/python3*/os.py"):  # noqa: PTH207  # as above
        parts = [f"{prefix}/{name}" for name in _PARTS]
        found += [part for part in parts if os.path.isdir(part) and not os.path.islink(part)]  # noqa: PTH112, PTH114  # as above
    return found


def _home(settings: str) -> str | None:
    """The directory that `home` names in the file; None where there is no such file, or no such line in it."""
    try:
        # It may be a pipe whose other end is never opened.
        fd = os.open(settings, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        return None
    try:
        lines = os.read(fd, _MAX_BYTES).split(b"\n")
    except OSError:
        return None
    finally:
        os.close(fd)
    for line in lines:
        key, _, value = line.partition(b"=")
        if key.strip().lower() == b"home" and os.path.isabs(value.strip()):  # noqa: PTH117  # as above
            return os.fsdecode(value.strip())
    return None
