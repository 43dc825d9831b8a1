"""Change a file's text: it is read, changed and put in place while no other call writes in its directory.

The directory is locked from before the guard is asked: of two sessions that change one file at once the second is told
that it was modified, and undoes nothing.
"""

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from tooldispatchd.forked.python.context import InvalidInputError, ToolContext, ToolFailedError
from tooldispatchd.toolbox import atomic, difference
from tooldispatchd.toolbox.encodings import Text, bytes_of, shown, text_of
from tooldispatchd.toolbox.guard import check_unchanged, note_read
from tooldispatchd.toolbox.places import cannot, check_inside, check_opened, kind_of, opened

# Some copies of it are in memory at once, at up to four bytes a character.
MAX_TEXT_BYTES: Final = 16 * 1024 * 1024
# Enough to choose from; the agent can search for the rest.
_MAX_TOLD_LINES: Final = 20


class Rewritten(msgspec.Struct, frozen=True):
    """A file's text before and after, and the guard's warning where it gave one."""

    path: str
    before: str
    after: str
    warning: str | None

    def told(self, headline: str) -> str:
        """The answer to the agent: the warning, `headline`, and what changed."""
        diff = shown(difference.shown(self.before, self.after, self.path))
        return "\n".join(part for part in (self.warning, headline, diff) if part)


def rewrite(ctx: ToolContext, verb: str, path: str, change: Callable[[Text], str], *, make: bool = False) -> Rewritten:
    """Replace the text of the file at `path` by what `change` makes of it; nothing is done where that raises.

    With `make` a file that is not there is an empty one. Raises ToolFailedError.
    """
    target = file_behind(verb, path)
    with writing_to(verb, path, target) as directory:
        warning = check_unchanged(ctx, Path(path))
        text = Text("") if make and not target.exists() else read_text(verb, path, target.name, directory)
        after = msgspec.structs.replace(text, text=change(text))
        try:
            content = bytes_of(after)
        except UnicodeEncodeError as error:
            missing = error.object[error.start]
            raise ToolFailedError(f"cannot {verb} {path}: its encoding, {text.encoding}, has no {missing}") from error
        with atomic.new_file(directory, target.name) as descriptor:
            atomic.write_all(descriptor, content)
    note_read(ctx, Path(path))
    return Rewritten(path, text.text, after.text, warning)


def at_lines(numbers: list[int]) -> str:
    """How many times something stands in a text, and where: `2 times, at lines 3, 17`."""
    more = len(numbers) - _MAX_TOLD_LINES
    listed = ", ".join(map(str, numbers[:_MAX_TOLD_LINES])) + (f" and {more:,} more" if more > 0 else "")
    return f"{len(numbers):,} times, at lines {listed}"


def file_behind(verb: str, path: str) -> Path:
    """Where the file at `path` really is, through links; raises ToolFailedError for what is there and is no file."""
    check_inside(verb, path)
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116  # of the path as it was given
    except FileNotFoundError:
        return resolved(verb, path)
    except OSError as error:
        raise cannot(verb, path, error) from error
    if not stat.S_ISREG(mode):
        raise ToolFailedError(f"cannot {verb} {path}: it is {kind_of(mode)}")
    return resolved(verb, path)


def resolved(verb: str, path: str | Path) -> Path:
    """The path without links, which need not be there; raises ToolFailedError where one is replaced meanwhile."""
    try:
        return Path(os.path.realpath(path))
    except OSError as error:
        raise cannot(verb, path, error) from error


@contextlib.contextmanager
def writing_to(verb: str, path: str, target: Path) -> Iterator[int]:
    """The locked directory of `target`; what the kernel refuses within is told of `path`, as the agent named it."""
    try:
        with atomic.locked(target.parent, partial(check_opened, verb, path)) as directory:
            yield directory
    except OSError as error:
        raise cannot(verb, path, error) from error


def utf8(field: str, text: str) -> bytes:
    """The text's bytes; raises InvalidInputError for a surrogate alone, which JSON can say and no file can hold."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(field, f"character {error.start + 1} is half of a surrogate pair") from error


def read_text(verb: str, path: str, name: str, directory: int = -1) -> Text:
    """The text of the file `name`, which is resolved; raises OSError, and ToolFailedError for what is no text."""
    # Not through a link: what has become one since may lead anywhere.
    descriptor = opened(verb, path, name=name, at=directory)
    with open(descriptor, "rb") as file:  # noqa: PTH123  # a descriptor is no path
        data = file.read(MAX_TEXT_BYTES + 1)
    if len(data) > MAX_TEXT_BYTES:
        raise ToolFailedError(f"cannot {verb} {path}: it is larger than {MAX_TEXT_BYTES:,} bytes")
    text = text_of(data)
    if text is None:
        raise ToolFailedError(f"cannot {verb} {path}: it is binary, not text")
    return text
