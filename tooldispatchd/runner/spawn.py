"""Start an agent: in our process group, with our standard error, and its channel on the descriptors that it expects."""

import contextlib
import errno
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Final

from tooldispatchd.runner.ends import lift

NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126
SIGNALLED: Final = 128
# Python ignores these two, which the agent would inherit.
RESET: Final = (signal.SIGPIPE, signal.SIGXFSZ)


class AgentStartError(Exception):
    """The agent cannot be started; `code` is the exit code of a shell in that case."""

    def __init__(self, program: str, error: OSError) -> None:
        super().__init__(f"cannot start '{program}': {error.strerror or error}")
        self.code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE


class AgentProcess:
    """A child that is not reaped yet; `pidfd` is readable when it has exited."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.pidfd = -1
        try:
            self.pidfd = lift(os.pidfd_open(pid))
        except OSError:
            # Out of descriptors: an agent that cannot be watched must not live.
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise

    def signal(self, number: int) -> None:
        """Send a signal; no error if the agent has exited, or changed its user."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self._pid, number)

    def reap(self) -> int:
        """Wait for its exit; its code, or 128 plus the number of the signal that ended it."""
        _, status = os.waitpid(self._pid, 0)
        os.close(self.pidfd)
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else SIGNALLED - code


def look_up(program: str, environ: Mapping[str, str]) -> None:
    """Check that a program can be found, before a daemon is started for it; raises `AgentStartError`."""
    here = "/" in program
    places = [program] if here else [os.path.join(where, program) for where in os.get_exec_path(environ)]  # noqa: PTH118  # an empty place is here
    why = errno.ENOENT
    for place in places:
        if os.access(place, os.X_OK) and not os.path.isdir(place):  # noqa: PTH112  # as above
            return
        if os.access(place, os.F_OK):
            why = errno.EACCES
    raise AgentStartError(program, OSError(why, os.strerror(why)))


def spawn(command: Sequence[str], env: Mapping[str, str], fds: Mapping[int, int]) -> AgentProcess:
    """Start `command` with `fds` (its number to ours, which are lifted); raises `AgentStartError`.

    The agent inherits the other descriptors that we inherited (a file lock, a job server); those that we opened are
    closed on exec. It shares our process group, so that a terminal treats the two as one job.
    """
    actions = [(os.POSIX_SPAWN_DUP2, ours, number) for number, ours in fds.items()]
    try:
        return AgentProcess(os.posix_spawnp(command[0], list(command), env, file_actions=actions, setsigdef=RESET))
    except OSError as error:
        raise AgentStartError(command[0], error) from error
