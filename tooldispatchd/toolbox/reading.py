"""The tool `read`: a window of a text with numbered lines, an image, or pages of a PDF.

What a file is, its first bytes say. A text is streamed, so a file may have any size: what is in front of the window
has to be read, and lines behind it are counted for at most COUNTED_CHARS. A line ends with a newline; a carriage return
in front of that belongs to the ending. What follows the last ending is a line too, unless it is empty.
"""

import os
import stat
from collections.abc import Iterator
from io import BufferedReader, FileIO, TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TextIO

from msgspec import Meta

from tooldispatchd.forked.python.context import ToolContext
from tooldispatchd.toolbox.encodings import Encoding, encoding_of, shown
from tooldispatchd.toolbox.guard import note_read
from tooldispatchd.toolbox.magic import binary_kind, image_type, is_pdf
from tooldispatchd.toolbox.pdf import pages_of
from tooldispatchd.toolbox.places import PathText, cannot, check_inside, kind_of, opened

# About 16,000 tokens, which is as much as a model should get unasked.
MAX_TEXT_BYTES: Final = 64 * 1024
# Providers of models take no larger images.
MAX_IMAGE_BYTES: Final = 5 * 1024 * 1024
# Wide enough for what people write, and for most tables; of minified code and data nobody reads more.
MAX_LINE_CHARS: Final = 2_000
# Takes 0.1 s where the file is in the page cache, and a second or more from a disk.
COUNTED_CHARS: Final = 256 * 1024 * 1024
# The encoding is inferred from these. Tools that edit take the whole file: with less, the two would often differ.
_HEAD_BYTES: Final = 1024 * 1024
_BLOCK: Final = 256 * 1024


class _Line(NamedTuple):
    """A line's beginning, without its ending; `left_out` characters follow, or more where `is_open`."""

    text: str
    ending: str
    left_out: int
    is_open: bool

    def __str__(self) -> str:
        if not self.left_out:
            return self.text
        return f"{self.text}… {'at least ' * self.is_open}{self.left_out:,} characters left out …"


def read(
    path: PathText,
    ctx: ToolContext,
    offset: Annotated[int, Meta(ge=1, description="the first line, or the first page of a PDF")] = 1,
    limit: Annotated[int, Meta(ge=1, description="how many lines, or pages of a PDF")] = 2000,
) -> Annotated[list[Any], "parts"]:
    """Read a text file with line numbers, an image, or the text of a PDF."""
    check_inside("read", path)
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
    return open(path, "rb", buffering=0, opener=lambda name, _: opened("read", name, 0))


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
    file.seek(len(encoding.mark))
    # As `text_of` does: a stray byte is one character, here too.
    errors = "surrogateescape" if encoding.name == "utf-8" else "replace"
    with TextIOWrapper(BufferedReader(file, _BLOCK), encoding.name, errors, newline="\n") as text:
        return [_window(ctx, path, text, encoding, offset=offset, limit=limit)]


def _up_to(most: int, file: FileIO) -> bytes:
    """The next bytes, fewer than `most` only at the end: files in /proc give what they like."""
    found = bytearray()
    while len(found) < most and (block := os.read(file.fileno(), most - len(found))):
        found += block
    return bytes(found)


def _window(ctx: ToolContext, path: str, text: TextIO, encoding: Encoding, *, offset: int, limit: int) -> str:
    before = _skipped(text, offset - 1)
    lines, over = _fitting(text, offset, limit)
    if not lines:
        if before:
            raise ctx.invalid("offset", f"{path} has {before:,} line{'s' * (before > 1)}")
        return f"[{path} is empty]"
    last = offset + len(lines) - 1
    rest, is_cut = (0, True) if (over or lines[-1]).is_open else _counted(text)
    total = last + (over is not None) + rest
    notes = [f"lines {offset:,}-{last:,} of {'at least ' * is_cut}{total:,}", *_peculiar(lines, encoding)]
    if over is not None:
        notes.append(f"{MAX_TEXT_BYTES // 1024} KiB are shown")
    if last < total or is_cut:
        notes.append(f"go on with offset={last + 1}")
    return "\n".join([f"[{'; '.join(notes)}]", *(f"{number}\t{line}" for number, line in enumerate(lines, offset))])


def _skipped(text: TextIO, most: int) -> int:
    """Skip so many lines; fewer are skipped where there are no more."""
    skipped, is_within = 0, False
    while True:
        # Line by line only in the block in which the window begins: that takes twenty times as long.
        place = text.tell()
        lines = (block := text.read(_BLOCK)).count("\n")
        if len(block) < _BLOCK or skipped + lines >= most:
            text.seek(place)
            break
        skipped += lines
        is_within = not block.endswith("\n")
    while skipped < most and (piece := text.readline(_BLOCK)):
        is_within = not piece.endswith("\n")
        skipped += not is_within
    return skipped + is_within


def _fitting(text: TextIO, first: int, most: int) -> tuple[list[_Line], _Line | None]:
    """The lines that have room in the answer with their numbers, and the first that has none."""
    lines: list[_Line] = []
    left = MAX_TEXT_BYTES
    while len(lines) < most and (line := _taken(text)) is not None:
        left -= len(f"{first + len(lines)}\t{line}\n".encode())
        if left < 0:
            return lines, line
        lines.append(line)
        if line.is_open:
            break
    return lines, None


def _taken(text: TextIO) -> _Line | None:
    """The next line; None at the end."""
    # With room for the ending, and never all of a long line.
    head = piece = text.readline(MAX_LINE_CHARS + 2)
    length = len(head)
    while not piece.endswith("\n") and length < COUNTED_CHARS and (more := text.readline(_BLOCK)):
        length += len(more)
        piece = piece[-1:] + more
    if not head:
        return None
    ending = "\r\n" if piece.endswith("\r\n") else "\n" * piece.endswith("\n")
    length -= len(ending)
    kept = head[: min(length, MAX_LINE_CHARS)]
    return _Line(shown(kept), ending, length - len(kept), is_open=not ending and length >= COUNTED_CHARS)


def _counted(text: TextIO) -> tuple[int, bool]:
    """How many lines are left, of at most COUNTED_CHARS, and whether there is more."""
    lines = counted = 0
    last = "\n"
    while counted < COUNTED_CHARS and (block := text.read(_BLOCK)):
        lines += block.count("\n")
        counted += len(block)
        last = block[-1]
    return lines + (last != "\n"), bool(text.read(1))


def _peculiar(lines: list[_Line], encoding: Encoding) -> Iterator[str]:
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
