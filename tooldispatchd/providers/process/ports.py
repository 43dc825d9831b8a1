"""An agent's ports on its own stdin and stdout: requests beside its answer, the daemon's lines after its message.

    child's stdout ─▶ Splitter ─▶ lines of an agent's ports ─▶ pipe to its session
                               └▶ all else: its answer
    pipe from its session ─▶ child's stdin, after the call's own line

Its stdin stays open for these lines, so that it must not wait for the end of its input. Where one side takes nothing,
the other side is read no more, so that no more than a chunk and a line is held.
"""

import select
from typing import NamedTuple

from tooldispatchd.children.pipes import CHUNK_BYTES, write
from tooldispatchd.children.spawn import Child
from tooldispatchd.providers.process.streams import ProgramStreams, Take
from tooldispatchd.providers.updates import UpdateLines
from tooldispatchd.wire.splitting import LineRoute, Splitter


class PortPipes(NamedTuple):
    """Our ends of the pipes of a child's session: non-blocking, and the caller's to close."""

    requests: int
    answers: int


class PortStreams(ProgramStreams):
    """As `ProgramStreams`, for the one call of a child that has its ports on its standard streams."""

    __slots__ = ("_answer", "_pipes", "_splitter", "_unsent")

    _answer: Take

    def __init__(self, child: Child, pipes: PortPipes) -> None:
        super().__init__(child)
        self._pipes = pipes
        self._splitter = Splitter()
        self._unsent = bytearray()

    def begin(
        self, stdin: bytes | bytearray, take: Take, updates: UpdateLines | None, *, closes_stdin: bool = False
    ) -> None:
        self._answer = take
        self.watch(self._pipes.answers)
        super().begin(stdin, self._split, updates, closes_stdin=closes_stdin)

    def drain(self) -> None:
        super().drain()
        self._split(b"")

    def _serve(self, fd: int) -> None:
        if fd == self._pipes.requests:
            self._send()
        elif fd == self._pipes.answers:
            said = self.read(fd)
            if said:
                self.unwritten = memoryview(bytes(self.unwritten) + said)
                self._write()
        else:
            super()._serve(fd)

    def _split(self, chunk: bytes) -> bool:
        """Take a chunk of stdout, or b"" at its end."""
        is_done = False
        for way, piece in self._splitter.split(chunk) if chunk else self._splitter.end():
            if way is LineRoute.DAEMON:
                self._unsent += piece
            else:
                is_done |= self._answer(piece)
        self._send()
        return is_done

    def _send(self) -> None:
        """Send what the session's pipe takes; until it has all, stdout is not read."""
        try:
            del self._unsent[: write(self._pipes.requests, self._unsent[:CHUNK_BYTES]) if self._unsent else 0]
        except BrokenPipeError:
            # Its session is over, and nobody hears it any more.
            self._unsent.clear()
        stdout = self.child.stdout
        if self._unsent:
            self.watch(self._pipes.requests, select.EPOLLOUT)
            self.unwatch(stdout)
        else:
            self.unwatch(self._pipes.requests)
            if stdout >= 0:
                self.watch(stdout)

    def _write(self) -> bool:
        is_open = super()._write()
        if not is_open:
            # Answers for a child that reads none are dropped, as those in its pipe would be.
            self.unwritten = memoryview(b"")
        elif self.unwritten:
            self.unwatch(self._pipes.answers)
        else:
            self.watch(self._pipes.answers)
        return is_open
