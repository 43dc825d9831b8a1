"""Where jobs are done: in the checkers, a few processes with one job at a time each for whoever has its turn, or here.

    run ──▶ a place ──▶ an idle checker, or a new one ──▶ job written, result read ──▶ idle again
                                                     └── cancelled, or it died ──▶ killed

Both directions go in pieces with turns of the loop in between, so that a job of any size holds nobody up. A job that is
cancelled, at its call's deadline or because nobody waits any more, is ended by killing its checker.
"""

import math
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

import trio

from tooldispatchd.calls.gate import Turns
from tooldispatchd.checkers.worker import HURRIED, JOB, NICE, RESULT, Work, renice
from tooldispatchd.children.family import Family
from tooldispatchd.children.spawn import Child, SpawnError
from tooldispatchd.wire.lines import MOVED_BYTES, reserve

# Two, so that one owner's endless job leaves a place for the others.
CHECKERS: Final = 2
# A job of 8 MiB takes a tenth of it on an idle core. One that takes longer starves beside what else the machine is busy
# with, and no longer stands back: its call has a limit. Where only a privileged user may take a nice value back, the
# job is done anew by a checker that has none.
HURRY_S: Final = 2.0
# Copied in one turn of the loop, in some 0.1 ms.
PIECE_BYTES: Final = 256 * 1024

Buffer = bytes | bytearray | memoryview


class CheckerError(Exception):
    """A job has no result: `why` in words; `limit` is the bound that was passed, if one was."""

    def __init__(self, why: str, limit: str | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.limit = limit


class _StarvedError(Exception):
    """A checker gets no time, and cannot be given more."""


class CheckerPlaces(Protocol):
    """How places are shared between owners."""

    def of(self, turns: Turns) -> AbstractAsyncContextManager[None]:
        """A place for one job: entering waits for it, leaving gives it back."""


class Running(Protocol):
    """Where jobs are done."""

    async def run(
        self, work: Work, arguments: bytes, payload: Buffer | Sequence[Buffer], *, turns: Turns
    ) -> tuple[bytes, bytearray, bytearray]:
        """Have `work` done; its reply, payload and what stands beside it. Raises `CheckerError`.

        `payload` may be given in parts, and must not change meanwhile.
        """


class InPlace:
    """Jobs are done in this very process, with a turn of the loop before: where nobody else waits, as in a command."""

    async def run(
        self,
        work: Work,
        arguments: bytes,
        payload: Buffer | Sequence[Buffer],
        *,
        turns: Turns,  # noqa: ARG002  # everybody has a place
    ) -> tuple[bytes, bytearray, bytearray]:
        """As `Running` has it."""
        await trio.lowlevel.checkpoint()
        parts = [payload] if isinstance(payload, bytes | bytearray | memoryview) else payload
        reply, result, *beside = work(arguments, bytearray(b"".join(parts)))
        return reply, bytearray(result), bytearray(b"".join(beside))


IN_PLACE: Final = InPlace()


class Checkers:
    """The checkers of a daemon; none runs before the first job. `close` must be called."""

    def __init__(self, family: Family, places: CheckerPlaces) -> None:
        self._family = family
        self._places = places
        self._idle: list[_Checker] = []

    async def run(
        self, work: Work, arguments: bytes, payload: Buffer | Sequence[Buffer], *, turns: Turns
    ) -> tuple[bytes, bytearray, bytearray]:
        """As `Running` has it."""
        parts = [payload] if isinstance(payload, bytes | bytearray | memoryview) else payload
        async with self._places.of(turns):
            while self._idle and self._idle[-1].child.has_exited():
                # Somebody else killed it while it did nothing.
                self._idle.pop().forget()
            try:
                checker = self._idle.pop() if self._idle else _Checker(self._family)
                is_out_of_memory, reply, result, beside = await self._ask(checker, work, arguments, parts)
            except _StarvedError:
                checker = _Checker(self._family, {HURRIED: "1"})
                is_out_of_memory, reply, result, beside = await self._ask(checker, work, arguments, parts)
        if is_out_of_memory:
            raise CheckerError("it takes too much memory", "check")
        return bytes(reply), result, beside

    async def _ask(
        self, checker: "_Checker", work: Work, arguments: bytes, parts: Sequence[Buffer]
    ) -> tuple[bool, bytearray, bytearray, bytearray]:
        """Have one job done, after which the checker is idle; one that has not done it is ended."""
        is_fit = False
        try:
            said = await checker.ask(work, arguments, parts)
            is_fit = True
        finally:
            if is_fit:
                self._idle.append(checker)
            else:
                await checker.close()  # noqa: ASYNC102  # it shields and bounds itself
        return said

    async def close(self) -> None:
        """End all checkers; bounded, cannot be cancelled. There must be no jobs."""
        while self._idle:
            await self._idle.pop().close()


class _Checker:
    """A checker process. Raises `CheckerError` where it cannot be started."""

    def __init__(self, family: Family, env: Mapping[str, str] = {}) -> None:
        self._is_hurried = bool(env)
        ours, theirs = socket.socketpair()
        try:
            extra = {3: theirs.fileno()}
            self.child: Child = family.spawn_module("tooldispatchd.checkers.worker", env=env, extra=extra)
        except SpawnError as error:
            ours.close()
            raise CheckerError(f"it cannot be checked: {error.why}") from error
        finally:
            theirs.close()
        self.child.close_pipes()
        ours.setblocking(False)  # noqa: FBT003  # the standard library's own
        self._socket = ours
        # When the job has waited too long; infinite once it has.
        self._hurry_at = math.inf

    async def ask(
        self, work: Work, arguments: bytes, parts: Sequence[Buffer]
    ) -> tuple[bool, bytearray, bytearray, bytearray]:
        """Have one job done."""
        name = f"{work.__module__}:{work.__qualname__}".encode()
        size = sum(len(part) for part in parts)
        self._hurry_at = math.inf if self._is_hurried else trio.current_time() + HURRY_S
        try:
            for part in (JOB.pack(len(name), len(arguments), size) + name + arguments, *parts):
                view = memoryview(part)
                while view:
                    try:
                        view = view[self._socket.send(view[:PIECE_BYTES]) :]
                    except BlockingIOError:
                        await self._wait(trio.lowlevel.wait_writable)
                    else:
                        await trio.lowlevel.checkpoint()
            is_out_of_memory, *sizes = RESULT.unpack(await self._receive(RESULT.size))
            reply, result, beside = [await self._receive(each) for each in sizes]
        except OSError as error:
            raise CheckerError("its checker ended") from error
        if self._hurry_at == math.inf:
            self._is_hurried = False
            renice(self.child.pid, NICE)
        return is_out_of_memory, reply, result, beside

    async def _wait(self, wait: Callable[[socket.socket], Awaitable[None]]) -> None:
        with trio.move_on_at(self._hurry_at):
            await wait(self._socket)
            return
        self._hurry_at = math.inf
        if not renice(self.child.pid, 0):
            raise _StarvedError
        await wait(self._socket)

    async def close(self) -> None:
        """Kill it and reap it; bounded, cannot be cancelled."""
        self._socket.close()
        await self.child.kill()

    def forget(self) -> None:
        """Close what is left of one that has exited."""
        self._socket.close()
        self.child.reap()

    async def _receive(self, size: int) -> bytearray:
        received = bytearray()
        if size > MOVED_BYTES:
            reserve(received, size)
        while len(received) < size:
            try:
                piece = self._socket.recv(min(PIECE_BYTES, size - len(received)))
            except BlockingIOError:
                await self._wait(trio.lowlevel.wait_readable)
                continue
            if not piece:
                raise CheckerError("its checker ended")
            received += piece
            await trio.lowlevel.checkpoint()
        return received
