"""Sizes as a configuration writes them: a number of bytes, or a number with a binary unit, as "512M"."""

import re
from typing import Final

from tooldispatchd.catalog.speckinds import TIB, Size

SIZE_ALLOWED: Final = 'bytes, as a number or with K, M, G or T: "512M"'
_TEXT: Final = re.compile(r"(?P<number>[0-9]{1,15}) ?(?P<unit>[KMGT]?)(?:i?B)?", re.ASCII)
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class SizeError(ValueError):
    """No size; the message says why."""


def size_of(size: Size, *, least: int = 1) -> int:
    """The bytes that `size` means, from `least` to `TIB`. Raises `SizeError`."""
    found = _TEXT.fullmatch(size) if isinstance(size, str) else None
    if isinstance(size, str):
        if found is None:
            raise SizeError("not a size")
        size = int(found["number"]) * _UNITS[found["unit"]]
    if not least <= size <= TIB:
        raise SizeError(f"out of range: at least {least} bytes, at most {TIB}")
    return size
