"""One run of a program, from a validated input to its value or its fault; nothing of it is left when the call is over.

    feed ──▶ launch ──▶ write, read, drain ──▶ leader exited ──▶ rest of the pipes ──▶ killed, reaped ──▶ Value | Fault
                               └── cancelled, or too much output ──▶ (asked to end ──▶) killed, reaped

The end of a call is the end of the program, never the end of its pipes: a process that left the group may hold stdout
for ever. How long a call may take and how many run at once are the caller's decisions. A program whose caller wants
updates has a fourth pipe for them (`updates`); any other has none, and pays nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Final, Protocol

import msgspec
import trio

from tooldispatchd.calls.outcome import Unread, UnreadableError
from tooldispatchd.catalog.arguments import JSON_FEED, Feed
from tooldispatchd.catalog.outputs import Output
from tooldispatchd.catalog.schemas import ACCEPT, is_light
from tooldispatchd.children import endings
from tooldispatchd.children.endings import NO_LIMITS, Limits, tails, tool_failed
from tooldispatchd.children.grace import Grace, ask_to_end
from tooldispatchd.children.procstat import ProcessorTime, processor_time
from tooldispatchd.children.spawn import Child, Exit, SpawnError
from tooldispatchd.children.tail import END_BYTES, Tail, end_of
from tooldispatchd.providers.process.feeding import supply
from tooldispatchd.providers.process.ports import PortPipes, PortStreams
from tooldispatchd.providers.process.reading import read_output
from tooldispatchd.providers.process.streams import ProgramStreams
from tooldispatchd.providers.updates import UpdateLines
from tooldispatchd.wire.faults import Fault

SUCCESS: Final = frozenset({0})


class ChildStarter(Protocol):
    """Starts the child of one call; all that is the same for every call (directory, policy, scratch) is its own."""

    async def __call__(self, argv: Sequence[str], /, *, env: Mapping[str, str], with_updates: bool) -> Child:
        """The child of `argv`, as `Family.spawn` would start it. Raises SpawnError."""


class Spill(Protocol):
    """Takes an output that is longer than should be held, from its beginning on and as it comes."""

    after_bytes: int
    """So much is held."""

    @property
    def has_begun(self) -> bool:
        """Whether anything went there."""

    def add(self, chunk: bytes | bytearray) -> None:
        """What comes next of it; never blocks for long, nor raises."""


class Command(msgspec.Struct, frozen=True):
    """How to run a program: words, variables beside those of every child, directory, and the bound on stdout in bytes.

    `feed` says how it gets its input: words made of the input come after those of `argv`. They are arguments, never a
    shell's text, but a program may take one that begins with "-" for an option: where the input comes from an agent,
    `argv` ends with "--", or has words like `--name=${field}`. `output` says how it gives its answer.

    `cwd` is used by the maker of its `ChildStarter`. `limits` are those that it runs under, to name the one that was
    passed. `is_wrapped`: by a program that ends with 128 + n where signal n ended the wrapped one.

    `exit_codes` are those of a program that has given an answer, None where each is. One whose call is ended early has
    `stop_s` to end itself.
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
    media_type: str = ""
    """Of a file that it writes."""
    exit_codes: frozenset[int] | None = SUCCESS
    stop_s: float = 0.0

    @property
    def is_joined(self) -> bool:
        """Whether its stdout and stderr are one pipe."""
        return self.output is Output.TRANSCRIPT

    def is_answered_by(self, how: Exit) -> bool:
        """Whether a program that ended so has given an answer."""
        if self.exit_codes is not None:
            return how.code in self.exit_codes
        return (endings.unwrapped(how) if self.is_wrapped else how).code is not None


class ProgramValue(msgspec.Struct, frozen=True):
    """The value that a program answered with, or the end of a stdout that was spilled; and the end of its stderr."""

    value: object
    stderr: str = ""


async def run_command(
    start: ChildStarter,
    command: Command,
    line: bytes | bytearray,
    *,
    env: Mapping[str, str] = {},
    updates: UpdateLines | None = None,
    passed: Callable[[], str | None] | None = None,
    ports: PortPipes | None = None,
    grace: Grace | None = None,
    spill: Spill | None = None,
) -> ProgramValue | Unread | Fault:
    """Run `command` once with the input of `line` (as `supply` has it), and with `env` on top of its own.

    Where `updates` are given the program may write lines of them to its descriptor 3; they are told never once this has
    returned, which must not block, nor raise. They are given the exit code of a program that may have several, too.
    Where `passed` is given it is asked, when the program has failed and is dead, which of its limits was passed as far
    as the kernel counts that for the whole call. Where `ports` are given, they are on the program's stdin and stdout.
    Where a `spill` is given it takes a long stdout, whether it can be read as an answer or not.

    A value that cannot be an argument or a variable is an `invalid_input` fault. Every failure is a `tool_failed`
    fault: the program cannot be started, it ends with a code that is no answer's or by a signal, it writes too much, or
    anything but an answer. When this returns or is cancelled its process group is killed and reaped, and its
    descriptors are closed. Where it is cancelled the program has the time of `grace` to end itself, which then tells
    the ends of its output.
    """
    fed = supply(command.feed, line)
    if isinstance(fed, Fault):
        return fed.ran(may_have=False)
    argv = (*command.argv, *fed.words) if fed.words else command.argv
    whole = {**command.env, **fed.env, **env} if env or fed.env else command.env
    try:
        child = await start(argv, env=whole, with_updates=updates is not None)
    except SpawnError as error:
        return fed.refusal(error).ran(may_have=False)
    run = _Run(command, child, spill)
    try:
        await run.through(fed.stdin, updates, grace or Grace(), ports)
    except SpawnError as error:
        return fed.refusal(error)
    finally:
        if run.exit is None:
            # It shields and bounds itself, as does every way to end a child.
            await child.kill()  # noqa: ASYNC102  # as above
    return run.judge(passed, updates)


class _Run:
    """One child, and what is known of it; `exit` once it is reaped."""

    __slots__ = ("_child", "_command", "_cpu", "_errors", "_output", "_room", "_spill", "exit")

    _errors: Tail

    def __init__(self, command: Command, child: Child, spill: Spill | None) -> None:
        self._command = command
        self._spill = spill
        self._child = child
        self._cpu: ProcessorTime | None = None
        self._room = command.max_output_bytes
        # The one chunk, or all in one: of a program that writes byte by byte each would be an object. Once it is
        # spilled, its end.
        self._output: bytes | bytearray = b""
        self.exit: Exit | None = None

    async def through(
        self, stdin: bytes | bytearray, updates: UpdateLines | None, grace: Grace, ports: PortPipes | None
    ) -> None:
        """Feed the child and take what it writes until it has ended, then end what is left of it.

        Raises SpawnError where the kernel has no room to watch it.
        """
        child = self._child
        try:
            streams = ProgramStreams(child) if ports is None else PortStreams(child, ports)
        except OSError as error:
            raise SpawnError(self._command.argv[0], f"it cannot be watched: {error.strerror}") from error
        with closing(streams):
            streams.begin(stdin, self._take, updates, closes_stdin=ports is None)
            try:
                has_exited = await streams.serve()
            except trio.Cancelled:
                # It shields and bounds itself.
                await self._end_early(streams, grace)  # noqa: ASYNC102, ASYNC120  # as above
                raise
            if has_exited:
                streams.drain()
                if self._command.limits.cpu_s is not None:
                    # The kernel tells it until the child is reaped.
                    self._cpu = processor_time(child.pid)
            streams.drain_updates()
            self.exit = await child.kill()
        self._errors = streams.errors

    async def _end_early(self, streams: ProgramStreams, grace: Grace) -> None:
        """Give the child its time to end itself, and hear what it says in it."""
        if self._command.stop_s > 0:
            with grace.given(self._command.stop_s):
                ask_to_end(self._child, is_wrapped=self._command.is_wrapped)
                await streams.serve()
        streams.drain()
        grace.said = tails(self._output, streams.errors.text())
        self.exit = await self._child.kill()

    def judge(
        self, passed: Callable[[], str | None] | None, updates: UpdateLines | None
    ) -> ProgramValue | Unread | Fault:
        """The value, or why there is none."""
        command, ended, stdout = self._command, self.exit, self._output
        stderr = self._errors.text()
        assert ended is not None, "it has gone through"
        code = ended.code
        if self._room < 0:
            return too_much(command, stderr, stdout)
        if code is None or not command.is_answered_by(ended):
            # Where it has but one pipe for both, its complaints are among its output.
            said = end_of(stdout) if command.is_joined else stderr
            return ended_badly(command, ended, stderr, stdout, said=said, cpu=self._cpu, passed=passed)
        if command.exit_codes != SUCCESS and updates is not None:
            updates.exited(code)
        spill = self._spill
        if command.is_joined:
            ending = b"%bexit code %d" % (b"" if stdout[-1:] in (b"", b"\n") else b"\n", code)
            stdout += ending
            if spill is not None and spill.has_begun:
                spill.add(ending)
        if spill is not None and spill.has_begun:
            return ProgramValue(bytes(stdout), stderr)
        return read_answer(command, stdout, stderr)

    def _take(self, chunk: bytes) -> bool:
        self._room -= len(chunk)
        if not self._output:
            self._output = chunk
        else:
            if isinstance(self._output, bytes):
                self._output = bytearray(self._output)
            self._output += chunk
        spill = self._spill
        if spill is not None and (spill.has_begun or len(self._output) > spill.after_bytes):
            spill.add(chunk if spill.has_begun else self._output)
            self._output = self._output[-END_BYTES:]
        return self._room < 0


def read_answer(command: Command, stdout: bytes | bytearray, stderr: str) -> ProgramValue | Unread | Fault:
    """The answer in all of `stdout`, or what it is read from where that takes long; or that it is none."""
    max_bytes = command.max_content_bytes or command.max_output_bytes
    unreadable = partial(no_answer, command.argv[0], stderr, bytes(stdout[-END_BYTES:]))
    # What they become depends on the kind of content that is wanted.
    is_parts, kind = command.output.is_parts, command.media_type
    if is_parts or not is_light(stdout, ACCEPT):
        return Unread(stdout, command.output, max_bytes, unreadable, stderr, media_type=kind, is_parts=is_parts)
    try:
        value = read_output(command.output, stdout, max_bytes=max_bytes)
    except UnreadableError as error:
        return unreadable(error)
    return ProgramValue(value, stderr)


def too_much(command: Command, stderr: str, stdout: bytes | bytearray) -> Fault:
    """The fault of a program over the bound on stdout."""
    why = f"'{command.argv[0]}' was killed because it wrote more than {command.max_output_bytes} bytes to stdout"
    return tool_failed(why, stderr, stdout, limit="output_bytes")


def no_answer(argv0: str, stderr: str, stdout: bytes | bytearray, error: UnreadableError) -> Fault:
    """The fault of a program that wrote what is no answer."""
    return tool_failed(f"'{argv0}' {error}", stderr, stdout, **({} if error.limit is None else {"limit": error.limit}))


def ended_badly(
    command: Command,
    how: Exit,
    stderr: str,
    stdout: bytes | bytearray,
    *,
    said: str,
    cpu: ProcessorTime | None,
    passed: Callable[[], str | None] | None,
) -> Fault:
    """The fault of a program that ended by a signal or with a code that is no answer's; `said` are its last words."""
    how = endings.unwrapped(how) if command.is_wrapped else how
    limit = (None if passed is None else passed()) or endings.passed_limit(
        command.limits, how, said, cpu=cpu, is_wrapped=command.is_wrapped
    )
    return endings.ended(command.argv[0], how, stderr, limits=command.limits, limit=limit, stdout=stdout)
