"""Search in files by ripgrep, in processes of its own; which files, a walk decides, as for `glob` and `tree`.

Its engine takes linear time for any pattern. What it prints is bounded by itself (no line longer than MAX_LINE), and
read piece by piece; what it holds, by the kernel (MAX_MEMORY).
"""

import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated, Final

from msgspec import Meta, Struct

from tooldispatchd.forked.python.context import InvalidInputError, ToolContext, ToolFailedError
from tooldispatchd.toolbox.listing import Ignored
from tooldispatchd.toolbox.pathglobs import start_of
from tooldispatchd.toolbox.places import PathText, cannot, kind_of
from tooldispatchd.toolbox.walking import fitting, shown, walk

# In bytes: what a person would call a line of code is shorter.
MAX_LINE: Final = 500
# Matches are counted up to here, so that a pattern which fits every line is answered soon.
MAX_COUNTED: Final = 10_000
# Files are mapped, and patterns compiled to at most 10 MB; only a line of many millions of matches needs as much.
MAX_MEMORY: Final = 256 * 1024 * 1024
# Of the paths for one process, at up to four bytes each: the kernel takes at least 2 MiB from most.
_MAX_NAMES_CHARS: Final = 128 * 1024
_MAX_ERRORS: Final = 64 * 1024
_RECORD: Final = re.compile(rb"([^\0]*)\0([^\n]*)\n")
_LINE: Final = re.compile(rb"(\d+)(?::(\d+):|-)(\d+)[:-](.*)", re.DOTALL)
# Stands before the next path, or at the end.
_BINARY: Final = re.compile(rb"[^\0]*?: binary file matches[^\n]*\n", re.DOTALL)
_UNREAD: Final = re.compile(r"^rg: \.?/", re.MULTILINE)
_ENDINGS: Final[dict[int, str]] = {
    signal.SIGABRT: "the search needed more memory than it may use",
    signal.SIGKILL: "the search needed more memory than it may use",
    signal.SIGBUS: "a file became shorter while it was searched",
}
_OMITTED: Final = b"[Omitted long "
_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code != 9}
_ALWAYS: Final = (
    *("--no-config", "--color=never", "--no-heading", "--with-filename", "--null", "--no-context-separator"),
    *("--line-number", "--column", "--byte-offset", f"--max-columns={MAX_LINE}", "--sort=path", "--mmap"),
    *("--regex-size-limit=10M", "--dfa-size-limit=64M"),
)


class _Line(Struct, frozen=True):
    """A line as ripgrep tells it. `column` counts from 1, in bytes; None of a line that is only near a match."""

    path: str
    number: int
    column: int | None
    offset: int
    text: bytes


class _Found:
    """The lines up to the last match that is shown or a little beyond it, and what is only counted."""

    __slots__ = ("binary", "endings", "files", "limit", "lines", "matches", "unread")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.lines: list[_Line] = []
        self.files: set[str] = set()
        self.endings: dict[str, None] = {}
        self.matches = self.binary = self.unread = 0

    def add(self, line: _Line) -> None:
        if line.column is not None:
            self.matches += 1
            self.files.add(line.path)
        if self.matches <= self.limit:
            self.lines.append(line)

    def shown(self, context: int) -> list[_Line]:
        """The lines without what is near the first match that is not shown."""
        last = max(index for index, line in enumerate(self.lines) if line.column is not None)
        path, end = self.lines[last].path, self.lines[last].number + context
        return self.lines[: last + 1] + [
            line for line in self.lines[last + 1 :] if line.path == path and line.number <= end
        ]

    def notes(self) -> Iterator[str]:
        """Sentences on what is not shown."""
        if self.unread:
            yield f"… {self.unread:,} files or directories could not be read …"
        if self.binary:
            yield f"… {self.binary:,} binary files with a match left out …"
        yield from (f"… {ending}: name other places, or include fewer files …" for ending in self.endings)
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
    options = [f"--context={context}", *["--ignore-case"] * ignore_case, *["--fixed-strings"] * literal]
    command = [_program(), *_ALWAYS, *options, "--", pattern]
    found = _Found(limit)
    files, notes = _files(ctx, path, include, found, ignored=ignored)
    for batch in _batches(files):
        _run(command, batch, found)
        if found.matches >= MAX_COUNTED:
            break
    notes += found.notes()
    if not found.matches:
        return "\n".join([f"No line in {shown(path)} matches {shown(pattern)}.", *notes])
    count = f"{found.matches:,} matching lines in {len(found.files):,} files."
    return "\n".join([*_text(found.shown(context)), count, *notes])


def _files(ctx: ToolContext, path: str, include: str, found: _Found, *, ignored: bool) -> tuple[list[str], list[str]]:
    """The files to search, in the order of their names, and notes on those that the walk did not come to."""
    try:
        # As in .gitignore a pattern without a slash is of names at any depth.
        wanted = start_of(include if "/" in include else f"**/{include}")
    except ValueError as error:
        raise InvalidInputError("include", str(error)) from error
    # So `-` is taken for what it is.
    target = path if path.startswith("/") else f"./{path}"
    try:
        mode = Path(path).stat().st_mode
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    except OSError as error:
        raise cannot("search", path, error) from error
    if stat.S_ISREG(mode):
        return [target], []
    if not stat.S_ISDIR(mode):
        raise ToolFailedError(f"cannot search {shown(path)}: it is {kind_of(mode)}")
    walked = walk(ctx, Path(path), ignored=ignored)
    files = sorted(parts for parts, entry in fitting(walked, wanted) if entry.is_file(follow_symlinks=False))
    found.unread += walked.unread
    return [os.path.join(target, *parts) for parts in files], walked.notes()  # noqa: PTH118  # with the `./` in front


def _batches(files: list[str]) -> Iterator[list[str]]:
    """At least one, so that the pattern is looked at where there are no files."""
    batch: list[str] = []
    room = _MAX_NAMES_CHARS
    for file in files:
        if len(file) > room:
            yield batch
            batch, room = [], _MAX_NAMES_CHARS
        batch.append(file)
        room -= len(file) + 1
    yield batch or [os.devnull]


def _program() -> str:
    """Ripgrep as its package on PyPI installs it, else the machine's."""
    own = Path(sysconfig.get_path("scripts"), "rg")
    program = str(own) if own.exists() else shutil.which("rg")
    if program is None:
        raise ToolFailedError("cannot search: the program rg (ripgrep) is not installed beside this tool")
    return program


def _run(command: list[str], files: list[str], found: _Found) -> None:
    """Search these files; raises InvalidInputError for a pattern that ripgrep refuses."""
    with tempfile.TemporaryFile() as errors:
        with subprocess.Popen(  # noqa: S603  # no shell, and `--` before what is not ours
            [*command, *files],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            preexec_fn=_bound,  # noqa: PLW1509  # a call has one thread
        ) as child:
            assert child.stdout is not None  # it is a pipe
            for line in _lines(child.stdout, found):
                found.add(line)
                if found.matches >= MAX_COUNTED:
                    child.kill()
                    return
        errors.seek(0)
        said = errors.read(_MAX_ERRORS).decode(errors="replace")
    unread = len(_UNREAD.findall(said))
    if child.returncode == 2 and not unread:
        raise InvalidInputError("pattern", _why(said, command[-1]))
    found.unread += unread
    if child.returncode < 0:
        found.endings[_ENDINGS.get(-child.returncode, "the search was killed")] = None


def _bound() -> None:
    """Of the child alone, and never more than the tool has itself."""
    most = resource.getrlimit(resource.RLIMIT_DATA)[1]
    memory = MAX_MEMORY if most == resource.RLIM_INFINITY else min(MAX_MEMORY, most)
    resource.setrlimit(resource.RLIMIT_DATA, (memory, most))


def _lines(printed: IO[bytes], found: _Found) -> Iterator[_Line]:
    rest = b""
    while chunk := os.read(printed.fileno(), 65_536):
        rest += chunk
        end = 0
        for record in _RECORD.finditer(rest):
            end = record.end()
            path, warnings = _BINARY.subn(b"", record[1])
            found.binary += warnings
            fields = _LINE.fullmatch(record[2])
            if fields is not None:
                column = None if fields[2] is None else int(fields[2])
                yield _Line(os.fsdecode(path), int(fields[1]), column, int(fields[3]), fields[4])
        rest = rest[end:]
    found.binary += _BINARY.match(rest) is not None


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
        with Path(line.path).open("rb") as file:
            data = os.pread(file.fileno(), MAX_LINE, start)
    except OSError:
        data = b""
    if not data or b"\0" in data:
        return "(a long line, not shown)"
    if start > line.offset:
        data = re.sub(rb"^[\x80-\xbf]{1,3}", b"", data)
    text, _, more = re.sub(rb"[\xc0-\xff][\x80-\xbf]{0,2}$", b"", data).partition(b"\n")
    cut = f"(long line, from byte {start - line.offset:,}) …{text.decode(errors='backslashreplace')}"
    return cut if more else cut + "…"
