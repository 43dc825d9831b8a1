"""Secrets out of files and the environment, read while a configuration is loaded; no error bears any part of one."""

import os
import stat
from collections.abc import Mapping

import msgspec


class SecretError(Exception):
    """Why a secret cannot be had; it is caught where the place that names it is known."""

    def __init__(self, why: str, allowed: str | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.allowed = allowed


class SecretFile(msgspec.Struct, frozen=True):
    """What a file holds, with bytes that are no UTF-8 as lone surrogates, and its mode's twelve bits."""

    text: str
    mode: int

    @property
    def is_exposed(self) -> bool:
        """Whether users other than its owner and its group may read or change it."""
        return bool(self.mode & (stat.S_IROTH | stat.S_IWOTH))

    def __repr__(self) -> str:
        """Its mode alone."""
        return f"SecretFile(mode={self.mode:04o})"


def is_anyones(path: str) -> str | None:
    """Why a file that the daemon obeys may be anybody's words; None where only its owner and a group may write there.

    A group that may write was chosen by somebody who may. Raises OSError.
    """
    real = os.path.realpath(path)
    mode = os.stat(real).st_mode  # noqa: PTH116  # strings are wanted
    if not stat.S_ISREG(mode):
        return None
    if mode & stat.S_IWOTH:
        return f"anybody may write it (mode {stat.S_IMODE(mode):04o})"
    around = os.stat(os.path.dirname(real)).st_mode  # noqa: PTH116, PTH120  # as above
    if around & stat.S_IWOTH and not around & stat.S_ISVTX:
        return f"anybody may put another file in its place: its directory has mode {stat.S_IMODE(around):04o}"
    return None


def read_variable(name: str, environ: Mapping[str, str]) -> str:
    """What a variable holds; raises `SecretError`."""
    if name not in environ:
        raise SecretError("the environment has no such variable")
    return environ[name]


def read_secret_file(path: str, max_bytes: int, *, what: str) -> SecretFile:
    """What a file holds without the newline at its end; `what` it is the file of stands in a `SecretError`.

    Of a file over `max_bytes` a little more than that is read, so that who looks at the text finds it too long.
    """
    try:
        # A pipe or a terminal would be waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            mode = os.fstat(descriptor).st_mode
            # One more than a newline at the end may add.
            content = os.read(descriptor, max_bytes + 3) if stat.S_ISREG(mode) else None
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "no file can have this name"
        raise SecretError(f"cannot read the {what}'s file: {why}") from None
    if content is None:
        raise SecretError(f"cannot read the {what}'s file: it is not a regular file")
    text = content.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "surrogateescape")
    return SecretFile(text, stat.S_IMODE(mode))
