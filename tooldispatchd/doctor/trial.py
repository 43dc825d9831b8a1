"""The private daemon of a doctor: one channel to it, over which each server is opened by an agent of its own.

    doctor ─▶ trialdaemon (a process) ─▶ servers, each in a session

Whatever hangs, its end is bounded: killed, its guardian ends all that it has started.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, Final

import trio

from tooldispatchd.wire.lines import LineCutter

# A server has at most 1,000 tools, with schemas of 256 KiB each; what is listed of them is less.
MAX_LINE_BYTES: Final = 64 * 1024 * 1024
# Its servers have a ladder of 4 s each.
STOP_S: Final = 10.0
MAX_SAID: Final = 2_000

Line = dict[str, object]


class TrialEndedError(Exception):
    """The private daemon has ended; the text is the last that it said."""


class Trial:
    """The channel: `open` may be called by any number of tasks, each for another server."""

    def __init__(self, channel: trio.SocketStream, said: IO[bytes]) -> None:
        self._channel = channel
        self._said = said
        self._is_ended = False
        self._waiting: dict[str, trio.MemorySendChannel[Line]] = {}
        self._sending = trio.Lock()
        self._started = trio.Event()

    async def start(self) -> None:
        """Wait until the daemon has read its configuration, and serves. Raises `TrialEndedError`."""
        await self._started.wait()
        if self._is_ended:
            raise TrialEndedError(self._last_words())

    async def open(self, server: str) -> Line:
        """The answer to `hello` for one server: `ready`, or a `fault`; then the server is stopped.

        Raises `TrialEndedError`.
        """
        send, receive = trio.open_memory_channel[Line](1)
        self._waiting[server] = send
        try:
            await self._say({"__port": "hello", "agent": server, "profile": server})
            answer = await receive.receive()
            if answer.get("__port") == "ready":
                await self._say({"__port": "bye", "agent": server})
        except (trio.EndOfChannel, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise TrialEndedError(self._last_words()) from error
        return answer

    def _last_words(self) -> str:
        said = os.pread(self._said.fileno(), MAX_SAID, 0).decode(errors="replace")
        return said.strip().rpartition("\n")[2] or "it said nothing"

    async def _say(self, line: Line) -> None:
        async with self._sending:
            await self._channel.send_all(json.dumps(line).encode() + b"\n")

    async def read(self) -> None:
        """Hand each line to the task that waits for it, until the daemon has ended."""
        cutter = LineCutter(MAX_LINE_BYTES)
        with suppress(trio.BrokenResourceError):
            await self._say({"__port": "ping"})
            async for chunk in self._channel:
                for text in cutter.cut(bytes(chunk)):
                    line = json.loads(text) if isinstance(text, (bytes, bytearray)) else {}
                    # The first line of all answers the ping.
                    self._started.set()
                    waiting = self._waiting.pop(str(line.get("agent")), None)
                    if waiting is not None:
                        waiting.send_nowait(line)
        self._is_ended = True
        self._started.set()
        for waiting in self._waiting.values():
            waiting.close()


@asynccontextmanager
async def open_trial(config: Path, environ: Mapping[str, str]) -> AsyncIterator[Trial]:
    """A private daemon with that configuration; it has ended, and all that it started, when the block has."""
    ours, theirs = trio.socket.socketpair()
    with tempfile.TemporaryDirectory(prefix="tooldispatchd-doctor-", ignore_cleanup_errors=True) as directory:
        words = [sys.executable, "-P", "-m", "tooldispatchd.doctor.trialdaemon", str(config), directory]
        with theirs, tempfile.TemporaryFile() as said:
            process = subprocess.Popen(  # noqa: S603, ASYNC220  # this interpreter and this package
                words,
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=said,
                env=dict(environ),
                start_new_session=True,
            )
            theirs.close()
            try:
                async with trio.SocketStream(ours) as channel, trio.open_nursery() as nursery:
                    trial = Trial(channel, said)
                    nursery.start_soon(trial.read)
                    yield trial
                    nursery.cancel_scope.cancel()
            finally:
                with trio.CancelScope(shield=True):
                    await _end(process)


async def _end(process: "subprocess.Popen[bytes]") -> None:
    """Wait for the end of a daemon whose channel is closed, and make one where none comes."""
    pidfd = os.pidfd_open(process.pid)
    try:
        with trio.move_on_after(STOP_S):
            await trio.lowlevel.wait_readable(pidfd)
    finally:
        os.close(pidfd)
    process.kill()
    process.wait()
