"""Search in files by ripgrep, in a process of its own.

Its engine takes linear time for any pattern, and .gitignore, binary files and directories come with it: on 20,000 files
a walk of ours alone takes as long. What it prints is bounded by itself (no line longer than MAX_LINE) and read piece by
piece; what it holds, by the kernel (MAX_MEMORY); its time, by the call's.

It searches with several threads, which takes half the time, and so tells of files in any order: of these the first ones
by path are kept. Where there are too many lines to hear them all it is started again, to tell of files in their order.

It follows a link that takes a directory's place in that moment. Where no kernel keeps it to what the tool may read, it
is given the files instead of their directory, open, from a walk of ours.
"""

import bisect
import contextlib
import functools
import itertools
import os
import re
import resource
import select
import shutil
import signal
import stat
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from tooldispatchd.forked.python.context import InvalidInputError, Shutting, ToolContext, ToolFailedError
from tooldispatchd.toolbox.ignoring import ignored_below
from tooldispatchd.toolbox.listing import Ignored
from tooldispatchd.toolbox.pathglobs import after, fits, last_names, literal_where_there, start_of
from tooldispatchd.toolbox.places import PathText, cannot, check_inside, held, kind_of, opened
from tooldispatchd.toolbox.running import time_for
from tooldispatchd.toolbox.walking import GIT, shown, walk, workspace_of

# In bytes: what a person would call a line of code is shorter.
MAX_LINE: Final = 500
# Matches are counted up to here, so that a pattern which fits every line is answered soon.
MAX_COUNTED: Final = 10_000
# A line has to fit unless its file is mapped; patterns are compiled to at most 10 MB.
MAX_MEMORY: Final = 256 * 1024 * 1024
# Few beside the descriptors that a tool may have open.
_BATCH: Final = 50
# Where nothing bounds the call.
_MAX_S: Final = 3_600.0
_MAX_ERRORS: Final = 64 * 1024
_LINE: Final = re.compile(rb"(\d+)(?::(\d+):|-)(\d+)[:-](.*)", re.DOTALL)
# A line with that stands before the next path, or at the end.
_BINARY: Final = re.compile(rb": (?:WARNING: stopped searching binary file|binary file matches)")
_UNREAD: Final = re.compile(r"^rg: \.?/", re.MULTILINE)
_NO_MEMORY: Final = "the search needed more memory than it may use"
_FAILED: Final = "the search failed"
_ENDINGS: Final[dict[int, str]] = {
    signal.SIGABRT: _NO_MEMORY,
    signal.SIGKILL: _NO_MEMORY,
    signal.SIGBUS: "a file became shorter while it was searched",
}
_OMITTED: Final = b"[Omitted long "
_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code != 9}
_ALWAYS: Final = (
    *("--no-config", "--color=never", "--no-heading", "--with-filename", "--null", "--no-context-separator"),
    *("--line-number", "--column", "--byte-offset", f"--max-columns={MAX_LINE}", f"--max-count={MAX_COUNTED}"),
    *("--hidden", f"--glob=!{GIT}", "--no-require-git", "--no-ignore-dot", "--no-ignore-exclude", "--no-ignore-global"),
    *("--no-ignore-messages", "--regex-size-limit=10M", "--dfa-size-limit=64M"),
)


class _Line(Struct, frozen=True):
    """A line as ripgrep tells it. `column` counts from 1, in bytes; None of a line that is only near a match."""

    path: str
    number: int
    column: int | None
    offset: int
    text: bytes


class _File:
    """What is found in one file: its lines up to the last match that may be shown or a little beyond it."""

    __slots__ = ("lines", "matches", "order", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        # A directory's name ends before any other character: so names are compared, and not paths.
        self.order = os.fsencode(path).replace(b"/", b"\0")
        self.lines: list[_Line] = []
        self.matches = 0


class GrepFindings:
    """The first files with matches by their path, as many as hold `limit` of them, and what is only counted.

    `ending` is why the search did not come to its end.
    """

    __slots__ = ("_first", "_kept", "_last", "binary", "ending", "files", "limit", "matches", "unread")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._first: list[_File] = []
        self._last = _File("")
        self._kept = 0
        self.files = self.matches = self.binary = self.unread = 0
        self.ending: str | None = None

    def add(self, line: _Line) -> None:
        """Take a line; those of one file come one after the other."""
        if line.path != self._last.path:
            self._put()
            self._last = _File(line.path)
        file = self._last
        if line.column is not None:
            self.matches += 1
            file.matches += 1
        if file.matches <= self.limit:
            file.lines.append(line)

    def _put(self) -> None:
        """Keep the file that was told of last, if it is among the first ones."""
        file, self._last = self._last, _File("")
        if not file.matches:
            return
        self.files += 1
        bisect.insort(self._first, file, key=lambda each: each.order)
        self._kept += file.matches
        while self._kept - self._first[-1].matches >= self.limit:
            self._kept -= self._first.pop().matches

    def shown(self, context: int) -> list[_Line]:
        """The lines without the first match that is not shown, and what is near that."""
        lines: list[_Line] = []
        last = matches = 0
        for line in (line for file in self._first for line in file.lines):
            matches += line.column is not None
            if matches > self.limit:
                break
            if line.column is not None:
                last = len(lines)
            lines.append(line)
        path, end = lines[last].path, lines[last].number + context
        return lines[: last + 1] + [line for line in lines[last + 1 :] if line.path == path and line.number <= end]

    def finish(self) -> None:
        """No further line comes."""
        self._put()

    def notes(self) -> Iterator[str]:
        """Sentences on what is not shown."""
        if self.unread:
            yield f"… {self.unread:,} files or directories could not be read …"
        if self.binary:
            yield f"… {self.binary:,} binary files with a match left out …"
        if self.ending is not None:
            yield f"… {self.ending}: name other places, or include fewer files …"
        if self.matches > self.limit:
            least = "at least " * (self.matches >= MAX_COUNTED)
            yield f"… {least}{self.matches - self.limit:,} of {self.matches:,} matching lines left out …"


def grep(
    ctx: ToolContext,
    pattern: Annotated[str, Meta(min_length=1, max_length=1000, description="a regular expression of one line")],
    path: PathText = ".",
    *,
    include: Annotated[
        str, Meta(min_length=1, max_length=1000, description="search only such paths: *.py, src/**/*.ts")
    ] = "**",
    ignore_case: Annotated[bool, Meta(description="upper and lower case are the same")] = False,
    literal: Annotated[bool, Meta(description="the pattern is plain text")] = False,
    context: Annotated[int, Meta(ge=0, le=20, description="lines before and after")] = 0,
    limit: Annotated[int, Meta(ge=1, le=1000, description="how many matching lines")] = 100,
    ignored: Ignored = False,
) -> str:
    """Search file contents for a regular expression, line by line. Leaves out binary files and what git ignores."""
    _check(path)
    # So `-` is taken for what it is.
    target = path if path.startswith("/") else f"./{path}"
    wanted = _Wanted(ctx, target, include, ignored=ignored)
    options = [f"--context={context}", *["--ignore-case"] * ignore_case, *["--fixed-strings"] * literal]
    options += [*wanted.options, *["--no-ignore"] * ignored]
    found = _search([_program(), *_ALWAYS, *options, "--", pattern], wanted, limit, time_for(ctx, _MAX_S))
    if not found.matches:
        return "\n".join([f"No line in {shown(path)} matches {shown(pattern)}.", *found.notes()])
    count = f"{found.matches:,} matching lines in {found.files:,} files."
    return "\n".join([*_text(found.shown(context)), count, *found.notes()])


class _Wanted:
    """Which files are asked for. Their names are told to ripgrep (`options`), their paths are compared here.

    Ripgrep's `--glob` would do both, but finds ignored files too. And of a .gitignore above the directory that is
    searched it applies a pattern with a slash to the names right in that directory alone.
    """

    __slots__ = ("_glob", "_is_ignored", "_target", "_top", "_walk", "options")

    def __init__(self, ctx: ToolContext, target: str, include: str, *, ignored: bool) -> None:
        # As in .gitignore a pattern without a slash is of names at any depth.
        pattern = literal_where_there(target, include) if "/" in include else f"**/{include}"
        try:
            self._glob = start_of(pattern)
        except ValueError as error:
            raise InvalidInputError("include", str(error)) from error
        self._target, self._top = target, Path(target)
        top, workspace = self._top.resolve(), workspace_of(ctx)
        self._walk = None if Shutting.is_kept else functools.partial(walk, ctx, self._top, ignored=ignored)
        # A walk leaves out by itself what is ignored.
        self._is_ignored = None if ignored or self._walk is not None else ignored_below(top, workspace)
        names = last_names(pattern)
        # What a class of characters means differs a little, and a colon would end the name of the type.
        named = sorted(re.sub(r"\[.*|[^\w.*?-]", "*", name, flags=re.DOTALL) for name in names)
        self.options = [] if "**" in names else [f"--type-add=wanted:{name}" for name in named] + ["--type=wanted"]
        if workspace not in top.parents:
            # Nor do lists above the workspace hide anything.
            self.options.append("--no-ignore-parent")

    def batches(self) -> Iterator[tuple[dict[str, str], list[int]]]:
        """List what ripgrep is to search, each with the path that the agent is told, and descriptors that it needs."""
        if self._walk is None:
            yield {self._target: self._target}, []
            return
        files = self._files()
        while batch := list(itertools.islice(files, _BATCH)):
            try:
                yield {f"/proc/self/fd/{fd}": path for path, fd in batch}, [fd for _, fd in batch]
            finally:
                for _, descriptor in batch:
                    os.close(descriptor)

    def _files(self) -> Iterator[tuple[str, int]]:
        assert self._walk is not None
        if not self._top.is_dir():
            yield str(self._top), opened("search", self._top, 0)
            return
        for directory in self._walk():
            for entry in directory.entries:
                path = str(self._top.joinpath(*directory.parts, entry.name))
                if entry.is_file(follow_symlinks=False) and self.has(path):
                    with contextlib.suppress(OSError):
                        yield path, opened("search", path, name=entry.name, at=directory.descriptor)

    def has(self, path: str) -> bool:
        below = Path(path).relative_to(self._top).parts
        stand = functools.reduce(after, below or (self._top.name,), self._glob)
        return fits(stand) and (self._is_ignored is None or not self._is_ignored(below))


def _check(path: str) -> None:
    """Raise ToolFailedError for what is neither a file nor a directory, or may not be read."""
    check_inside("search", path)
    try:
        mode = Path(path).stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise ToolFailedError(f"cannot search {shown(path)}: it is {kind_of(mode)}")
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    except OSError as error:
        raise cannot("search", path, error) from error


def _program() -> str:
    """Ripgrep as its package on PyPI installs it, else the machine's."""
    own = Path(sysconfig.get_path("scripts"), "rg")
    program = str(own) if own.exists() else shutil.which("rg")
    if program is None:
        raise ToolFailedError("cannot search: the program rg (ripgrep) is not installed beside this tool")
    return program


def _search(command: list[str], wanted: _Wanted, limit: int, allowed_s: float) -> GrepFindings:
    """What is found; raises InvalidInputError for a pattern that ripgrep refuses."""
    until = time.monotonic() + allowed_s
    found = _run(command, wanted, limit, until)
    if found.matches >= MAX_COUNTED or found.ending in {_NO_MEMORY, _FAILED}:
        # Of so many lines those that come first are others each time. And one thread alone tells of each line as it
        # finds it, where several hold what a file has until they have searched it.
        command = [command[0], "--sort=path", *command[1:]]
        found = _run(command, wanted, limit, until)
    if found.ending == _NO_MEMORY:
        # A line did not fit. Mapped files take twice the time and no memory.
        found = _run([command[0], "--mmap", *command[1:]], wanted, limit, until)
    return found


def _run(command: list[str], wanted: _Wanted, limit: int, until: float) -> GrepFindings:
    found = GrepFindings(limit)
    for names, passed in wanted.batches():
        _hear([*command, *names], found, wanted, until, names=names, passed=passed)
        if found.matches >= MAX_COUNTED or found.ending is not None:
            break
    return found


def _hear(
    command: list[str], found: GrepFindings, wanted: _Wanted, until: float, *, names: dict[str, str], passed: list[int]
) -> None:
    """Add what one run of ripgrep finds in what `names` lists."""
    with tempfile.TemporaryFile() as errors:
        with subprocess.Popen(  # noqa: S603  # no shell, and `--` before what is not ours
            command,
            pass_fds=passed,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            preexec_fn=_bound,  # noqa: PLW1509  # a call has one thread
        ) as child:
            assert child.stdout is not None  # it is a pipe
            path, told, is_wanted = "", "", False
            for line in lines_of(child.stdout, found, until):
                if line.path != path:
                    path, told = line.path, names.get(line.path, line.path)
                    is_wanted = wanted.has(told)
                if is_wanted:
                    found.add(replace(line, path=told))
                if found.matches >= MAX_COUNTED:
                    break
            found.finish()
            if found.matches >= MAX_COUNTED or found.ending is not None:
                child.kill()
        errors.seek(0)
        said = errors.read(_MAX_ERRORS).decode(errors="replace")
    unread = len(_UNREAD.findall(said))
    found.unread += unread
    if child.returncode == 2 and not unread:
        raise InvalidInputError("pattern", _why(said, command[command.index("--") + 1]))
    if child.returncode > 2 and found.ending is None:
        # It panicked, as where no more threads may be started.
        found.ending = _FAILED
    if child.returncode < 0 and found.matches < MAX_COUNTED and found.ending is None:
        found.ending = _ENDINGS.get(-child.returncode, "the search was killed")


def _bound() -> None:
    """Of the child alone, and never more than the tool has itself."""
    most = resource.getrlimit(resource.RLIMIT_DATA)[1]
    memory = MAX_MEMORY if most == resource.RLIM_INFINITY else min(MAX_MEMORY, most)
    resource.setrlimit(resource.RLIMIT_DATA, (memory, most))


def lines_of(printed: IO[bytes], found: GrepFindings, until: float) -> Iterator[_Line]:
    """The lines that ripgrep prints, until it ends or the time has come; what it says of binary files is counted."""
    rest = b""
    while True:
        left_s = until - time.monotonic()
        if left_s <= 0 or not select.select([printed], [], [], left_s)[0]:
            found.ending = "the search had no more time"
            break
        if not (chunk := os.read(printed.fileno(), 65_536)):
            break
        rest += chunk
        end = 0
        while (nul := rest.find(b"\0", end)) >= 0 and (newline := rest.find(b"\n", nul)) >= 0:
            path, warnings = _without_warnings(rest[end:nul])
            found.binary += warnings
            fields = _LINE.fullmatch(rest, nul + 1, newline)
            if fields is not None:
                column = None if fields[2] is None else int(fields[2])
                yield _Line(os.fsdecode(path), int(fields[1]), column, int(fields[3]), fields[4])
            end = newline + 1
        # Thousands of binary files may come before the next path: what is left stays short.
        rest, warnings = _without_warnings(rest[end:])
        found.binary += warnings


def _without_warnings(text: bytes) -> tuple[bytes, int]:
    """What stands behind the warnings of binary files at the beginning of a text, and how many these are."""
    start = warnings = 0
    while (found := _BINARY.search(text, start)) is not None and (end := text.find(b"\n", found.end())) >= 0:
        start, warnings = end + 1, warnings + 1
    return text[start:], warnings


def _why(said: str, pattern: str) -> str:
    """What is wrong with the pattern, and where, in one sentence."""
    lines = said.removeprefix("rg: ").split("\n")
    reason = next((line.removeprefix("error: ") for line in lines if line.startswith("error: ")), lines[0])
    marks = next((line.index("^") for line in lines if set(line) == {" ", "^"}), None)
    start = lines[1].find(pattern) if len(lines) > 1 else -1
    # Ripgrep puts a group around the pattern, and may mean that.
    return reason if marks is None or not 0 <= start <= marks else f"{reason}, at character {marks - start + 1}"


def _text(lines: list[_Line]) -> Iterator[str]:
    """The lines under the names of their files; `12:` stands before a match, `12-` before a line near one."""
    path, number = None, 0
    for line in lines:
        if line.path != path:
            yield shown(str(Path(line.path)))
        elif line.column is None and line.number > number + 1:
            yield "--"
        path, number = line.path, line.number
        yield f"{line.number}{'-' if line.column is None else ':'}{_excerpt(line)}"


def _excerpt(line: _Line) -> str:
    # Whoever writes this into a file gets the line all the same: it is read again.
    text = (
        _around(line)
        if line.text.startswith(_OMITTED)
        else line.text.removesuffix(b"\r").decode(errors="backslashreplace")
    )
    return text.translate(_CONTROLS)


def _around(line: _Line) -> str:
    """The part of a long line around its match."""
    start = line.offset + max(0, (line.column or 1) - 1 - MAX_LINE // 2)
    try:
        with held("search", line.path) as descriptor:
            data = os.pread(descriptor, MAX_LINE, start)
    except (OSError, ToolFailedError):
        data = b""
    if not data or b"\0" in data:
        return "(a long line, not shown)"
    if start > line.offset:
        data = re.sub(rb"^[\x80-\xbf]{1,3}", b"", data)
    text, _, more = re.sub(rb"[\xc0-\xff][\x80-\xbf]{0,2}$", b"", data).partition(b"\n")
    cut = f"(long line, from byte {start - line.offset:,}) …{text.decode(errors='backslashreplace')}"
    return cut if more else cut + "…"
