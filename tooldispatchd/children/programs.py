"""Start a program by `posix_spawn`, at the speed of vfork however large the daemon is."""

import ctypes
import errno
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tooldispatchd.forked.libc import load
from tooldispatchd.forked.signals import RESET_SIGNALS

# <spawn.h>: default signals, a signal mask, a session of its own.
SPAWN_FLAGS: Final = 0x04 | 0x08 | 0x80
# More than any C library takes for its list of actions, its attributes (336 on Linux) or a set of signals.
OPAQUE_BYTES: Final = 1024


def start_program(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: str | None, sources: Sequence[tuple[int, int]]
) -> int:
    """Start `argv` in a session of its own, in `cwd`, and give its pid; raises OSError, or ValueError for a bad word.

    `sources` are pairs of a number in the child and the descriptor of ours that it gets, in order.
    """
    if cwd is not None:
        return _start_in(cwd, argv, env, sources)
    program = argv[0]
    # glibc looks in our own PATH, which need not be the child's.
    if "/" not in program and env.get("PATH") != os.environ.get("PATH"):
        program = _find(program, env.get("PATH", os.defpath))
    return os.posix_spawnp(
        program,
        list(argv),
        env,
        # No pipe is below 3; the one that may be 3 has been copied, or is the fourth, when 3 is written to.
        file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in sources],
        setsid=True,
        setsigmask=(),
        setsigdef=RESET_SIGNALS,
    )


def _start_in(cwd: str, argv: Sequence[str], env: Mapping[str, str], sources: Sequence[tuple[int, int]]) -> int:
    # Python's posix_spawn cannot change the directory; its subprocess cannot give a child descriptor 3 but by
    # preexec_fn, for which it forks the whole daemon. The C library can do both.
    program = argv[0]
    if "/" not in program:
        here = Path(cwd).absolute()
        program = _find(program, os.pathsep.join(str(here / entry) for entry in os.get_exec_path(env)))
    if any("=" in name for name in env):
        raise ValueError("illegal environment variable name")
    paths = _strings([cwd, program])
    words, variables = _strings(argv), _strings([f"{name}={value}" for name, value in env.items()])
    libc = load()
    actions, attributes, signals, pid = _opaque(), _opaque(), _opaque(), ctypes.c_int()
    libc.posix_spawn_file_actions_init(actions)
    libc.posix_spawnattr_init(attributes)
    try:
        _check(libc.posix_spawn_file_actions_addchdir_np(actions, paths[0]))
        for number, fd in sources:
            _check(libc.posix_spawn_file_actions_adddup2(actions, fd, number))
        libc.posix_spawnattr_setflags(attributes, SPAWN_FLAGS)
        libc.sigemptyset(signals)
        libc.posix_spawnattr_setsigmask(attributes, signals)
        for signum in RESET_SIGNALS:
            libc.sigaddset(signals, signum)
        libc.posix_spawnattr_setsigdefault(attributes, signals)
        _check(libc.posix_spawn(ctypes.byref(pid), paths[1], actions, attributes, words, variables))
    finally:
        libc.posix_spawn_file_actions_destroy(actions)
        libc.posix_spawnattr_destroy(attributes)
    return pid.value


def _find(program: str, path: str) -> str:
    found = shutil.which(program, path=path)
    if found is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    return found


def _opaque() -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(OPAQUE_BYTES)


def _strings(words: Sequence[str]) -> ctypes.Array[ctypes.c_char_p]:
    """The words as C has them, with a NULL behind; raises ValueError for what no C string can hold."""
    encoded = [os.fsencode(word) for word in words]
    if any(0 in word for word in encoded):
        raise ValueError("embedded null byte")
    return (ctypes.c_char_p * (len(encoded) + 1))(*encoded, None)


def _check(number: int) -> None:
    if number:
        raise OSError(number, os.strerror(number))
