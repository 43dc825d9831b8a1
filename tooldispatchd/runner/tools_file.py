"""The tools of an agent in a file of its own, for programs that hand them to a model at their start."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Raw


@contextmanager
def tools_file(tools: Sequence[Raw], environ: Mapping[str, str]) -> Iterator[Path]:
    """A file with a JSON list of `tools`, as the daemon wrote them; gone, with its directory, at the end.

    They are in the form that `hello` asked for; in the plain one each is `{name, title?, description, input_schema}`.
    The mode is 0600 in a directory of 0700, under $XDG_RUNTIME_DIR if that can be written, else where temporary files
    are. Raises OSError.
    """
    directory = _make_directory(environ)
    try:
        path = directory / "tools.json"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(msgspec.json.encode(tools) + b"\n")
        yield path
    finally:
        # Whole: an agent may have put a file of its own beside it.
        shutil.rmtree(directory, ignore_errors=True)


def _make_directory(environ: Mapping[str, str]) -> Path:
    prefix = "tooldispatchd-run-"
    runtime = environ.get("XDG_RUNTIME_DIR")
    if runtime:
        try:
            return Path(tempfile.mkdtemp(prefix=prefix, dir=runtime)).absolute()
        except OSError:
            # It belongs to another user after `su`, or does not exist in a container.
            pass
    return Path(tempfile.mkdtemp(prefix=prefix)).absolute()
