"""The tool `read`: a window of a text with numbered lines, an image, or pages of a PDF.

What a file is, its first bytes say. A text is streamed, so a file may have any size: what is in front of the window
has to be read, and lines behind it are counted for at most COUNTED_CHARS.
"""

import codecs
import os
import stat
from collections.abc import Iterator
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Annotated, Any, Final

from msgspec import Meta

from tooldispatchd.forked.python.context import ToolContext
from tooldispatchd.toolbox.encodings import Encoding, encoding_of, shown
from tooldispatchd.toolbox.guard import note_read
from tooldispatchd.toolbox.lines import LineStream, ReadLine
from tooldispatchd.toolbox.magic import binary_kind, image_type, is_pdf
from tooldispatchd.toolbox.pdf import pages_of
from tooldispatchd.toolbox.places import PathText, cannot, kind_of

# About 16,000 tokens, which is as much as a model should get unasked.
MAX_TEXT_BYTES: Final = 64 * 1024
# Providers of models take no larger images.
MAX_IMAGE_BYTES: Final = 5 * 1024 * 1024
# Takes 0.1 s where the file is in the page cache, and a second or more from a disk.
COUNTED_CHARS: Final = 256 * 1024 * 1024
# The encoding is inferred from these. Tools that edit take the whole file: with less, the two would often differ.
_HEAD_BYTES: Final = 1024 * 1024
_BLOCK_BYTES: Final = 256 * 1024


def read(
    path: PathText,
    ctx: ToolContext,
    offset: Annotated[int, Meta(ge=1, description="the first line, or the first page of a PDF")] = 1,
    limit: Annotated[int, Meta(ge=1, description="how many lines, or pages of a PDF")] = 2000,
) -> Annotated[list[Any], "parts"]:
    """Read a text file with line numbers, an image, or the text of a PDF."""
    try:
        with _opened(path) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ctx.failed(f"cannot read {path}: it is {kind_of(status.st_mode)}")
            parts = _parts(ctx, path, file, offset=offset, limit=limit)
    except OSError as error:
        raise cannot("read", path, error) from error
    note_read(ctx, Path(path), status)
    return parts


def _opened(path: str) -> FileIO:
    """Opened without waiting, as for a FIFO that nobody writes to; what it is is asked of what was opened."""
    return open(path, "rb", buffering=0, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_NOCTTY))


def _parts(ctx: ToolContext, path: str, file: FileIO, *, offset: int, limit: int) -> list[object]:
    head = _up_to(_HEAD_BYTES, file)
    size = f"{max(os.fstat(file.fileno()).st_size, len(head)):,} bytes"
    if not head:
        return [f"[{path} is empty]"]
    if is_pdf(head):
        return [pages_of(ctx, path, BufferedReader(file), offset=offset, limit=limit, max_bytes=MAX_TEXT_BYTES)]
    if media_type := image_type(head):
        data = head + _up_to(MAX_IMAGE_BYTES + 1 - len(head), file)
        if len(data) > MAX_IMAGE_BYTES:
            raise ctx.failed(f"cannot read {path}: it is an image of {size}, and one may have {MAX_IMAGE_BYTES:,}")
        return [f"[{path}: {media_type}, {size}]", {"type": "image", "data": data, "mimeType": media_type}]
    whole_lines = head.rfind(b"\n") + 1 if len(head) == _HEAD_BYTES else 0
    if (encoding := encoding_of(head[: whole_lines or None])) is None:
        return [f"[{path} is no text: {binary_kind(head)}, {size}]"]
    stream = LineStream(_decoded(encoding, head, file))
    return [_window(ctx, path, stream, encoding, offset=offset, limit=limit)]


def _up_to(most: int, file: FileIO) -> bytes:
    """The next bytes, fewer than `most` only at the end: files in /proc give what they like."""
    found = bytearray()
    while len(found) < most and (block := os.read(file.fileno(), most - len(found))):
        found += block
    return bytes(found)


def _decoded(encoding: Encoding, head: bytes, file: FileIO) -> Iterator[str]:
    # As `text_of` does: a stray byte is one character, here too.
    errors = "surrogateescape" if encoding.name == "utf-8" else "replace"
    decoder = codecs.getincrementaldecoder(encoding.name)(errors)
    yield decoder.decode(head[len(encoding.mark) :])
    while block := os.read(file.fileno(), _BLOCK_BYTES):
        yield decoder.decode(block)
    yield decoder.decode(b"", final=True)


def _window(ctx: ToolContext, path: str, stream: LineStream, encoding: Encoding, *, offset: int, limit: int) -> str:
    before = stream.skip(offset - 1)
    stream.left_chars = COUNTED_CHARS
    lines, is_more = _fitting(stream, offset, limit)
    if not lines:
        if before:
            raise ctx.invalid("offset", f"{path} has {before:,} line{'s' * (before > 1)}")
        return f"[{path} is empty]"
    last = offset + len(lines) - 1
    total = last + is_more + stream.skip()
    notes = [f"lines {offset:,}-{last:,} of {'at least ' * stream.is_cut}{total:,}", *_peculiar(lines, encoding)]
    if is_more and len(lines) < limit:
        notes.append(f"{MAX_TEXT_BYTES // 1024} KiB are shown")
    if last < total or stream.is_cut:
        notes.append(f"go on with offset={last + 1}")
    return "\n".join([f"[{'; '.join(notes)}]", *(f"{number}\t{line}" for number, line in enumerate(lines, offset))])


def _fitting(stream: LineStream, first: int, most: int) -> tuple[list[ReadLine], bool]:
    """The lines that have room in the answer with their numbers, and whether one more was taken."""
    lines: list[ReadLine] = []
    left = MAX_TEXT_BYTES
    while (taken := stream.take()) is not None:
        line = taken._replace(text=shown(taken.text))
        left -= len(f"{first + len(lines)}\t{line}\n".encode())
        if left < 0 or len(lines) == most:
            return lines, True
        lines.append(line)
    return lines, False


def _peculiar(lines: list[ReadLine], encoding: Encoding) -> Iterator[str]:
    """What somebody who changes the file has to know."""
    endings = {line.ending for line in lines}
    if "\r\n" in endings:
        yield "CRLF and LF mixed" if "\n" in endings else "CRLF"
    if encoding != Encoding():
        yield str(encoding)
    if lines[-1].ending == "" and not lines[-1].is_open:
        yield "no newline at the end"
    if any("\N{REPLACEMENT CHARACTER}" in line.text for line in lines):
        yield "� stands for what cannot be decoded"
