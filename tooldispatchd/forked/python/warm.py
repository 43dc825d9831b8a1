"""The warm parent: imports the modules of Python tools once, then forks a child for each call, or for many.

    imported ──▶ frozen ──▶ asked ──▶ fork ──▶ confined ──▶ call read ──▶ function ──▶ answer ──▶ _exit
                              ▲─────────┘         └── resident: the next call ──▶ …

A module that fails when it is imported does not end the parent: the calls of its tool are told the failure.
Stdlib only, but for what `signature` needs.
"""

import gc
import io
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from tooldispatchd.forked.nolinks import enter_straight
from tooldispatchd.forked.policy import Policy
from tooldispatchd.forked.python.calling import CallSocket, Function, Gone, caller, failure, perform
from tooldispatchd.forked.python.context import Shutting, enter_scratch, files_places, put_back
from tooldispatchd.forked.python.followed import follow
from tooldispatchd.forked.python.frames import FrameKind, frame
from tooldispatchd.forked.python.largepages import gather
from tooldispatchd.forked.python.marking import Mark
from tooldispatchd.forked.python.rehearsal import rehearse, rehearsed

# The control socket's number in every forker.
CONTROL = 3
# A call's socket lies above what programs of a tool's own take for their numbers, and is closed when one is started.
LOWEST_FD = 100
# How often, and in which steps, threads that have just ended are waited for.
LOOKS = 5
ENDING_S = 0.02
# The exit code of a child that could not even tell its failure; its stderr does.
EX_SOFTWARE = 70
# A module says so of functions that run programs of others, and start no thread.
ATTENDED = "TOOLDISPATCHD_ATTENDED"
# No tool's function is named so.
REHEARSAL = "rehearsal"


class Errand(NamedTuple):
    """The task of one child; private to the Python provider, which sends it as the request's `fork`."""

    policy: int
    """Its place among the policies that the parent was told of."""
    is_resident: bool
    """Whether it serves many calls, and is confined before the first of them."""
    number: int = 0
    """The child's, by which the daemon knows what it leaves behind."""
    scratch: str | None = None
    """A worker's own directory, which is there; None where each call has one."""
    workspace: str | None = None
    """That of the one session which a worker serves."""


class Load(NamedTuple):
    """The task of a parent: the functions of its tools, their policies, and where its modules lie."""

    functions: tuple[str, ...]
    policies: tuple[str, ...]
    """As `Policy.to_json` writes them; all have the same user and groups."""
    path: tuple[str, ...]
    """Directories that are searched after the interpreter's own."""

    def to_json(self) -> str:
        """As one word of a command line."""
        return json.dumps(self._asdict())

    @classmethod
    def from_json(cls, text: str) -> "Load":
        """The load that `to_json` wrote; raises ValueError or TypeError for anything else."""
        return cls(**{name: tuple(value) for name, value in json.loads(text).items()})


class WarmParent:
    """The functions, ready to be called, and what is said of those that cannot be."""

    def __init__(self, load: Load) -> None:
        self._policies = [Policy.from_json(text) for text in load.policies]
        self._confinements: dict[Policy, ForkConfinement | OSError] = {}
        self._functions: dict[str, Function] = {}
        self._failures: dict[str, bytes] = {}
        self._refusal: bytes | None = None
        own_path = tuple(sys.path)
        follow()
        # Behind everything else: modules beside a configuration must hide none of the interpreter's.
        sys.path.extend(load.path)
        for name in load.functions:
            self._load(name)
        # A module may have had its children reaped by the kernel; ours are not to be before the daemon says so.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # Each child puts its socket there, above all that is open, without another look.
        self._fd = free_descriptor()
        # Before anything is prepared that would confine this process. Whatever an interpreter lacks, or its msgspec
        # raises, the calls are told; without this they take longer.
        with suppress(Exception):
            self._functions[REHEARSAL] = rehearsed()
            errand = Errand(0, is_resident=False)
            rehearse(lambda channel, fds: self._live(errand, channel, fds), self._fd, CONTROL)
        self._functions.pop(REHEARSAL, None)
        for policy in dict.fromkeys(one for each in self._policies for one in (each, for_worker(each))):
            if policy._replace(uid=None, gid=None, groups=()) == Policy():
                continue
            try:
                self._confinements[policy] = ForkConfinement(policy, load, own_path)
            except OSError as error:
                self._confinements[policy] = error
        for stream in (sys.stdout, sys.stderr):
            # The output of a child that is killed should be read up to its last line.
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(line_buffering=True)
        self._mark: Mark | None = None
        # Shut off from /proc, or not started by the daemon: what sessions of their own its children leave ends with the
        # parent.
        with suppress(OSError, ValueError):
            self._mark = Mark()
        # Each child has a copy.
        self._channel = CallSocket(self._fd)
        # These objects live as long as the parent: the collector would only make the children copy their pages.
        gc.collect()
        gc.freeze()
        gather()

    def start(self, request: tuple[Any, ...], fds: list[int]) -> int:
        """Fork one child for `request` (an `Errand`) with its socket and its stderr; its pid. Raises OSError."""
        errand = Errand(*request)
        # Before the fork, where it costs little: each page that the child writes to must first be copied for it.
        if self._mark is not None:
            self._mark.put(errand.number)
        channel = self._channel
        pid = os.fork()
        if pid:
            return pid
        code = EX_SOFTWARE
        try:
            # First: until then it has started nothing, and the daemon may kill it alone. Not among what is rehearsed,
            # since the parent leads a session.
            os.setsid()
            channel.belong()
            self._live(errand, channel, fds)
            code = 0
        except Gone:
            code = 0
        except BaseException as error:  # noqa: BLE001, ASYNC103  # nothing of the parent's may run on in the child
            os.write(2, failure("child", error))
        finally:
            os._exit(code)

    def _load(self, name: str) -> None:
        """Make the function `name` ready to be called, or note why it cannot be."""
        before = threads()
        try:
            # Here, since an interpreter may lack what it needs; then every call is told so.
            from tooldispatchd.forked.python.functions import find_function  # noqa: PLC0415
            from tooldispatchd.forked.python.signature import prepare  # noqa: PLC0415

            prepared = prepare(find_function(name))
            self._functions[name] = Function(
                name=name,
                call=caller(prepared.function, is_async=prepared.is_async),
                arguments=prepared.decode,
                encode=prepared.encode,
                wants_ctx=prepared.takes_ctx,
                is_attended=getattr(sys.modules.get(name.partition(":")[0]), ATTENDED, False) is True,
            )
        except BaseException as error:  # noqa: BLE001, ASYNC103  # a module's code may raise anything, and be told of it
            self._failures[name] = failure("import", error)
        for _ in range(LOOKS):
            # One that has ended is counted a moment longer.
            if threads() <= before:
                break
            time.sleep(ENDING_S)
        else:
            # A lock that another thread holds while we fork is held in the child for ever: no function can be trusted.
            why = (
                f"importing '{name.partition(':')[0]}' started a thread, and a process with threads cannot be forked"
                " (numeric libraries are told to start none by OPENBLAS_NUM_THREADS=1 or OMP_NUM_THREADS=1 in `env`)"
            )
            self._refusal = failure("import", RuntimeError(why))

    def _live(self, errand: Errand, channel: CallSocket, fds: list[int]) -> None:
        """The whole life of a child; nothing of the parent's is left open in it but its standard input."""
        sock, stderr, *leaf = fds
        os.close(CONTROL)
        os.dup2(stderr, 1)
        os.dup2(stderr, 2)
        os.close(stderr)
        os.dup2(sock, self._fd, inheritable=False)
        os.close(sock)
        if errand.is_resident:
            self._serve(errand, channel)
            return
        # The call alone says what its scratch directory is.
        call, line = channel.receive()
        at = (call["workspace"], call["held"]) if call["held"] else None
        own = errand._replace(scratch=call["scratch"], workspace=call["workspace"])
        function = self._functions.get(call["function"])
        self._confine(own, channel, *leaf, at=at, attended=function is not None and function.is_attended)
        channel.answer(self._answer(call, line, channel))

    def _confine(
        self,
        errand: Errand,
        channel: CallSocket,
        leaf: int | None = None,
        *,
        at: tuple[str, list[int]] | None = None,
        attended: bool = False,
    ) -> None:
        """Shut this child in, once it has gone to the directory `at`, as `enter_straight` does.

        Raises Gone where that cannot be, when the daemon has been told.
        """
        try:
            scratch, workspace = errand.scratch, errand.workspace
            enter_given(scratch)
            if at is not None:
                enter_straight(*at)
            policy = self._policies[errand.policy]
            confinement = self._confinements.get(for_worker(policy) if errand.is_resident else policy)
            if isinstance(confinement, OSError):
                raise confinement
            if confinement is not None:
                confinement.enter(scratch, workspace, leaf, attended=attended)
            elif leaf is not None:
                os.write(leaf, b"0")
            if leaf is not None:
                os.close(leaf)
        except OSError as error:
            channel.answer(frame(FrameKind.ERROR, failure("confine", error)))
            raise Gone from error

    def _serve(self, errand: Errand, channel: CallSocket) -> None:
        """Serve call after call, until one leaves a thread or a file behind; raises Gone where no more come."""
        # Before it is opened: where another stands there meanwhile, the first call finds that out.
        workspace = identity(errand.workspace)
        self._confine(errand, channel)
        cpu_s = self._policies[errand.policy].cpu_s
        before = threads()
        files = files_places()
        while True:
            call, line = channel.receive()
            if identity(errand.workspace) != workspace:
                # Another directory has its path now, and this process is shut in to the one that had it.
                channel.answer(frame(FrameKind.UNBEGUN))
                return
            if cpu_s is not None:
                allow_cpu(cpu_s)
            if errand.scratch is None:
                enter_given(call["scratch"])
            else:
                call["scratch"] = errand.scratch
            try:
                if call["held"]:
                    # Each call says where, as all of one tool do.
                    enter_straight(call["workspace"], call["held"])
            except OSError as error:
                channel.answer(frame(FrameKind.ERROR, failure("confine", error)))
                return
            answer = self._answer(call, line, channel)
            put_back(files)
            if is_leaving := threads() > before or (errand.scratch is not None and not is_empty(errand.scratch)):
                answer = frame(FrameKind.LEAVING) + answer
            channel.answer(answer)
            if is_leaving:
                return

    def _answer(self, call: dict[str, Any], line: bytes, channel: CallSocket) -> bytes:
        if self._refusal is not None:
            return frame(FrameKind.ERROR, self._refusal)
        name = call["function"]
        function = self._functions.get(name)
        if function is None:
            return frame(FrameKind.ERROR, self._failures[name])
        return perform(function, call, line, channel)


def threads() -> int:
    """How many threads this process has, those of C libraries too."""
    try:
        # The kernel counts them as links, as it does the directories of any directory; listing costs ten times more.
        return os.stat("/proc/self/task").st_nlink - 2  # noqa: PTH116  # as above
    except OSError:
        # Shut off from /proc; nor can a C library's threads be seen then.
        return sys.modules["threading"].active_count() if "threading" in sys.modules else 1


def identity(path: str | None) -> tuple[int, int] | None:
    """The directory that has this path now; None for none.

    Its numbers are not given to another one while a process is shut in to it.
    """
    if path is None:
        return None
    try:
        status = os.stat(path)  # noqa: PTH116  # in the way of every call: pathlib costs more
    except OSError:
        return None
    return status.st_dev, status.st_ino


def is_empty(directory: str) -> bool:
    """Whether nothing is in it; not where it is gone."""
    try:
        return not os.listdir(directory)  # noqa: PTH208  # as above
    except OSError:
        return False


def free_descriptor() -> int:
    """A number from LOWEST_FD on that is not open, or a lower one where few descriptors are allowed."""
    number = min(LOWEST_FD, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
    while True:
        try:
            os.fstat(number)
        except OSError:
            return number
        number += 1


def enter_given(path: str | None) -> None:
    """Enter the call's scratch directory if it is there: else only a function that asks for it makes it."""
    if path is not None and os.path.isdir(path):  # noqa: PTH112  # in the way of every call: pathlib costs more
        enter_scratch(path)


def allow_cpu(cpu_s: int) -> None:
    """Bound this call's processor time, beside what earlier calls have used. Over it comes SIGXCPU."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    # Whole seconds, rounded up: a call never gets less than it is allowed.
    soft = int(used.ru_utime + used.ru_stime) + 1 + cpu_s
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def for_worker(policy: Policy) -> Policy:
    """The policy without what is put on each call: counted from its start, processor time would end a worker for what
    all its calls took together."""
    return policy._replace(cpu_s=None)


class ForkConfinement:
    """How children of one policy are shut in; made once, in the parent, whose user and groups are the policy's."""

    def __init__(self, policy: Policy, load: Load, own_path: tuple[str, ...]) -> None:
        """Raises OSError where the machine cannot do what the policy asks.

        `own_path` was `sys.path` before that of `load` came to it, where code and nothing else may be read.
        """
        # Imported only where there is something to confine.
        from tooldispatchd.forked.python import siblings  # noqa: PLC0415
        from tooldispatchd.forked.sandbox import confine  # noqa: PLC0415

        if policy.is_sandboxed and policy.means != "landlock":
            raise OSError(f"a Python function is not a program, which {policy.means} would have to execute")
        # Of a workspace nothing is known before the call.
        confine.prepare(policy.at(None))
        self._confine = confine.confine
        self._policy = policy
        # A function may import further modules when it runs.
        around = siblings.around(load.path, own_path, load.functions) if policy.read is not None else {}
        self._finders = around
        # Of a program its environment would be looked for in each call; of this interpreter these are its parts.
        own = (sys.prefix, sys.base_prefix, sys.exec_prefix, *(path for path in sys.path if path not in around))
        found = dict.fromkeys(os.path.realpath(path) for path in own if os.path.isdir(path))  # noqa: PTH112
        # A path beneath one of these needs no rule, which would cost each call its time.
        self._also = (
            sys.executable,
            *found,
            *dict.fromkeys(
                path
                for one in around.values()
                for path in one.paths
                if not any(siblings.lies_in(path, directory) for directory in found)
            ),
        )

    def enter(self, scratch: str | None, workspace: str | None, leaf: int | None, *, attended: bool) -> None:
        """Shut this process in for good; raises OSError."""
        # A module may have been taken away since.
        also = [path for path in self._also if os.path.exists(path)]  # noqa: PTH110  # in each call: pathlib costs more
        policy = self._policy.at(workspace)
        self._confine(policy, program=None, scratch=scratch, leaf=leaf, also=also, attended=attended)
        Shutting.is_kept = policy.read is not None or policy.asked_read is None
        Shutting.read = policy.asked_read if policy.read is None else policy.read
        Shutting.write = policy.asked_write if policy.write is None else policy.write
        sys.path_importer_cache.update(self._finders)


def serve_warm(text: str, serve: Callable[[Callable[[tuple[Any, ...], list[int]], int]], None]) -> None:
    """Load what `text` (`Load.to_json`) names, then `serve` forks until the daemon ends it."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    # Output of modules while they are imported is no answer to anything.
    os.dup2(2, 1)
    load = Load.from_json(text)
    policy = Policy.from_json(load.policies[0])
    if policy.uid is not None or policy.gid is not None:
        from tooldispatchd.forked.sandbox.confine import become  # noqa: PLC0415  # most stay the daemon's user

        # Before any of the modules is imported: their code is the tool's.
        become(policy)
    serve(WarmParent(load).start)
