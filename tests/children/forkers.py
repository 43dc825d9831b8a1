"""One forker, whose program is the launcher or a script, and the children that it starts."""

import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from tests.processes import PATIENCE_S
from tooldispatchd.children.descriptors import close_all
from tooldispatchd.children.family import Family
from tooldispatchd.children.forker import Forker
from tooldispatchd.children.launchers import START
from tooldispatchd.children.spawn import Child, open_pipes
from tooldispatchd.forked.policy import Policy

LAUNCHER = [sys.executable, "-I", "-S", str(START), "launcher", Policy().to_json()]


def program(script: str) -> list[str]:
    """A forker that speaks as the script does; `control` is its socket."""
    return [sys.executable, "-I", "-S", "-c", f"import os, socket, sys\ncontrol = socket.socket(fileno=3)\n{script}"]


@asynccontextmanager
async def forker_of(family: Family, *, answer_s: float = 5.0) -> AsyncIterator[Forker]:
    forker = Forker(family, LAUNCHER, name="launcher", answer_s=answer_s)
    try:
        await forker.ready()
        yield forker
    finally:
        await forker.close()  # noqa: ASYNC102  # it shields and bounds itself


async def start(family: Family, forker: Forker, *argv: str, env: Mapping[str, str] = {}) -> Child:
    reserved = family.reserve(argv[0], env=env)
    theirs, ours = open_pipes(3)
    request = {"argv": argv, "env": reserved.env, "cwd": None, "fds": [0, 1, 2], "scratch": None}
    try:
        return await forker.start_child(reserved, argv[0], {"spawn": request}, theirs, ours)
    except BaseException:
        close_all(ours)
        raise
    finally:
        close_all(theirs)


async def read_all(child: Child) -> bytes:
    whole = b""
    with trio.fail_after(PATIENCE_S):
        while True:
            await trio.lowlevel.wait_readable(child.stdout)
            if not (chunk := os.read(child.stdout, 65536)):
                return whole
            whole += chunk


async def until_exited(child: Child) -> None:
    with trio.fail_after(PATIENCE_S):
        await child.exited()


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
