"""JSON in which the keys of each object stand in order, so that equal values have one text, of which digests are made.

The digest in a question for approval is none of these: it is that of the input as it stands in the question. Pure.
"""

from typing import Final

import msgspec

# Beyond it not every whole number is a double, and a double not always what was written.
_MAX_EXACT: Final = 2.0**53

_decode: Final = msgspec.json.Decoder().decode
in_order: Final = msgspec.json.Encoder(order="deterministic").encode
"""Of a value of Structs and JSON; of numbers as they are: 1 and 1.0 are two."""


def canonical(line: bytes | bytearray) -> bytes:
    """JSON that is equal for equal values (RFC 8259), and only for these. Raises `RecursionError`."""
    return in_order(_plain(_decode(line)))


def _plain(value: object) -> object:
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < _MAX_EXACT else value
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value
