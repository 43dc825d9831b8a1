"""The tools `delete`, `move` and `copy`: of the thing at a path itself, which for a link is the link."""

import contextlib
import errno
import os
import shutil
import stat
from functools import partial
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from tooldispatchd.forked.python.context import ToolContext, ToolFailedError
from tooldispatchd.toolbox import atomic
from tooldispatchd.toolbox.copying import copy_into
from tooldispatchd.toolbox.guard import check_unchanged, check_unmodified, note_read
from tooldispatchd.toolbox.places import PathText, cannot, check_inside, check_opened, held, kind_of
from tooldispatchd.toolbox.rewriting import resolved
from tooldispatchd.toolbox.writing import make_parents

Overwrite = Annotated[bool, Meta(description="replace a file that is at the target")]


def delete(
    ctx: ToolContext,
    path: PathText,
    *,
    recursive: Annotated[bool, Meta(description="a directory with all that is in it")] = False,
) -> str:
    """Delete a file, a link or an empty directory; with `recursive` a directory with all that is in it."""
    place = _located("delete", path)
    _keep_workspace(ctx, "delete", path, place)
    warning = None
    with _directory_of("delete", path, place) as above:
        status = _status("delete", path, place, above)
        try:
            if not stat.S_ISDIR(status.st_mode):
                warning = check_unmodified(ctx, Path(path)) if stat.S_ISREG(status.st_mode) else None
                os.unlink(place.name, dir_fd=above)
                note_read(ctx, Path(path))
            elif recursive:
                shutil.rmtree(place.name, dir_fd=above)
            else:
                os.rmdir(place.name, dir_fd=above)
        except OSError as error:
            raise _undeleted(path, error, recursive=recursive) from error
        except RecursionError as error:
            raise ToolFailedError(f"cannot delete {path}: its directories are nested too deep") from error
    return _told(warning, f"Deleted {path}, {kind_of(status.st_mode)}.")


def _undeleted(path: str, error: OSError, *, recursive: bool) -> ToolFailedError:
    if error.errno == errno.ENOTEMPTY and not recursive:
        return ToolFailedError(f"cannot delete {path}: it is not empty; recursive = true deletes all in it")
    return cannot("delete", error.filename if recursive and error.filename else path, error)


def move(ctx: ToolContext, source: PathText, target: PathText, *, overwrite: Overwrite = False) -> str:
    """Move or rename a file, a link or a directory. `target` is its new path, not a directory to put it in."""
    old, new = _located("move", source), _located("move to", target)
    with _directory_of("move", source, old) as above:
        status = _status("move", source, old, above)
        _keep_apart("move", source, target, old, new, at=status)
        _keep_workspace(ctx, "move", source, old)
        warning = check_unmodified(ctx, Path(source)) if stat.S_ISREG(status.st_mode) else None
        is_known = _is_known(ctx, source)
        made, second = _prepare(ctx, "move", target, new, status, overwrite=overwrite)
        try:
            with atomic.locked(new.parent, partial(check_opened, "move to", target)) as directory:
                atomic.rename(directory, old.name, new.name, overwrite=overwrite, source=above)
        except OSError as error:
            # Landlock says so too where a file would get more rights than it has.
            if error.errno == errno.EXDEV and status.st_dev != new.parent.stat().st_dev:
                raise ToolFailedError(
                    f"cannot move {source} to {target}: it is on another file system; copy it, then delete it"
                ) from error
            raise _refusal("move", source, target, error) from error
    note_read(ctx, Path(source))
    _note_known(ctx, target, is_known=is_known)
    return _told(warning or second, f"Moved {source} to {target}{made}.")


def copy(ctx: ToolContext, source: PathText, target: PathText, *, overwrite: Overwrite = False) -> str:
    """Copy a file, a link or a directory with all that is in it. `target` is the copy's path."""
    old, new = _located("copy", source), _located("copy to", target)
    with held("copy", source, os.O_PATH | os.O_NOFOLLOW, name=str(old)) as thing:
        status = os.fstat(thing)
        _keep_apart("copy", source, target, old, new, at=status)
        is_known = _is_known(ctx, source)
        made, warning = _prepare(ctx, "copy", target, new, status, overwrite=overwrite)
        try:
            with atomic.locked(new.parent, partial(check_opened, "copy to", target)) as directory:
                tally = copy_into(source, thing, directory, new.name, overwrite=overwrite)
        except OSError as error:
            raise _refusal("copy", source, target, error) from error
    _note_known(ctx, target, is_known=is_known)
    return _told(warning, f"Copied {source} to {target}: {tally}{made}.")


def _located(verb: str, path: str) -> Path:
    """Where the thing itself is: links are resolved above it."""
    place = Path(path)
    is_named = place.name not in {"", ".."}
    place = resolved(verb, place.parent) / place.name if is_named else resolved(verb, path)
    check_inside(verb, path, str(place))
    return place


def _directory_of(verb: str, path: str, place: Path) -> contextlib.AbstractContextManager[int]:
    """The directory in which `place` is: by it the thing itself is changed."""
    return held(verb, path, os.O_PATH | os.O_DIRECTORY, name=str(place.parent))


def _status(verb: str, path: str, place: Path, above: int) -> os.stat_result:
    try:
        return os.stat(place.name or ".", dir_fd=above, follow_symlinks=False)
    except OSError as error:
        raise cannot(verb, path, error) from error


def _keep_workspace(ctx: ToolContext, verb: str, path: str, place: Path) -> None:
    workspace = Path(os.path.realpath(ctx.workspace or "."))
    if workspace.is_relative_to(place):
        what = "is the workspace" if workspace == place else "holds the workspace"
        raise ToolFailedError(f"cannot {verb} {path}: it {what}")


def _keep_apart(verb: str, source: str, target: str, old: Path, new: Path, *, at: os.stat_result) -> None:
    """Raise ToolFailedError where both cannot go together; `at` is the source's status."""
    if stat.S_ISDIR(at.st_mode) and new.is_relative_to(old):
        raise ToolFailedError(f"cannot {verb} {source}: {target} lies in it")
    if os.path.lexists(new) and os.path.samestat(new.lstat(), at):
        raise ToolFailedError(f"cannot {verb} {source}: {target} is the same file")


def _prepare(
    ctx: ToolContext, verb: str, target: str, new: Path, source: os.stat_result, *, overwrite: bool
) -> tuple[str, str | None]:
    """What of directories was made, and the guard's warning; raises ToolFailedError where the target is in the way."""
    if not os.path.lexists(new):
        return make_parents(verb, target, new), None
    mode = new.lstat().st_mode
    if stat.S_ISDIR(mode):
        raise ToolFailedError(f"cannot {verb} to {target}: it is a directory; give the whole new path")
    if not overwrite:
        raise ToolFailedError(f"cannot {verb} to {target}: it exists already; overwrite = true replaces it")
    if stat.S_ISDIR(source.st_mode) or not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
        raise ToolFailedError(
            f"cannot {verb} to {target}: it is {kind_of(mode)}, which is not replaced; delete it first"
        )
    # Of a link nothing is lost but where it leads to.
    return "", check_unchanged(ctx, Path(target)) if stat.S_ISREG(mode) else None


def _refusal(verb: str, source: str, target: str, error: OSError) -> ToolFailedError:
    if error.errno in {errno.EACCES, errno.EPERM, errno.EXDEV}:
        return ToolFailedError(
            f"cannot {verb} {source} to {target}: one of them lies outside of what this tool may change"
        )
    return cannot(verb, target, error)


def _is_known(ctx: ToolContext, path: str) -> bool:
    """Whether the agent has read the file as it is."""
    try:
        return check_unchanged(ctx, Path(path)) is None
    except ToolFailedError:
        return False


def _note_known(ctx: ToolContext, target: str, *, is_known: bool) -> None:
    """What the agent knows of the source it knows of the target too."""
    if is_known and Path(target).is_file():
        note_read(ctx, Path(target))


def _told(warning: str | None, said: str) -> str:
    return said if warning is None else f"{warning}\n{said}"
