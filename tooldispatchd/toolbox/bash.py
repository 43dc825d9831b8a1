"""The tool `bash`: one command in a shell, whose directory and variables may live on between an agent's calls."""

import os
import shutil
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from tooldispatchd.forked.python.context import InvalidInputError, ToolContext, ToolFailedError
from tooldispatchd.toolbox.excerpt import listed
from tooldispatchd.toolbox.memfiles import content_of, memfile
from tooldispatchd.toolbox.running import Run, environment, run
from tooldispatchd.toolbox.shellstate import LOWEST_FD, MAX_BYTES, ShellState, left, script

# What the shell runs can neither signal the process that keeps its limit nor outlive it.
TOOLDISPATCHD_ATTENDED: Final = True
# The kernel takes 128 KiB as one word of a command line, in bytes; what is longer belongs in a file.
MAX_COMMAND: Final = 64 * 1024
# Two environments, each of the two megabytes that the kernel gives a program by default.
MAX_WRITTEN: Final = 4 * 1024 * 1024
# A build or a suite of tests; and a job, which may be a server.
DEFAULT_S: Final = 120
MAX_S: Final = 3600
# How the shell calls itself when it complains.
NAME: Final = "bash"


def bash(
    command: Annotated[str, Meta(max_length=MAX_COMMAND, description="The command, as after `bash -c`.")],
    ctx: ToolContext,
    timeout_s: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_S)] | None,
        Meta(description="Seconds after which it is stopped: 120, or in the background 3600."),
    ] = None,
    cwd: Annotated[str | None, Meta(description="The directory to run in, relative to the workspace.")] = None,
    background: Annotated[  # noqa: FBT002  # the daemon makes the call a job, before it comes here
        bool,
        Meta(description="Run as a job: answers at once with its id; job_read, job_wait and job_stop work on it."),
    ] = False,
) -> str:
    """Run a shell command; the answer is what it writes and its exit code.

    It has no terminal and no input. All that it starts ends with it.
    """
    if not command.strip():
        raise InvalidInputError("command", "it is empty")
    if "\0" in command:
        raise InvalidInputError("command", "it holds a null character")
    if cwd is not None and ("\0" in cwd or not os.path.isdir(cwd)):  # noqa: PTH112  # Path raises for what is no path
        raise InvalidInputError("cwd", f"no such directory: {cwd}")
    timeout_s = timeout_s or (MAX_S if background else DEFAULT_S)
    if ctx.options.get("session"):
        return _continued(command, ctx, timeout_s=timeout_s, cwd=cwd)
    shell = shutil.which("bash")
    done = run([shell or "/bin/sh", "-c", command, NAME], ctx=ctx, limit_s=timeout_s, cwd=cwd)
    return done.text(*(() if shell else ("There is no bash here: this was run by sh.",)))


def _continued(command: str, ctx: ToolContext, *, timeout_s: int, cwd: str | None) -> str:
    """The answer of a shell that goes on where the agent's last one ended."""
    shell = shutil.which("bash")
    if shell is None:
        raise ToolFailedError("a shell that lives on between calls needs bash, and there is none here")
    before = msgspec.convert(ctx.state, ShellState)
    notes = []
    directory = cwd if cwd is not None else before.directory
    if directory is not None and not os.path.isdir(directory):  # noqa: PTH112  # as above
        notes.append(f"{directory} is gone: this was run in the workspace.")
        directory = None
    base = environment()
    with memfile(lowest=LOWEST_FD) as fd:
        words = [shell, "-c", script(fd), NAME, command]
        done = run(words, ctx=ctx, limit_s=timeout_s, cwd=directory, env=before.over(base), pass_fds=(fd,))
        written = content_of(fd, MAX_WRITTEN)
    return done.text(*notes, *_keep(ctx, done, left(written, base)))


def _keep(ctx: ToolContext, done: Run, found: tuple[ShellState, list[str]] | None) -> list[str]:
    """Keep what the shell left; the notes on it."""
    if done.stopped is not None or done.code < 0 or found is None:
        return ["The shell's directory and variables are as before this call."]
    state, dropped = found
    ctx.state = msgspec.to_builtins(state)
    if not dropped:
        return []
    return [f"Not kept for the next call, which takes {MAX_BYTES // 1024} KiB of text: {listed(dropped)}."]
