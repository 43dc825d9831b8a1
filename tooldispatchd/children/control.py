"""The conversation with one forker over a socket of datagrams: requests with descriptors, and replies in order.

Several tasks may wait at once: the first of them reads for all, and no task of its own is needed. A request that has
been sent is waited for even when its call is cancelled; else a child would be left that nothing knows of. That wait is
bounded: a forker that is silent for so long is of no use any more, and `close` wakes every task that waits.
"""

import marshal
import os
import socket
from array import array
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec
import trio

# A datagram must fit into the socket's buffer (208 KiB by default) as one; what is larger goes in a memfd.
MAX_DATAGRAM_BYTES: Final = 64 * 1024

# A reply is a number, or the sentence that says why there is none.
MAX_REPLY_BYTES: Final = 64 * 1024

# So many fit into a datagram, however long the numbers are.
MAX_REAPED: Final = 4096


class ForkerGone(Exception):  # noqa: N818  # an event, and no error of the caller's
    """The forker died, or was ended because it did not answer; `why` in words. No child is known to have started."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class ForkerReply(msgspec.Struct, frozen=True):
    """An answer of a forker: a child's `pid`, or its end by `code` or `signal`, or an `error`, in words."""

    pid: int | None = None
    code: int | None = None
    signal: int | None = None
    error: str | None = None
    retiring: bool = False
    """Whether the forker wants no more children."""


class _Waiter:
    """A request that was sent, its reply once it is there, and the event that wakes the waiting task."""

    __slots__ = ("reply", "woken")

    def __init__(self) -> None:
        self.reply: ForkerReply | None = None
        self.woken = trio.Event()


class Control:
    """Our end of the socket, of datagrams in order. `answer_s` bounds every answer, in seconds.

    `take` is called with each reply as soon as it is read, before the task that waits for it has its turn; `fail` with
    the reason as soon as the forker ends the conversation, and must `close` it.
    """

    def __init__(
        self, own: socket.socket, *, answer_s: float, take: Callable[[ForkerReply], None], fail: Callable[[str], None]
    ) -> None:
        own.setblocking(False)  # noqa: FBT003  # the standard library's own
        self._socket = own
        self._answer_s = answer_s
        self._take = take
        self._fail = fail
        self._why: str | None = None
        self._greeting = _Waiter()
        self._waiters = deque([self._greeting])
        self._is_read = False
        self._sending = trio.Lock()
        # As many as the forker has children at most.
        self._unreaped: list[int] = []

    @property
    def is_closed(self) -> bool:
        return self._why is not None

    @property
    def is_idle(self) -> bool:
        """Whether no task waits for a reply or the greeting."""
        return not self._waiters

    async def greeting(self) -> ForkerReply:
        """The first reply, which answers nothing; raises ForkerGone. May be cancelled, and asked again."""
        return await self._replied(self._greeting)

    async def ask(self, request: Mapping[str, object], fds: Sequence[int] = ()) -> ForkerReply:
        """One request (`forked.loop`), with `fds` sent along, and its reply. Cannot be cancelled once it is sent.

        Raises ForkerGone, or OSError where the kernel has no room for the request.
        """
        waiter = _Waiter()
        # Children that have been killed by now can be reaped when the forker has answered.
        ended, self._unreaped = self._unreaped[:MAX_REAPED], self._unreaped[MAX_REAPED:]
        chunk = _encode({**request, "reap": ended} if ended else request)
        try:
            if len(chunk) <= MAX_DATAGRAM_BYTES:
                await self._send(waiter, chunk, fds)
            else:
                memfd = os.memfd_create("tooldispatchd-request", os.MFD_CLOEXEC)
                try:
                    os.write(memfd, chunk)
                    await self._send(waiter, _encode({"memfd": len(chunk)}), (*fds, memfd))
                finally:
                    os.close(memfd)
        except BaseException:
            self._unreaped += ended
            raise
        with trio.move_on_after(self._answer_s, shield=True):
            return await self._replied(waiter)
        self._fail(f"it did not answer within {self._answer_s:g} s")
        raise self._gone()

    def reap(self, pid: int) -> None:
        """Have a child that has exited, or was killed, reaped: with the next request, or with `flush`."""
        self._unreaped.append(pid)

    def flush(self) -> None:
        """Tell of the children to be reaped now, if there is room for it; else the next request does."""
        with suppress(ForkerGone, OSError):
            while self._unreaped:
                self._transmit(_encode({"reap": self._unreaped[:MAX_REAPED]}), ())
                del self._unreaped[:MAX_REAPED]

    def close(self, why: str) -> None:
        """Close the socket and wake every task that waits. Idempotent."""
        if self._why is None:
            self._why = why
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()
            for waiter in self._waiters:
                waiter.woken.set()
            self._waiters.clear()

    def _gone(self) -> ForkerGone:
        return ForkerGone(self._why or "it ended")

    async def _send(self, waiter: _Waiter, chunk: bytes, fds: Sequence[int]) -> None:
        if not self._sending.locked() and self._try_send(waiter, chunk, fds):
            return
        with trio.move_on_after(self._answer_s):
            # The lock keeps the order, and trio lets one task wait on a descriptor.
            async with self._sending:
                while not self._try_send(waiter, chunk, fds):
                    with suppress(trio.ClosedResourceError):
                        await trio.lowlevel.wait_writable(self._socket)
                return
        self._fail(f"it took no request within {self._answer_s:g} s")
        raise self._gone()

    def _try_send(self, waiter: _Waiter, chunk: bytes, fds: Sequence[int]) -> bool:
        """Send a request, if there is room; raises ForkerGone, or OSError."""
        try:
            self._transmit(chunk, fds)
        except BlockingIOError:
            return False
        self._waiters.append(waiter)
        return True

    def _transmit(self, chunk: bytes, fds: Sequence[int]) -> None:
        if self._why is not None:
            raise self._gone()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds))] if fds else []
        try:
            self._socket.sendmsg([chunk], rights)
        except ConnectionError as error:
            self._fail("it ended")
            raise self._gone() from error

    async def _replied(self, waiter: _Waiter) -> ForkerReply:
        while waiter.reply is None:
            if self._why is not None:
                raise self._gone()
            if self._is_read:
                await waiter.woken.wait()
                waiter.woken = trio.Event()
                continue
            # Read for all tasks that wait, until something has come; then another one reads.
            self._is_read = True
            try:
                await trio.lowlevel.wait_readable(self._socket)
                self._take_replies()
            except trio.ClosedResourceError:
                # It was closed meanwhile, which has woken all tasks that wait.
                pass
            finally:
                self._is_read = False
                if self._waiters:
                    self._waiters[0].woken.set()
        return waiter.reply

    def _take_replies(self) -> None:
        while self._waiters:
            try:
                chunk = self._socket.recv(MAX_REPLY_BYTES)
            except BlockingIOError:
                return
            except ConnectionResetError:
                # It died with requests unread; what it said before lies behind this.
                continue
            try:
                reply = msgspec.json.decode(chunk, type=ForkerReply)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                self._fail("it said something that is no reply" if chunk else "it ended")
                return
            waiter = self._waiters.popleft()
            waiter.reply = reply
            waiter.woken.set()
            self._take(reply)


def _encode(request: Mapping[str, object]) -> bytes:
    # A fraction of what JSON costs either side, and it takes the lone surrogates that stand for bytes which are not
    # UTF-8. Every interpreter reads version 2.
    return marshal.dumps(request, 2)  # type: ignore[arg-type]  # a dict of what it takes, as all requests are
