"""The process that `forking` has daemons forked from: `preloaded DESCRIPTOR`, its socket.

It imports what `tooldispatchd serve` does before it is ready, and nothing that a daemon imports only when it needs it.
"""

import ctypes
import gc
import importlib
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

from tests.daemon.forking import MAX_REQUEST_BYTES
from tooldispatchd.__main__ import program
from tooldispatchd.config.configuration import load_catalog

# What `serve` imports when it is called.
PRELOADED: Final = ("tooldispatchd.cli.serve", "tooldispatchd.client.reach", "tooldispatchd.daemon.start")
# The C library has no function that forks a sibling.
CLONE_PARENT: Final = 0x8000
SYS_CLONE: Final = {"x86_64": 56, "aarch64": 220}


def main() -> None:
    """Fork a daemon for each request, until there will be no more."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    for module in PRELOADED:
        importlib.import_module(module)
    # What a configuration is checked with is made once in a process.
    load_catalog(Path(os.devnull), {})
    gc.collect()
    gc.freeze()
    while True:
        request, descriptors, _, _ = socket.recv_fds(channel, MAX_REQUEST_BYTES, 3)
        if not request:
            return
        pid = fork_sibling()
        if pid == 0:
            channel.close()
            become_daemon(json.loads(request), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        channel.send(b"%d" % pid)


def fork_sibling() -> int:
    """As `os.fork`, but the child is one of this process's parent, who can wait for it."""
    python = ctypes.PyDLL(None, use_errno=True)
    python.PyOS_BeforeFork()
    pid: int = python.syscall(SYS_CLONE[os.uname().machine], CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(ctypes.get_errno(), "cannot fork")
    return pid


def become_daemon(request: Mapping[str, object], descriptors: list[int]) -> NoReturn:
    """Be what `python -m tooldispatchd` with these words would be there."""
    words, cwd, env = request["words"], request["cwd"], request["env"]
    assert isinstance(words, list)
    assert isinstance(cwd, str)
    assert isinstance(env, dict)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.path[0] = cwd
    sys.argv[1:] = words
    program()


if __name__ == "__main__":
    main()
