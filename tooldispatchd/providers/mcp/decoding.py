"""Decode a large JSON value in passes, with a stop after each: one pass over 50 MB of objects takes most of a second.

A large array or object is first cut into its raw members, which is ten times as fast as decoding them; the members
are then decoded one by one. The result is the same as that of one decoding.
"""

from collections.abc import Generator
from typing import Final

import msgspec
from msgspec import Raw

# What is decoded between two stops: some milliseconds.
PASS_BYTES: Final = 256 * 1024
# Every level costs a pass over all of it, and rows in a table in an answer are the third.
MAX_LEVELS: Final = 4

_decode: Final = msgspec.json.Decoder().decode
_decode_items: Final = msgspec.json.Decoder(list[Raw]).decode
_decode_fields: Final = msgspec.json.Decoder(dict[str, Raw]).decode


def decode_in_steps(raw: Raw, levels: int = MAX_LEVELS) -> Generator[None, None, object]:
    """The value of `raw`. Raises what a decoder raises."""
    view = memoryview(raw)
    if len(view) <= PASS_BYTES or levels == 0 or view[0] not in b"[{":
        value: object = _decode(raw)
        return value
    if view[0] in b"[":
        items = _decode_items(raw)
        yield
        return (yield from _decode_each(items, levels))
    fields = _decode_fields(raw)
    yield
    values = yield from _decode_each(list(fields.values()), levels)
    return dict(zip(fields, values, strict=True))


def _decode_each(raws: list[Raw], levels: int) -> Generator[None, None, list[object]]:
    values: list[object] = []
    since_stop = 0
    for raw in raws:
        size = len(memoryview(raw))
        if size > PASS_BYTES:
            values.append((yield from decode_in_steps(raw, levels - 1)))
            continue
        values.append(_decode(raw))
        since_stop += size
        if since_stop > PASS_BYTES:
            since_stop = 0
            yield
    return values
