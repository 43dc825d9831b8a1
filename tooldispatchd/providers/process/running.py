"""One run of a program, from a validated input to its value or its fault; nothing of it is left when the call is over.

    feed ──▶ launch ──▶ write, read, drain ──▶ leader exited ──▶ rest of the pipes ──▶ killed, reaped ──▶ Value | Fault
                               └── cancelled, or too much output ──▶ killed, reaped

The end of a call is the end of the program, never the end of its pipes: a process that left the group may hold stdout
for ever. How long a call may take and how many run at once are the caller's decisions. A program whose caller wants
updates has a fourth pipe for them (`updates`); any other has none, and pays nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Protocol

import msgspec

from tooldispatchd.calls.outcome import Unread, UnreadableError, Update
from tooldispatchd.catalog.arguments import JSON_FEED, Feed
from tooldispatchd.catalog.outputs import Output
from tooldispatchd.catalog.schemas import ACCEPT, is_light
from tooldispatchd.children import endings
from tooldispatchd.children.endings import NO_LIMITS, Limits, tool_failed
from tooldispatchd.children.procstat import ProcessorTime, processor_time
from tooldispatchd.children.spawn import Child, Exit, SpawnError
from tooldispatchd.children.tail import Tail
from tooldispatchd.providers.process.feeding import supply
from tooldispatchd.providers.process.ports import PortPipes, PortStreams
from tooldispatchd.providers.process.reading import read_output
from tooldispatchd.providers.process.streams import ProgramStreams
from tooldispatchd.providers.updates import UpdateLines
from tooldispatchd.wire.faults import Fault


class ChildStarter(Protocol):
    """Starts the child of one call; all that is the same for every call (directory, policy, scratch) is its own."""

    async def __call__(self, argv: Sequence[str], /, *, env: Mapping[str, str], with_updates: bool) -> Child:
        """The child of `argv`, as `Family.spawn` would start it. Raises SpawnError."""


class Command(msgspec.Struct, frozen=True):
    """How to run a program: words, variables beside those of every child, directory, and the bound on stdout in bytes.

    `feed` says how it gets its input: words made of the input come after those of `argv`. They are arguments, never a
    shell's text, but a program may take one that begins with "-" for an option: where the input comes from an agent,
    `argv` ends with "--", or has words like `--name=${field}`. `output` says how it gives its answer.

    `cwd` is used by the maker of its `ChildStarter`. `limits` are those that it runs under, to name the one that was
    passed. `is_wrapped`: by a program that ends with 128 + n where signal n ended the wrapped one.
    """

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str | None
    max_output_bytes: int
    feed: Feed = JSON_FEED
    output: Output = Output.JSON
    limits: Limits = NO_LIMITS
    is_wrapped: bool = False
    max_content_bytes: int | None = None
    """Of the answer as JSON; by default what stdout may be."""


class ProgramValue(msgspec.Struct, frozen=True):
    """The value that a program answered with, and the end of its stderr."""

    value: object
    stderr: str = ""


async def run_command(
    start: ChildStarter,
    command: Command,
    line: bytes | bytearray,
    *,
    env: Mapping[str, str] = {},
    update: Callable[[Update], None] | None = None,
    passed: Callable[[], str | None] | None = None,
    ports: PortPipes | None = None,
) -> ProgramValue | Unread | Fault:
    """Run `command` once with the input of `line` (as `supply` has it), and with `env` on top of its own.

    Where `update` is given the program may write lines of `tool_update` to its descriptor 3, and `update` is called
    with them as `updates` merges them, never once this has returned; it must not block, nor raise. Where `passed` is
    given it is asked, when the program has failed and is dead, which of its limits was passed as far as the kernel
    counts that for the whole call. Where `ports` are given, they are on the program's stdin and stdout.

    A value that cannot be an argument or a variable is an `invalid_input` fault. Every failure is a `tool_failed`
    fault: the program cannot be started, it ends with another code than 0 or by a signal, it writes too much, or
    anything but an answer. When this returns or is cancelled its process group is killed and reaped, and its
    descriptors are closed.
    """
    fed = supply(command.feed, line)
    if isinstance(fed, Fault):
        return fed.ran(may_have=False)
    argv = (*command.argv, *fed.words) if fed.words else command.argv
    whole = {**command.env, **fed.env, **env} if env or fed.env else command.env
    try:
        child = await start(argv, env=whole, with_updates=update is not None)
    except SpawnError as error:
        return fed.refusal(error).ran(may_have=False)
    run = _Run(command, child)
    try:
        await run.through(fed.stdin, update, ports)
    except SpawnError as error:
        return fed.refusal(error)
    finally:
        if run.exit is None:
            # It shields and bounds itself, as does every way to end a child.
            await child.kill()  # noqa: ASYNC102  # as above
    return run.judge(passed)


class _Run:
    """One child, and what is known of it; `exit` once it is reaped."""

    __slots__ = ("_child", "_command", "_cpu", "_errors", "_output", "_room", "exit")

    _errors: Tail

    def __init__(self, command: Command, child: Child) -> None:
        self._command = command
        self._child = child
        self._cpu: ProcessorTime | None = None
        self._room = command.max_output_bytes
        # The one chunk, or all in one: of a program that writes byte by byte each would be an object.
        self._output: bytes | bytearray = b""
        self.exit: Exit | None = None

    async def through(
        self, stdin: bytes | bytearray, update: Callable[[Update], None] | None, ports: PortPipes | None
    ) -> None:
        """Feed the child and take what it writes until it has ended, then end what is left of it.

        Raises SpawnError where the kernel has no room to watch it.
        """
        child = self._child
        updates = None if update is None else UpdateLines(update)
        try:
            streams = ProgramStreams(child) if ports is None else PortStreams(child, ports)
        except OSError as error:
            raise SpawnError(self._command.argv[0], f"it cannot be watched: {error.strerror}") from error
        with closing(streams):
            streams.begin(stdin, self._take, updates, closes_stdin=ports is None)
            if await streams.serve():
                streams.drain()
                if self._command.limits.cpu_s is not None:
                    # The kernel tells it until the child is reaped.
                    self._cpu = processor_time(child.pid)
            streams.drain_updates()
            self.exit = await child.kill()
        self._errors = streams.errors

    def judge(self, passed: Callable[[], str | None] | None) -> ProgramValue | Unread | Fault:
        """The value, or why there is none."""
        command, ended = self._command, self.exit
        argv0, stderr = command.argv[0], self._errors.text()
        assert ended is not None, "it has gone through"
        if self._room < 0:
            return too_much(command, stderr)
        if ended.code != 0:
            return ended_badly(command, ended, stderr, cpu=self._cpu, passed=passed)
        max_bytes = command.max_content_bytes or command.max_output_bytes
        if not is_light(self._output, ACCEPT):
            return Unread(self._output, command.output, max_bytes, partial(no_answer, argv0, stderr), stderr)
        try:
            value = read_output(command.output, self._output, max_bytes=max_bytes)
        except UnreadableError as error:
            return no_answer(argv0, stderr, error)
        return ProgramValue(value, stderr)

    def _take(self, chunk: bytes) -> bool:
        self._room -= len(chunk)
        if not self._output:
            self._output = chunk
        else:
            if isinstance(self._output, bytes):
                self._output = bytearray(self._output)
            self._output += chunk
        return self._room < 0


def too_much(command: Command, stderr: str) -> Fault:
    """The fault of a program over the bound on stdout."""
    why = f"'{command.argv[0]}' was killed because it wrote more than {command.max_output_bytes} bytes to stdout"
    return tool_failed(why, stderr, limit="output_bytes")


def no_answer(argv0: str, stderr: str, error: UnreadableError) -> Fault:
    """The fault of a program that wrote what is no answer."""
    return tool_failed(f"'{argv0}' {error}", stderr, **({} if error.limit is None else {"limit": error.limit}))


def ended_badly(
    command: Command, how: Exit, stderr: str, *, cpu: ProcessorTime | None, passed: Callable[[], str | None] | None
) -> Fault:
    """The fault of a program that ended by a signal or with another code than 0."""
    how = endings.unwrapped(how) if command.is_wrapped else how
    limit = (None if passed is None else passed()) or endings.passed_limit(
        command.limits, how, stderr, cpu=cpu, is_wrapped=command.is_wrapped
    )
    return endings.ended(command.argv[0], how, stderr, limits=command.limits, limit=limit)
