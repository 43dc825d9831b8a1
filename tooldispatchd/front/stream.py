"""A channel on trio streams, for what cannot be polled: regular files and devices as stdin or stdout.

It costs a task or two and a send a batch, which a single channel can afford; agents on sockets and pipes go through
the front. Tests put memory streams under it.
"""

import os
from typing import Final, Protocol

import trio
from trio.abc import ReceiveStream, SendStream, Stream

from tooldispatchd.calls.memory import Share
from tooldispatchd.front.channel import READ_BYTES, ChannelPeer

# A peer that takes less than this in `stalled_s` is dropped.
SEND_BYTES: Final = 65_536


class Crowd(Protocol):
    """The front's bounds, for a channel on streams."""

    out_buffer_bytes: int
    stalled_s: float


class StreamChannel:
    """A channel with a reader and a writer task; `run` returns when it is closed or gone."""

    def __init__(self, crowd: Crowd, share: Share, receiving: ReceiveStream, sending: SendStream) -> None:
        self.share = share
        self._crowd = crowd
        self._receiving = receiving
        self._sending = sending
        self._out = bytearray()
        self._moved = trio.Event()
        self._room = trio.Event()
        self._closing = False
        self._has_more = False
        self._unpaused: trio.Event | None = None
        self._writing: trio.CancelScope | None = None
        self._is_closed = False

    @property
    def is_crowded(self) -> bool:
        """Whether the channel's share of the daemon's memory is full, and unread answers are in it."""
        return bool(self._out) and self.share.is_full

    @property
    def is_behind(self) -> bool:
        """Whether more lies here than the writer takes at once."""
        return len(self._out) > SEND_BYTES

    def again(self) -> None:
        """Ask for another turn, which the reader gives."""
        self._has_more = True
        if self._unpaused is not None:
            self._unpaused.set()
            self._unpaused = None

    def pause(self) -> None:
        """Read nothing more until `again`."""
        self._unpaused = self._unpaused or trio.Event()

    def write(self, lines: bytes | bytearray) -> None:
        """Keep the lines for the writer; it is woken at once."""
        if not self._is_closed:
            self._out += lines
            self.share.add(len(lines))
            self._moved.set()

    def close(self) -> None:
        """Close when all that was written has left."""
        self._closing = True
        self._moved.set()

    def give_up(self) -> None:
        """Wait no longer for the peer to take what a closing channel still holds."""
        if self._closing and self._writing is not None:
            self._writing.cancel()

    async def run(self, peer: ChannelPeer) -> None:
        """Serve `peer` until it closes the channel or the channel breaks."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read, peer)
            self._writing = nursery.cancel_scope
            try:
                await self._write()
            except (trio.BrokenResourceError, trio.TooSlowError):
                self._is_closed = True
                self.share.add(-len(self._out))
                self._out.clear()
                peer.gone("cannot write")
            nursery.cancel_scope.cancel()
        # Closing a descriptor or a memory stream by force does not wait.
        with trio.CancelScope(shield=True):
            await trio.aclose_forcefully(self._receiving)
            await trio.aclose_forcefully(self._sending)

    async def _read(self, peer: ChannelPeer) -> None:
        while not self._closing:
            try:
                chunk = await self._receiving.receive_some(READ_BYTES)
            except trio.BrokenResourceError:
                break
            if not chunk:
                break
            peer.received(bytes(chunk))
            await self._give_turns(peer)
        if not self._is_closed:
            peer.ended()
            await self._give_turns(peer)

    async def _give_turns(self, peer: ChannelPeer) -> None:
        await self._has_room()
        while self._has_more and not self._closing:
            self._has_more = False
            peer.resume()
            await self._has_room()

    async def _has_room(self) -> None:
        await trio.lowlevel.checkpoint()
        if self._unpaused is not None:
            await self._unpaused.wait()
        while len(self._out) > self._crowd.out_buffer_bytes:
            self._room = trio.Event()
            await self._room.wait()

    async def _write(self) -> None:
        while True:
            await self._moved.wait()
            self._moved = trio.Event()
            while self._out:
                lines = bytes(self._out[:SEND_BYTES])
                with trio.fail_after(self._crowd.stalled_s):
                    await self._sending.send_all(lines)
                del self._out[: len(lines)]
                self.share.add(-len(lines))
                self._room.set()
            if self._closing:
                self._is_closed = True
                return


class FileStream(Stream):
    """A regular file or device as a stream: reading and writing it never waits long, and it cannot be polled."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """The next bytes; nothing at the end of the file."""
        await trio.lowlevel.checkpoint()
        try:
            return os.read(self._fd, max_bytes or READ_BYTES)
        except OSError as error:
            raise trio.BrokenResourceError(f"cannot read: {error.strerror}") from error

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Write all; a full disk is a broken stream."""
        view = memoryview(data)
        while view:
            await trio.lowlevel.checkpoint()
            try:
                view = view[os.write(self._fd, view) :]
            except OSError as error:
                raise trio.BrokenResourceError(f"cannot write: {error.strerror}") from error

    async def wait_send_all_might_not_block(self) -> None:
        """A file takes bytes at any time."""
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        """Close the descriptor."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        await trio.lowlevel.checkpoint()
