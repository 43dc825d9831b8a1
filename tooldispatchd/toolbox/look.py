"""What an agent has around it: `introspect` shows a whole tree and its texts, `environment` the machine."""

import getpass
import os
import platform
import resource
import shutil
import socket
import stat
import time
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Final, Literal

from msgspec import Meta

from tooldispatchd.forked.python.context import ToolContext, ToolFailedError
from tooldispatchd.toolbox.ignoring import FILE
from tooldispatchd.toolbox.listing import some_of
from tooldispatchd.toolbox.places import opened
from tooldispatchd.toolbox.walking import GIT, MAX_NAMES, Parts, Walk, directory_at, shown, walk

# Some 64,000 tokens: a third of what models take.
MAX_CONTENT: Final = 256 * 1024
MAX_STRUCTURE: Final = 64 * 1024
_NO_TEXT: Final = "contents that are binary, or not UTF-8"
LOCK_FILES: Final = (
    *("package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "bun.lockb", "deno.lock"),
    *("poetry.lock", "uv.lock", "pdm.lock", "Pipfile.lock", "requirements.lock", "pylock*.toml", "conda-lock.yml"),
    *("Cargo.lock", "go.sum", "Gemfile.lock", "composer.lock", "mix.lock", "flake.lock", "Package.resolved"),
)
# Of files, and of directories for all that is in them.
SECRETS: Final = (
    *(".env*", "*.env", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "credentials*", "secrets", "secrets.*"),
    *("secret.*", ".npmrc", ".netrc", ".pypirc", ".pgpass", ".htpasswd", ".git-credentials", ".dockercfg"),
    *("*.tfstate", "*.tfvars", "service-account*.json", ".ssh", ".aws", ".gnupg"),
)
PROGRAMS: Final = (
    *("git", "rg", "bash", "make", "cmake", "gcc", "g++", "clang", "python3", "pip", "uv", "node", "npm", "pnpm"),
    *("yarn", "deno", "bun", "go", "cargo", "rustc", "java", "mvn", "ruby", "php", "perl", "docker", "curl", "jq"),
    "sqlite3",
)


def introspect(
    ctx: ToolContext,
    level: Annotated[Literal["overview", "all"], Meta(description="all: also what is in the files")] = "overview",
) -> str:
    """Show the code base here: its structure (overview), or its structure and contents (all)."""
    top = directory_at(".")
    walked = walk(ctx, top, ignored=False)
    found = _Tree(walked)
    texts = list(found.contents(top)) if level == "all" else []
    structure = f"Structure of {shown(str(top.absolute()))}: {len(found.files):,} files"
    return "\n".join([structure, *found.structure(), *texts, *found.left_out_lines()])


class _Tree:
    """The files of a walk in the order of their paths, and under each reason what is left out."""

    def __init__(self, walked: Walk) -> None:
        self.files: list[Parts] = []
        self._left_out: dict[str, list[str]] = {}
        for directory in walked:
            for name in directory.ignored:
                self._leave_out(f"ignored by {FILE}", (*directory.parts, name))
            if directory.error is not None:
                self._leave_out("cannot be read", (*directory.parts, ""))
            for entry in directory.entries:
                if not entry.is_dir(follow_symlinks=False):
                    self._add((*directory.parts, entry.name), is_file=entry.is_file(follow_symlinks=False))
        if walked.is_cut:
            self._left_out[f"what comes after {MAX_NAMES:,} names"] = []
        self.files.sort()

    def structure(self) -> Iterator[str]:
        """Each path in a line, up to MAX_STRUCTURE characters."""
        left = MAX_STRUCTURE
        for number, parts in enumerate(self.files):
            line = shown("/".join(parts))
            left -= len(line) + 1
            if left < 0:
                yield f"… {len(self.files) - number:,} more files left out …"
                return
            yield line

    def contents(self, top: Path) -> Iterator[str]:
        """Each text under its path, up to MAX_CONTENT bytes together; a file is shown whole or not at all."""
        left = MAX_CONTENT
        for parts in self.files:
            text = _content(top.joinpath(*parts), left)
            if isinstance(text, bytes):
                left -= len(text)
                yield f"\n==== {shown('/'.join(parts))} ({len(text):,} bytes)\n{text.decode()}"
            else:
                self._leave_out(text, parts)

    def left_out_lines(self) -> Iterator[str]:
        """What is not shown, and why."""
        yield f"\nLeft out: {GIT}"
        for reason, names in self._left_out.items():
            yield f"Left out, {reason}" + (f" ({len(names):,}): {some_of(names)}" if names else "")

    def _add(self, parts: Parts, *, is_file: bool) -> None:
        names = [part.casefold() for part in parts]
        if not is_file:
            self._leave_out("neither a file nor a directory", parts)
        elif any(fnmatchcase(names[-1], pattern.casefold()) for pattern in LOCK_FILES):
            self._leave_out("lock files", parts)
        elif any(fnmatchcase(name, pattern) for name in names for pattern in SECRETS):
            self._leave_out("secrets by their names", parts)
        else:
            self.files.append(parts)

    def _leave_out(self, reason: str, parts: Parts) -> None:
        self._left_out.setdefault(reason, []).append("/".join(parts))


def _content(path: Path, most: int) -> bytes | str:
    """The text at `path`, or why it is left out."""
    try:
        descriptor = opened("read", path)
        with open(descriptor, "rb") as file:  # noqa: PTH123  # a descriptor
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return "neither a file nor a directory"
            data = file.read(most + 1)
    except (OSError, ToolFailedError):
        return "cannot be read"
    if b"\0" in data:
        return _NO_TEXT
    if len(data) > most:
        return f"contents for which {MAX_CONTENT // 1024} KiB have no room"
    try:
        data.decode()
    except UnicodeDecodeError:
        return _NO_TEXT
    return data


def environment(ctx: ToolContext) -> str:
    """Tell the system, the user, the workspace, which programs there are, and what bounds hold for this tool."""
    return "\n".join(f"{name}: {value}" for name, value in _facts(ctx))


def _facts(ctx: ToolContext) -> Iterator[tuple[str, str]]:
    yield "System", f"{_distribution()}, {platform.system()} {platform.release()}, {platform.machine()}"
    yield "Processors", str(len(os.sched_getaffinity(0)))
    yield "Python", platform.python_version()
    yield "User", f"{_user()} (uid {os.getuid()})"
    yield "Time", time.strftime("%Y-%m-%d %H:%M:%S %Z")
    yield "Working directory", shown(str(Path.cwd()))
    yield "Workspace", shown(ctx.workspace) if ctx.workspace else "none"
    yield "Programs", " ".join(name for name in PROGRAMS if shutil.which(name)) or "none"
    yield "What follows", "holds for this tool alone; bash and the others may have other bounds"
    yield "May be written", ", ".join(map(shown, _writable(ctx))) or "none of the usual places"
    yield "Network", "open" if _has_network() else "shut"
    yield "Time for a call", "no limit" if ctx.left_s is None else f"{ctx.left_s:.0f} s left of this one"
    for name, kind in _LIMITS.items():
        amount = resource.getrlimit(kind)[0]
        yield name, "no limit" if amount == resource.RLIM_INFINITY else f"{amount:,}"


_LIMITS: Final = {
    "Processor seconds of a process": resource.RLIMIT_CPU,
    "Memory of a process in bytes": resource.RLIMIT_DATA,
    "Processes": resource.RLIMIT_NPROC,
    "Open files of a process": resource.RLIMIT_NOFILE,
    "Size of a file in bytes": resource.RLIMIT_FSIZE,
}


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "an unnamed distribution")
    except OSError:
        return "an unknown distribution"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the number has no name here
        return "without a name"


def _writable(ctx: ToolContext) -> list[str]:
    """Of the places that agents ask for those where a file can be made. The kernel is asked: no list can be trusted."""
    places = dict.fromkeys(filter(None, (ctx.workspace, str(Path.cwd()), os.environ.get("TMPDIR"), "/tmp")))  # noqa: S108
    return [place for place in places if _can_write(place)]


def _can_write(place: str) -> bool:
    try:
        # A file without a name, which leaves nothing behind. What a file system without them would allow stays unknown.
        os.close(os.open(place, os.O_TMPFILE | os.O_WRONLY, 0o600))
    except OSError:
        return False
    return True


def _has_network() -> bool:
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM).close()
    except OSError:
        return False
    return True
