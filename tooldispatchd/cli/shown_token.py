"""The token that a command shows for its session."""

import os
from typing import Final

# No token is longer; it must fit into a socket's buffer.
MAX_TOKEN_BYTES: Final = 65_536


def read_token(path: str | os.PathLike[str] | None) -> str | None:
    """The token of a file, without the newline at its end, or of `$TOOLDISPATCHD_TOKEN`; None where there is none.

    Raises OSError or ValueError for a file that holds none.
    """
    if path is None:
        return os.environ.get("TOOLDISPATCHD_TOKEN") or None
    with open(path, "rb") as file:  # noqa: PTH123  # pathlib takes milliseconds to import, and `call` has not many
        said = file.read(MAX_TOKEN_BYTES + 1)
    if len(said) > MAX_TOKEN_BYTES:
        raise ValueError(f"it is longer than {MAX_TOKEN_BYTES} bytes")
    return said.decode().rstrip("\r\n")
