"""The tool `write`: a whole file, in place of another or new."""

import contextlib
import os
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from tooldispatchd.forked.python.context import ToolContext
from tooldispatchd.toolbox import atomic
from tooldispatchd.toolbox.guard import check_unchanged, note_read
from tooldispatchd.toolbox.places import PathText, cannot, opened
from tooldispatchd.toolbox.rewriting import file_behind, utf8, writing_to


def write(
    ctx: ToolContext, path: PathText, content: Annotated[str, Meta(description="all that is to be in it")]
) -> str:
    """Write a text file whole: a new one with the directories above it, or in place of one that was read before."""
    data = utf8("content", content)
    target = file_behind("write", path)
    made = make_parents("write", path, target)
    with writing_to("write", path, target) as directory:
        warning = check_unchanged(ctx, Path(path))
        old = target.stat() if target.exists() else None
        with atomic.new_file(directory, target.name) as descriptor:
            atomic.write_all(descriptor, data)
    note_read(ctx, Path(path))
    said = f"Wrote {len(data):,} bytes to {path}, {_instead_of(old)}{made}."
    return said if warning is None else f"{warning}\n{said}"


def make_parents(verb: str, path: str, target: Path) -> str:
    """Make the directories above `target`, and say how many in words to end a sentence with."""
    missing = [parent for parent in target.parents if not parent.exists()]
    above = target.parents[len(missing)]
    try:
        at = opened(verb, path, os.O_PATH | os.O_DIRECTORY, name=str(above)) if missing else -1
        for place in reversed(missing):
            directory = at
            try:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(place.name, dir_fd=directory)
                at = opened(verb, path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, name=place.name, at=directory)
            finally:
                os.close(directory)
    except OSError as error:
        raise cannot(verb, path, error) from error
    if missing:
        os.close(at)
    match len(missing):
        case 0:
            return ""
        case 1:
            return f"; made the directory {missing[0].name}"
        case count:
            return f"; made {count} directories above it"


def _instead_of(old: os.stat_result | None) -> str:
    if old is None:
        return "a new file"
    # A new file takes the name, so that no other name leads to what was written.
    others = f"; its {old.st_nlink - 1} other names (hard links) keep the old content" if old.st_nlink > 1 else ""
    return f"in place of {old.st_size:,}{others}"
