"""The private daemon of a doctor: one channel to it, over which each server is opened by an agent of its own.

    doctor ─▶ trialdaemon (a process) ─▶ servers, each in a session

Whatever hangs, its end is bounded: killed, its guardian ends all that it has started.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, Final, NamedTuple

import trio

from tooldispatchd.client.concurrent import Agent, Client, converse
from tooldispatchd.client.errors import ClientError, FaultError
from tooldispatchd.wire.messages import Ready

# Its servers have a ladder of 4 s each.
STOP_S: Final = 10.0
MAX_SAID: Final = 2_000


class Trial(NamedTuple):
    """The channel: `open` may be called by any number of tasks, each for another server."""

    client: Client
    said: IO[bytes]
    nursery: trio.Nursery

    async def open(self, server: str) -> Ready:
        """Open a session with that server alone, then have it ended. Raises `FaultError` or `ClientError`."""
        agent = self.client.agent(server)
        ready = await agent.hello(server)
        self.nursery.start_soon(_leave, agent)
        assert isinstance(ready, Ready)
        return ready

    def last_words(self) -> str:
        """The last line that the daemon has said."""
        said = os.pread(self.said.fileno(), MAX_SAID, 0).decode(errors="replace")
        return said.strip().rpartition("\n")[2] or "it said nothing"


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
                async with converse(trio.SocketStream(ours)) as client, trio.open_nursery() as nursery:
                    yield Trial(client, said, nursery)
                    nursery.cancel_scope.cancel()
            finally:
                with trio.CancelScope(shield=True):
                    await _end(process)


async def _leave(agent: Agent) -> None:
    with suppress(ClientError, FaultError):
        await agent.bye()


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
