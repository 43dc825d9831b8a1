"""Ask interpreters what functions take and give: one process for each environment, bounded, killed once it has said it.

    started ──▶ ready ──▶ a line for each function, one for their code ──▶ group killed, reaped
        └── ends, is refused, says too much, takes too long: whoever is next in turn is to blame

The program that answers is `forked.python.reading`. The pipes are not those of `children.pipes`, which wait with trio:
importing that would make the reading of a configuration slower by a fifth of a second.
"""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from tooldispatchd import forked
from tooldispatchd.catalog.signatures import Signature
from tooldispatchd.children.tail import Tail
from tooldispatchd.config.stamps import Stamp
from tooldispatchd.forked.signals import signal_name

# What imports of large libraries need on a slow disk, with room.
READING_S: Final = 20.0
# Imports are work for the processor; more at once end no sooner.
MAX_AT_ONCE: Final = 4
# A thousand functions with schemas of a few kilobytes.
MAX_SAID_BYTES: Final = 16 * 1024 * 1024
# Of what modules printed: the last words are the reason.
MAX_TAIL_CHARS: Final = 300
# The kernel ends a killed process in microseconds unless it sleeps in a driver.
KILL_S: Final = 2.0

_CHUNK_BYTES: Final = 64 * 1024
_START: Final = Path(forked.__file__).with_name("start.py")
_THREADS: Final = (
    ", and a process with threads cannot be forked; start them in the function, keep its libraries to one"
    " (OPENBLAS_NUM_THREADS=1 and its like in env), or say resident = true"
)


class ImportEnvironment(msgspec.Struct, frozen=True):
    """In what modules are imported.

    `place` is the directory that stands behind the interpreter's own in the search for modules. `uid` and `gid` are
    None for the daemon's own. In a `resident` one modules may start threads.
    """

    interpreter: str
    place: str
    cwd: str | None
    variables: tuple[tuple[str, str], ...]
    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()
    resident: bool = False


class SignatureRefusal(msgspec.Struct, frozen=True):
    """Why there is no signature: `key` is the tool's key to blame, `nearest` what was probably meant."""

    why: str
    key: str = "python"
    nearest: str | None = None


class FollowedCode(msgspec.Struct, frozen=True):
    """The code that an environment's functions are made of, in so far as it is followed.

    `files` are by path, with their stamps from before they were read; `digests` by module, with all that it imports.
    """

    files: dict[str, Stamp] = {}
    is_cut: bool = False
    digests: dict[str, str] = {}


class ReaderAnswer(msgspec.Struct, frozen=True):
    """What was found by function; those that come after one to blame are missing."""

    found: dict[str, Signature | SignatureRefusal]
    code: FollowedCode = FollowedCode()


def ask_all(
    wanted: Mapping[ImportEnvironment, Sequence[str]], *, within_s: float = READING_S
) -> dict[ImportEnvironment, ReaderAnswer]:
    """What each environment says of its functions (`module:function`); a few are asked at once, for `within_s` each.

    None of the processes is left, whatever happens.
    """
    answers: dict[ImportEnvironment, ReaderAnswer] = {}
    waiting = list(wanted.items())
    running: list[_Reader] = []
    with selectors.DefaultSelector() as selector:
        try:
            while waiting or running:
                while waiting and len(running) < MAX_AT_ONCE:
                    running.append(_Reader(*waiting.pop(0), selector=selector, within_s=within_s))
                for key, _ in selector.select(min(reader.left_s() for reader in running)):
                    key.data()
                for reader in [reader for reader in running if not reader.left_s()]:
                    running.remove(reader)
                    reader.end()
                    answers[reader.environment] = reader.answer()
        finally:
            for reader in running:
                reader.end()
    return answers


class _Said(msgspec.Struct, frozen=True):
    """One line of the program's."""

    ready: bool = False
    refused: str | None = None
    signature: Signature | None = None
    threads: tuple[str, ...] = ()
    why: str = ""
    nearest: str | None = None
    code: FollowedCode | None = None


class _Reader:
    """One process, and what it has said so far. Made, it runs; `end` must be called."""

    def __init__(
        self,
        environment: ImportEnvironment,
        functions: Sequence[str],
        *,
        selector: selectors.BaseSelector,
        within_s: float,
    ) -> None:
        self.environment = environment
        self._deadline = time.monotonic() + within_s
        self._functions = tuple(functions)
        self._within_s = within_s
        self._selector = selector
        self._fds: list[int] = []
        self._pipes: dict[int, Callable[[int], None]] = {}
        self._said = bytearray()
        self._lines_left = 2 + len(self._functions)
        self._printed = Tail()
        self._process: subprocess.Popen[bytes] | None = None
        self._refusal: SignatureRefusal | None = None
        self._end = f"takes more than {within_s:g} s"
        self._is_over = False
        try:
            self._start()
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            self._refusal = SignatureRefusal(f"cannot start {environment.interpreter}: {why}", "venv")
            if isinstance(error, OSError) and environment.cwd is not None and error.filename == environment.cwd:
                self._refusal = SignatureRefusal(f"cannot enter this directory: {why}", "cwd")
            self._is_over = True

    def left_s(self) -> float:
        """How long it may still take, in seconds; 0.0 once it has said everything that it will."""
        return 0.0 if self._is_over else max(0.0, self._deadline - time.monotonic())

    def end(self) -> None:
        """Kill its group, reap it and close everything; idempotent."""
        process, self._process = self._process, None
        if process is not None:
            # Until it is reaped its number is nobody else's.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(KILL_S)
        for fd in self._fds:
            with contextlib.suppress(KeyError):
                self._selector.unregister(fd)
            os.close(fd)
        self._fds.clear()
        # They hold this.
        self._pipes.clear()

    def answer(self) -> ReaderAnswer:
        """What was found by the time that it ended."""
        said: list[_Said] = []
        try:
            said = msgspec.json.Decoder(_Said).decode_lines(self._said[: self._said.rfind(b"\n") + 1])
        # Some other program may stand in the interpreter's place and say anything.
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self._end = "gives an answer that cannot be read"
        if self._refusal is None and (not said or not said[0].ready):
            why = said[0].refused if said else None
            self._refusal = SignatureRefusal(
                why or f"{self.environment.interpreter} cannot be asked for signatures: it {self._ending()}", "venv"
            )
        if self._refusal is not None:
            return ReaderAnswer(dict.fromkeys(self._functions, self._refusal))
        found: dict[str, Signature | SignatureRefusal] = {}
        environment = self.environment
        code = said[-1].code or FollowedCode()
        for function, each in zip(self._functions, said[1:], strict=False):
            if each.signature is None:
                found[function] = SignatureRefusal(each.why, nearest=each.nearest)
            elif each.threads and not environment.resident:
                threads = ", ".join(each.threads[:3])
                why = f"its module starts threads when it is imported ({threads}){_THREADS}"
                found[function] = SignatureRefusal(why)
            else:
                found[function] = msgspec.structs.replace(
                    each.signature,
                    interpreter=environment.interpreter,
                    place=environment.place,
                    code=code.digests.get(function.partition(":")[0], ""),
                )
        if len(found) < len(self._functions):
            # Whoever comes behind may be fine.
            function = self._functions[len(found)]
            found[function] = SignatureRefusal(f"importing {function.partition(':')[0]} {self._ending()}")
        return ReaderAnswer(found, code)

    def _ending(self) -> str:
        """How it ended, and what was printed last."""
        words = " ".join(self._printed.text().split())
        return f"{self._end}: {words[-MAX_TAIL_CHARS:]}" if words else self._end

    def _start(self) -> None:
        environment = self.environment
        request = self._keep(os.memfd_create("request"))
        wanted = {"place": environment.place, "functions": self._functions, "seconds": int(self._within_s) + 2}
        os.write(request, json.dumps(wanted).encode())
        os.lseek(request, 0, os.SEEK_SET)
        said, printed = self._pipe(self._hear), self._pipe(self._overhear)
        self._process = subprocess.Popen(  # noqa: S603  # an interpreter that the configuration names, and our program
            # As warm parents are started (3.11 or newer): nothing of ours or of a user's own lies on the way.
            [environment.interpreter, "-P", "-s", str(_START), "signatures", str(request), str(said)],
            env=dict(environment.variables),
            cwd=environment.cwd,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
            pass_fds=(request, said),
            start_new_session=True,
            user=environment.uid,
            group=environment.gid,
            extra_groups=None if environment.gid is None else environment.groups,
        )
        for fd in (said, printed):
            self._fds.remove(fd)
            os.close(fd)
        # Where something that it started holds its pipes open, this still tells its end.
        pidfd = self._keep(os.pidfd_open(self._process.pid))
        self._selector.register(pidfd, selectors.EVENT_READ, lambda: self._exited(pidfd))

    def _pipe(self, read: Callable[[int], None]) -> int:
        """The end to write to, of a pipe whose other end `read` reads."""
        ours, theirs = map(self._keep, os.pipe())
        os.set_blocking(ours, False)
        self._pipes[ours] = read
        self._selector.register(ours, selectors.EVENT_READ, lambda: read(ours))
        return theirs

    def _keep(self, fd: int) -> int:
        self._fds.append(fd)
        return fd

    def _hear(self, fd: int) -> None:
        chunk = self._read(fd)
        self._said += chunk
        self._lines_left -= chunk.count(b"\n")
        if len(self._said) > MAX_SAID_BYTES:
            self._end = f"says more than {MAX_SAID_BYTES} bytes"
            self._is_over = True
        # One that is refused says nothing more, and is seen to end.
        self._is_over = self._is_over or self._lines_left <= 0

    def _overhear(self, fd: int) -> None:
        self._printed.add(self._read(fd))

    def _read(self, fd: int) -> bytes:
        """What is there; an end is seen once."""
        try:
            chunk = os.read(fd, _CHUNK_BYTES)
        except BlockingIOError:
            return b""
        if not chunk and self._pipes.pop(fd, None) is not None:
            self._selector.unregister(fd)
        return chunk

    def _exited(self, pidfd: int) -> None:
        # What it wrote last is in its pipes, each of which holds a chunk at most.
        for fd, read in list(self._pipes.items()):
            read(fd)
        status = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOWAIT)
        if status is not None and status.si_code == os.CLD_EXITED:
            self._end = f"ended with exit code {status.si_status}"
        elif status is not None:
            self._end = f"was ended by {signal_name(status.si_status)}"
        self._is_over = True
