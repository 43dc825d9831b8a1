"""A program, and a function, for two calls at once: one holds a secret, the other attacks it and all that is around.

As a program `cell.py FIELD` it prints JSON; so it is `play(FIELD)` as a function. The standard library alone. For each
attempt it says `refused ERRNO`, or what it got.
"""

# By the system's own calls, not by what Path makes of them.
# ruff: noqa: PTH101, PTH102, PTH104, PTH109, PTH110, PTH115, PTH123, PTH208, PTH211

import ctypes
import errno
import json
import os
import resource
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

LIBC: Final = ctypes.CDLL(None, use_errno=True)
SEIZE: Final = 0x4206
NEW_USERS: Final = 0x10000000
NEW_MOUNTS: Final = 0x00020000

Attempts = Mapping[str, Callable[[], object]]


def play(field: str) -> dict[str, str]:
    """Hold what may be stolen where FIELD says until when, else attack what it names."""
    told = json.loads(field)
    if "until" in told:
        return hold(told)
    outcomes = tried(on_kernel(told))
    if told["files"]:
        outcomes |= tried(on_files(told))
    parents = {"its parent": os.getppid()} if told["parents"] else {}
    for name, pid in {**told["processes"], **parents}.items():
        attempts = {**on_process(pid, told), **(on_files_of(pid) if told["files"] else {})}
        outcomes |= {f"{attempt} of {name}": outcome for attempt, outcome in tried(attempts).items()}
    return outcomes


def hold(told: Mapping[str, str]) -> dict[str, str]:
    scratch = os.environ["TOOLDISPATCHD_SCRATCH"]
    with open(f"{scratch}/secret", "w") as file:
        file.write("secret")
    with open(told["note"], "w") as file:
        file.write(f"{os.getpid()} {scratch}")
    os.rename(told["note"], told["ready"])
    while not os.path.exists(told["until"]):
        time.sleep(0.005)
    with open(f"{scratch}/secret") as file:
        return {"kept": file.read()}


def tried(attempts: Attempts) -> dict[str, str]:
    return {name: outcome(attempt) for name, attempt in attempts.items()}


def outcome(attempt: Callable[[], object]) -> str:
    try:
        return f"got {attempt()!r}"[:200]
    except OSError as error:
        return f"refused {errno.errorcode.get(error.errno or 0, str(error))}"


def on_process(pid: int, told: Mapping[str, Any]) -> Attempts:
    """Looking into, changing, steering and signalling a process; what is sent changes nothing where it arrives."""
    calls, word = told["calls"], struct.pack("=QQ", 4096, 8)
    return {
        "environment": lambda: read(f"/proc/{pid}/environ"),
        "memory": lambda: os.open(f"/proc/{pid}/mem", os.O_RDWR),
        "map": lambda: read(f"/proc/{pid}/maps"),
        "third descriptor": lambda: os.open(f"/proc/{pid}/fd/3", os.O_RDWR),
        "output": lambda: os.open(f"/proc/{pid}/fd/1", os.O_WRONLY),
        "link of a descriptor": lambda: os.readlink(f"/proc/{pid}/fd/1"),
        "directory": lambda: os.listdir(f"/proc/{pid}/cwd/"),
        "root": lambda: os.listdir(f"/proc/{pid}/root/"),
        "trace": lambda: call(calls["ptrace"], SEIZE, pid, 0, 0),
        "peek": lambda: call(calls["process_vm_readv"], pid, word, 1, word, 1, 0),
        "fetch": lambda: call(calls["pidfd_getfd"], os.pidfd_open(pid), 3, 0),
        "signal": lambda: os.kill(pid, signal.SIGCONT),
        "signal by descriptor": lambda: signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGCONT),
        "signal to the group": lambda: os.killpg(pid, signal.SIGCONT),
        "limit": lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE),
        "priority": lambda: os.setpriority(os.PRIO_PROCESS, pid, 19),
    }


def on_files_of(pid: int) -> Attempts:
    """What the kernel lets every process of a user do with files of /proc, be it traceable or not."""
    return {
        "descriptors": lambda: os.listdir(f"/proc/{pid}/fd"),
        "words": lambda: read(f"/proc/{pid}/cmdline"),
        "badness": lambda: os.open(f"/proc/{pid}/oom_score_adj", os.O_WRONLY),
    }


def on_files(told: Mapping[str, Any]) -> Attempts:
    """Reading and writing outside of what is allowed."""
    outside, other = told["outside"], told["scratch"]
    return {
        "reading a secret": lambda: read(f"{outside}/secret"),
        "reading it by a link": lambda: read_by_link(f"{outside}/secret"),
        "moving it here": lambda: os.rename(f"{outside}/secret", "moved"),
        "linking it here": lambda: os.link(f"{outside}/secret", "linked"),
        "writing to it": lambda: os.open(f"{outside}/secret", os.O_WRONLY | os.O_TRUNC),
        "changing its mode": lambda: os.chmod(f"{outside}/secret", 0o777),
        "making something outside": lambda: os.mkdir(f"{outside}/made"),
        "reading the daemon's configuration": lambda: read(told["configuration"]),
        "listing the other's scratch": lambda: os.listdir(other),
        "reading in the other's scratch": lambda: read(f"{other}/secret"),
        "writing to the other's scratch": lambda: os.open(f"{other}/secret", os.O_WRONLY | os.O_TRUNC),
        "making something beside the scratch": lambda: os.mkdir(f"{other}-made"),
    }


def on_kernel(told: Mapping[str, Any]) -> Attempts:
    """Connecting to anything, and leaving the namespaces."""
    calls, mounts = told["calls"], f"/proc/{told['daemon']}/ns/mnt"
    return {
        "connecting to the daemon": lambda: socket.socket(socket.AF_UNIX).connect(told["socket"]),
        "a socket of the network": lambda: socket.socket(socket.AF_INET),
        # Neither can succeed, whoever is let: there is no such file system, and nothing is mounted there. Then the
        # kernel says so (ENODEV, EINVAL), which is no refusal; and a sandbox that fails costs the machine nothing.
        "mounting": lambda: call(calls["mount"], b"none", os.fsencode(os.getcwd()), b"nosuchfs", 0, 0),
        "unmounting": lambda: call(calls["umount2"], os.fsencode(os.environ["TOOLDISPATCHD_SCRATCH"]), 0),
        "a user namespace": lambda: call(calls["unshare"], NEW_USERS),
        "a mount namespace": lambda: call(calls["unshare"], NEW_MOUNTS),
        "the daemon's namespace": lambda: call(calls["setns"], os.open(mounts, os.O_RDONLY), 0),
        "an inherited socket": lambda: sockets(told["own"]) or refuse(),
    }


def sockets(own: int) -> list[str]:
    """Sockets that this process has been given, beyond `own`."""
    found = [name for name in os.listdir("/proc/self/fd") if is_socket(f"/proc/self/fd/{name}")]
    return found if len(found) > own else []


def is_socket(path: str) -> bool:
    try:
        return os.readlink(path).startswith("socket:")
    except FileNotFoundError:
        # The descriptor of the listing.
        return False


def refuse() -> NoReturn:
    raise OSError(errno.ENOENT, "there is none")


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        # Of what shows nothing to others the end comes at once.
        return file.read(50) or refuse()


def read_by_link(path: str) -> bytes:
    os.symlink(path, "link")
    return read("link")


def call(number: int, *arguments: int | bytes) -> int:
    words = [ctypes.c_long(word) if isinstance(word, int) else ctypes.c_char_p(word) for word in arguments]
    result: int = LIBC.syscall(ctypes.c_long(number), *words)
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result


if __name__ == "__main__":
    print(json.dumps(play(sys.argv[1])))
