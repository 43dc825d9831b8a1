"""Which system calls a shut-in process may not make: a filter in classic BPF, for the kernel and for bubblewrap.

All calls are let through but those of the tables below. What reaches into other processes, changes mounts, namespaces
or the machine, or has been a way out of sandboxes, fails with EPERM, as if the process lacked the privilege. Some calls
fail with ENOSYS, as if the kernel were too old:

- `clone3` and `openat2`, whose arguments a filter cannot look at; the C library then uses older calls;
- `io_uring_*`, in whose place programs wait with epoll;
- the memory and messages of System V and POSIX, which all processes of a user share.

A process that makes a call of another architecture (32-bit programs on a 64-bit kernel) is killed with SIGSYS, since
the numbers would mean other calls. x32 is answered ENOSYS, as by a kernel that lacks it. See seccomp(2).

Not refused, though it reaches further: to bind other processes of the same user to processors (`sched_setaffinity`),
since threads are bound by the same call.
"""

import ctypes
import errno
import functools
import os
import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from tooldispatchd.forked.libc import prctl


class Machine(NamedTuple):
    """An architecture: how the kernel names it to a filter, and its column in the tables."""

    audit: int
    column: int
    has_x32: bool


MACHINES: Final = {
    "x86_64": Machine(audit=0xC000003E, column=0, has_x32=True),
    "aarch64": Machine(audit=0xC00000B7, column=1, has_x32=False),
}

# Numbers on x86_64 and aarch64; None where the architecture lacks the call. From the kernel's asm/unistd.h.
_Numbers = tuple[int | None, int | None]


def _calls(table: str) -> dict[str, _Numbers]:
    """Calls by name: each with its number on x86_64 and on aarch64, "-" where the architecture lacks it."""
    rows = (row.split() for row in table.split(","))
    return {name: (_number(x86_64), _number(aarch64)) for name, x86_64, aarch64 in rows}


def _number(word: str) -> int | None:
    return None if word == "-" else int(word)


REFUSED: Final = {
    # Other processes.
    **_calls(
        "ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, process_madvise 440 440, "
        "pidfd_getfd 438 438, kcmp 312 272, migrate_pages 256 238"
    ),
    # Mounts and namespaces.
    **_calls(
        "mount 165 40, umount2 166 39, pivot_root 155 41, chroot 161 51, open_tree 428 428, open_tree_attr 467 467, "
        "move_mount 429 429, fsopen 430 430, fsconfig 431 431, fsmount 432 432, fspick 433 433, "
        "mount_setattr 442 442, setns 308 268, unshare 272 97"
    ),
    # Ways out of sandboxes in the past: much code of the kernel behind one call, or files without their paths.
    **_calls(
        "bpf 321 280, perf_event_open 298 241, userfaultfd 323 282, open_by_handle_at 304 265, "
        "fanotify_init 300 262, add_key 248 217, request_key 249 218, keyctl 250 219, lookup_dcookie 212 18"
    ),
    # The machine.
    **_calls(
        "init_module 175 105, finit_module 313 273, delete_module 176 106, kexec_load 246 104, "
        "kexec_file_load 320 294, reboot 169 142, swapon 167 224, swapoff 168 225, acct 163 89, quotactl 179 60, "
        "quotactl_fd 443 443, syslog 103 116, sethostname 170 161, setdomainname 171 162, settimeofday 164 170, "
        "clock_settime 227 112, vhangup 153 58, iopl 172 -, ioperm 173 -, modify_ldt 154 -, uselib 134 -"
    ),
}

MISSING: Final = {
    **_calls("clone3 435 435, io_uring_setup 425 425, io_uring_enter 426 426, io_uring_register 427 427"),
    # It takes a new file's mode from memory, which a filter cannot look at.
    **_calls("openat2 437 437"),
    # Memory and messages that all processes of a user share.
    **_calls(
        "shmget 29 194, shmat 30 196, shmctl 31 195, semget 64 190, semop 65 193, semctl 66 191, "
        "semtimedop 220 192, msgget 68 186, msgsnd 69 189, msgrcv 70 188, msgctl 71 187, mq_open 240 180, "
        "mq_unlink 241 181"
    ),
}

OF_ITSELF: Final[dict[str, tuple[_Numbers, int]]] = {
    "prlimit64": ((302, 261), 0),
    "sched_setscheduler": ((144, 119), 0),
    "sched_setparam": ((142, 118), 0),
    "sched_setattr": ((314, 274), 0),
}
"""Calls on any process of the same user: only where the argument at that index is 0, the caller itself."""

PRIORITIES: Final[dict[str, tuple[_Numbers, int]]] = {"setpriority": ((141, 140), 2), "ioprio_set": ((251, 30), 3)}
"""The second argument names the process (0 is the caller), unless the first has this value: then it names a user."""

WITH_MODE: Final[dict[str, tuple[_Numbers, int]]] = {
    "chmod": ((90, None), 1),
    "fchmod": ((91, 52), 1),
    "fchmodat": ((268, 53), 2),
    "fchmodat2": ((452, 452), 2),
    "creat": ((85, None), 1),
    "mknod": ((133, None), 1),
    "mknodat": ((259, 33), 2),
}
"""Calls that give a file the mode at that index: never set-user-ID nor set-group-ID, which would outlive the call for
other users to run. A directory, which a filter cannot tell from a file, gets the latter from the one above it alone."""

OPENING: Final[dict[str, tuple[_Numbers, int]]] = {"open": ((2, None), 1), "openat": ((257, 56), 2)}
"""Calls that may make a file, with the index of the flags; the mode stands behind them and means nothing else."""

ATTRIBUTES: Final = _calls(
    "chmod 90 -, fchmod 91 52, fchmodat 268 53, fchmodat2 452 452, chown 92 -, fchown 93 55, lchown 94 -, "
    "fchownat 260 54, setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7, setxattrat 463 463, removexattr 197 14, "
    "lremovexattr 198 15, fremovexattr 199 16, removexattrat 466 466, file_setattr 469 469, utime 132 -, "
    "utimes 235 -, futimesat 261 -"
)
"""Calls that change a file's attributes, of which Landlock does not speak; `utimensat` has a rule of its own."""

UNREACHABLE: Final[dict[str, _Numbers]] = {"socket": (41, 198), "connect": (42, 203), "bind": (49, 200)}
"""Refused with EACCES where there is no network, as by a firewall's or a file's rules."""

_CLONE: Final = (56, 220)
_IOCTL: Final = (16, 29)
_SOCKETPAIR: Final = (53, 199)
_UTIMENSAT: Final = (280, 88)

_NEW_NAMESPACES: Final = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET."""
_SETS_IDS: Final = 0o6000
_MAKES_FILES: Final = 0o100 | 0o20000000
"""O_CREAT and what makes O_TMPFILE."""
_TERMINAL_IOCTLS: Final = (0x5412, 0x541C, 0x5423)
"""TIOCSTI and TIOCLINUX, which type into a terminal, and TIOCSETD, which loads modules."""
_FLAG_IOCTLS: Final = (0x40086602, 0x401C5820)
"""FS_IOC_SETFLAGS and FS_IOC_FSSETXATTR, which change a file's attributes."""
_STREAM_TYPES: Final = (1, 5)
"""SOCK_STREAM and SOCK_SEQPACKET. The ends of a SOCK_DGRAM pair may send to any address all the same."""

# linux/bpf_common.h and linux/seccomp.h
_LOAD: Final = 0x20
_AND: Final = 0x54
_IF_EQUAL: Final = 0x15
_IF_AT_LEAST: Final = 0x35
_IF_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06
_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_ERRNO: Final = 0x00050000
_REFUSED: Final = _ERRNO | errno.EPERM
_UNREACHABLE: Final = _ERRNO | errno.EACCES
_NUMBER_AT: Final = 0
_MACHINE_AT: Final = 4
_ARGUMENTS_AT: Final = 16
_X32_BIT: Final = 0x40000000
_LEAF: Final = 3
"""Calls that are compared one by one where the halving ends."""

_PR_SET_SECCOMP: Final = 22
_MODE_FILTER: Final = 2


_Code = tuple[bytes, ...]
"""Instructions, the last of which returns."""


def _step(operation: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", operation, if_true, if_false, value)


_BY_DESCRIPTOR: Final[_Code] = (
    # Both halves of the path's address count: a path may be put where one of them is zero.
    _step(_LOAD, _ARGUMENTS_AT + 8),
    _step(_IF_EQUAL, 0, 0, 2),
    _step(_LOAD, _ARGUMENTS_AT + 8 + 4),
    _step(_IF_EQUAL, 0, 1, 0),
    _step(_RETURN, _REFUSED),
    _step(_RETURN, _ALLOW),
)
"""Allow `utimensat` without a path: so `touch`, `cp` and `tar` set the times of what they have just written."""


def _always(verdict: int) -> _Code:
    return (_step(_RETURN, verdict),)


def _by_argument(index: int, values: Iterable[int], *, matching: int, other: int, mask: int | None = None) -> _Code:
    """Judge by the low half of an argument; the kernel itself looks at no more of flags, types and commands."""
    # Both architectures are little-endian: the low half comes first.
    code = [_step(_LOAD, _ARGUMENTS_AT + 8 * index)]
    if mask is not None:
        code.append(_step(_AND, mask))
    for value in values:
        code += [_step(_IF_EQUAL, value, 0, 1), _step(_RETURN, matching)]
    return (*code, _step(_RETURN, other))


def _tree(verdicts: Sequence[tuple[int, _Code]]) -> _Code:
    """Judge by the number of the call, found by halves: for each filter the kernel first runs it over all numbers."""
    if len(verdicts) > _LEAF:
        middle = len(verdicts) // 2
        below, above = _tree(verdicts[:middle]), _tree(verdicts[middle:])
        return (_step(_IF_AT_LEAST, verdicts[middle][0], len(below), 0), *below, *above)
    code: list[bytes] = []
    for number, verdict in verdicts:
        code += [_step(_IF_EQUAL, number, 0, len(verdict)), *verdict]
    return (*code, *_always(_ALLOW))


# A fork for each workspace would build the same filter again.
@functools.cache
def build(*, network: bool, attributes: bool, machine: str | None = None) -> bytes:
    """The filter as an array of sock_filter, which `install` and bubblewrap's `--seccomp` take.

    Without `network` no socket can be made, connected or bound; connected pairs can. Without `attributes` no file's
    mode, owner, times or extended attributes can be changed, but its times through a descriptor. Raises ValueError for
    an architecture without tables.
    """
    name = machine or os.uname().machine
    if name not in MACHINES:
        raise ValueError(f"cannot make a filter of system calls for {name}: known are {', '.join(MACHINES)}")
    audit, column, has_x32 = MACHINES[name]
    verdicts = _for_all(column)
    commands = _TERMINAL_IOCTLS if attributes else (*_TERMINAL_IOCTLS, *_FLAG_IOCTLS)
    verdicts[_IOCTL[column]] = _by_argument(1, commands, matching=_REFUSED, other=_ALLOW)
    if not attributes:
        for numbers in ATTRIBUTES.values():
            verdicts[numbers[column]] = _always(_REFUSED)
        verdicts[_UTIMENSAT[column]] = _BY_DESCRIPTOR
    if not network:
        for numbers in UNREACHABLE.values():
            verdicts[numbers[column]] = _always(_UNREACHABLE)
        # The rest of the type's bits are flags.
        pairs = _by_argument(1, _STREAM_TYPES, mask=0xF, matching=_ALLOW, other=_UNREACHABLE)
        verdicts[_SOCKETPAIR[column]] = pairs
    code = [_step(_LOAD, _MACHINE_AT), _step(_IF_EQUAL, audit, 1, 0), _step(_RETURN, _KILL), _step(_LOAD, _NUMBER_AT)]
    if has_x32:
        code += [_step(_IF_AT_LEAST, _X32_BIT, 0, 1), _step(_RETURN, _ERRNO | errno.ENOSYS)]
    known = sorted((number, verdict) for number, verdict in verdicts.items() if number is not None)
    return b"".join((*code, *_tree(known)))


def _for_all(column: int) -> dict[int | None, _Code]:
    """The verdicts that hold for every filter; under None those of calls that the architecture lacks."""
    verdicts: dict[int | None, _Code] = {}
    for numbers in REFUSED.values():
        verdicts[numbers[column]] = _always(_REFUSED)
    for numbers in MISSING.values():
        verdicts[numbers[column]] = _always(_ERRNO | errno.ENOSYS)
    for numbers, index in OF_ITSELF.values():
        verdicts[numbers[column]] = _by_argument(index, (0,), matching=_ALLOW, other=_REFUSED)
    for numbers, of_user in PRIORITIES.values():
        kind = _step(_LOAD, _ARGUMENTS_AT), _step(_IF_EQUAL, of_user, 0, 1), _step(_RETURN, _REFUSED)
        verdicts[numbers[column]] = (*kind, *_by_argument(1, (0,), matching=_ALLOW, other=_REFUSED))
    for numbers, index in WITH_MODE.values():
        verdicts[numbers[column]] = _without_bits(index, _SETS_IDS)
    for numbers, index in OPENING.values():
        mode = _without_bits(index + 1, _SETS_IDS)
        flags = _step(_LOAD, _ARGUMENTS_AT + 8 * index), _step(_IF_ANY_BIT, _MAKES_FILES, 1, 0), _step(_RETURN, _ALLOW)
        verdicts[numbers[column]] = (*flags, *mode)
    verdicts[_CLONE[column]] = _without_bits(0, _NEW_NAMESPACES)
    return verdicts


def _without_bits(index: int, bits: int) -> _Code:
    load = _step(_LOAD, _ARGUMENTS_AT + 8 * index)
    return load, _step(_IF_ANY_BIT, bits, 0, 1), _step(_RETURN, _REFUSED), _step(_RETURN, _ALLOW)


class _Fprog(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def install(code: bytes) -> None:
    """Have the filter judge all further system calls of this thread and what it starts; needs no_new_privs."""
    fprog = _Fprog(len(code) // 8, code)
    prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(fprog))
