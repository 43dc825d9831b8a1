"""Find out what this machine can enforce, by trying each thing in a process that ends with it.

{"cpu_s": null, "memory": null, …, "user": "cannot …: why",      null: it was tried, and held
 "landlock": {"version": "7", "network": null, "read": null, "write": null, "gaps": []}, "bubblewrap": {…}}
"""

import errno
import json
import mmap
import os
import resource
import select
import signal
import socket
import subprocess
from collections.abc import Callable
from typing import Final

from tooldispatchd.forked import libc
from tooldispatchd.forked.policy import Policy
from tooldispatchd.forked.sandbox import bubble, confine, landlock, namespaces, seccomp

TRIAL_S: Final = 2.0
"""The bound of one trial; each takes a few milliseconds."""

NOBODY: Final = 65534
"""A user that owns nothing: root becomes it to try limits that hold for other users only."""

Trial = Callable[[], str | None]
"""Tries something that must be refused; returns why it was not, None where it was. May raise OSError."""

_MIB: Final = 1 << 20


def main() -> None:
    """Print as one line of JSON for each key null where it can be enforced, or why it cannot."""
    version = landlock.abi()
    gaps = {
        4: "connecting to TCP ports is refused by the filter of system calls alone",
        6: "signals and abstract sockets reach other processes of the same user",
        9: "with `network = true` sockets in the file system can be connected to",
    }
    by_landlock = {
        "version": str(version) if version else "",
        "network": attempt(lambda: _try_confined(Policy(network=False), lambda: socket.socket(socket.AF_INET))),
        "read": attempt(lambda: _try_confined(Policy(read=(), write=()), lambda: os.scandir("/").close())),
        # Of itself: where that is not refused, nothing has changed.
        "write": attempt(lambda: _try_confined(Policy(write=()), lambda: os.open("/proc/self/comm", os.O_WRONLY))),
        "gaps": [text for since, text in gaps.items() if version < since],
    }
    found = {
        "cpu_s": attempt(_try_cpu),
        "memory": attempt(_try_memory),
        "processes": attempt(_try_processes),
        "files": attempt(_try_files),
        "file_size": attempt(_try_file_size),
        "nice": attempt(_try_nice),
        "user": attempt(_try_user),
        "seccomp": attempt(_try_seccomp),
        "user_namespaces": attempt(namespaces.enter_user_namespace),
        "mount_namespaces": attempt(confine.try_mounts),
        "landlock": by_landlock,
        "bubblewrap": _bubblewrap(),
    }
    print(json.dumps(found), flush=True)  # noqa: T201  # this is what it is for


def attempt(trial: Trial) -> str | None:
    """The trial's result in a process of its own, or the error that it raised."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        words = "it failed"
        try:
            words = trial() or "held"
        except (OSError, ValueError) as error:
            words = (error.strerror if isinstance(error, OSError) else None) or str(error)
        finally:
            os.write(writer, words.encode()[:4096])
            os._exit(0)
    os.close(writer)
    try:
        ready, _, _ = select.select([reader], [], [], TRIAL_S)
        said = os.read(reader, 4096) if ready else b"it did not come to an end"
    finally:
        os.close(reader)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    # An empty end is a process that was killed before it could say anything.
    result = said.decode(errors="replace") or "the attempt was killed"
    return None if result == "held" else result


def _try_cpu() -> str | None:
    # To pass it would take a second.
    confine.set_limits(Policy(cpu_s=1))
    return None if resource.getrlimit(resource.RLIMIT_CPU) == (1, 2) else "the limit was not taken on"


def _try_memory() -> str | None:
    confine.set_limits(Policy(memory=256 * _MIB))
    return _refused(lambda: mmap.mmap(-1, 512 * _MIB, flags=mmap.MAP_PRIVATE).close(), errno.ENOMEM)


def _try_processes() -> str | None:
    if os.getuid() == 0:
        confine.become(Policy(uid=NOBODY, gid=NOBODY))
    confine.confine(Policy(processes=1), program=None, scratch=None, leaf=None)
    return _refused(lambda: os.fork() or os._exit(0), errno.EAGAIN)


def _try_files() -> str | None:
    confine.set_limits(Policy(files=8))
    return _refused(lambda: [os.dup(1) for _ in range(16)], errno.EMFILE)


def _try_file_size() -> str | None:
    confine.set_limits(Policy(file_size=4096))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    fd = os.memfd_create("file_size")
    os.write(fd, bytes(4096))
    return _refused(lambda: os.write(fd, b"more"), errno.EFBIG)


def _try_nice() -> str | None:
    confine.set_limits(Policy(nice=19))
    return None if os.getpriority(os.PRIO_PROCESS, 0) == 19 else "it was not set"


def _try_user() -> str | None:
    if os.geteuid() != 0:
        return "only root can run programs as another user"
    confine.become(Policy(uid=NOBODY, gid=NOBODY))
    return _refused(lambda: os.setuid(0), errno.EPERM)


def _try_seccomp() -> str | None:
    libc.forbid_privileges()
    seccomp.install(seccomp.build(network=False, attributes=True))
    return _refused(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM), errno.EACCES)


def _try_confined(policy: Policy, action: Callable[[], object]) -> str | None:
    if landlock.abi() == 0:
        return "the kernel has no Landlock, or was not told to use it"
    confine.confine(policy, program=None, scratch=None, leaf=None)
    return _refused(action, errno.EACCES, errno.EROFS)


def _bubblewrap() -> dict[str, object]:
    version, gaps = "", []
    program = bubble.find()
    if program is None:
        why: str | None = "bubblewrap is not installed"
    else:
        try:
            done = subprocess.run(  # noqa: S603  # found in PATH
                [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=TRIAL_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            words = error.strerror if isinstance(error, OSError) else "it did not come to an end"
            why = f"bubblewrap cannot be run: {words}"
        else:
            version = done.stdout.decode(errors="replace").strip().rpartition(" ")[2]
            gaps = ["with `network = true` abstract sockets can be connected to"]
            why = attempt(_try_bubble)
    # All that it shuts in stands and falls with its namespaces: one trial serves for the three.
    return {"version": version, "network": why, "read": why, "write": why, "gaps": gaps}


def _try_bubble() -> str | None:
    policy = Policy(network=False, read=(), write=(), means="bubblewrap")
    fd = bubble.filter_descriptor(confine.prepare(policy).code)
    # `/sys` is not among what is shown, `/usr` read-only, and the only network the namespace's own.
    asked = "test ! -e /sys && test ! -w /usr && test $(grep -c : /proc/net/dev) = 1"
    argv = bubble.wrap(policy, ["/bin/sh", "-c", asked], cwd="/", scratch=None, seccomp_fd=fd)
    done = subprocess.run(  # noqa: S603  # our own
        argv, stdin=subprocess.DEVNULL, capture_output=True, pass_fds=[fd], timeout=TRIAL_S, check=False
    )
    if done.returncode == 0:
        return None
    return done.stderr.decode(errors="replace").strip() or "what it should hide can be seen"


def _refused(action: Callable[[], object], *numbers: int) -> str | None:
    try:
        action()
    except OSError as error:
        return None if error.errno in numbers else f"it was refused otherwise: {error}"
    return "what should be refused is not"
