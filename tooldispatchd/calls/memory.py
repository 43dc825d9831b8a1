"""All that the daemon keeps for others, on one account. Pure.

    Memory ─▶ users ─▶ Share: a channel, or a server that many agents share ─▶ Holding: one of its buffers

Half lines, unread answers, inputs of calls, results of jobs, what servers say and are sent, and their schemas draw
from it. A share may hold more as long as what it holds, what its user holds and what all hold together are within the
limit: a byte counts three times against the channel that has it, twice against its user's other channels, and once
against everybody else. So one channel has a third at most and one user half, however few there are; whoever holds most
is refused first, at once and without a look at the others; and whoever comes next always finds some room.
"""

from collections.abc import Callable, Iterable, Sized
from typing import Final
from weakref import WeakValueDictionary

from tooldispatchd.wire.faults import Code, Fault

# A share that holds next to nothing may always have this much: ordinary calls go on, whoever fills the rest.
SMALL_BYTES: Final = 16 * 1024
# To free this much takes a virtual machine half a millisecond, and many such lie together.
LARGE_BYTES: Final = 1024 * 1024
# A thousand of 16 KiB take seven milliseconds, and of this much less than one. To queue a tiny one would keep more
# memory than it frees, and that is on nobody's account.
TINY_BYTES: Final = 4 * 1024
# A burst is over when less than half of what was held at its height is left; a smaller one leaves nothing to speak of.
BURST_BYTES: Final = 16 * 1024 * 1024


class _User:
    """What the channels of one user hold together."""

    __slots__ = ("__weakref__", "held")

    def __init__(self) -> None:
        self.held = 0


def _nothing(*_: object) -> None: ...


class Memory:
    """The account of one daemon: `held` of `max_bytes`.

    `ebbed` is called when a burst is over, and `let_go` with a buffer that its owner needs no more.
    """

    __slots__ = ("_high", "_short_at", "_users", "ebbed", "held", "let_go", "max_bytes", "short")

    def __init__(
        self,
        max_bytes: int,
        *,
        ebbed: Callable[[], None] = _nothing,
        let_go: Callable[[Sized], None] = _nothing,
    ) -> None:
        self.max_bytes = max_bytes
        self.held = 0
        self.ebbed = ebbed
        self.let_go = let_go
        # Called while more than half of it is held, before anybody is refused.
        self.short: Callable[[], None] = _nothing
        self._high = 0
        self._short_at = max_bytes // 2
        self._users: WeakValueDictionary[int | None, _User] = WeakValueDictionary()

    def share(self, uid: int | None) -> "Share":
        """A new share, for a channel of this user, or for a server that many agents share where it is None."""
        user = self._users.get(uid)
        if user is None:
            user = self._users[uid] = _User()
        return Share(self, user)

    def greediest(self, number: int) -> list[tuple[int | None, int]]:
        """The users who hold most, and how much; servers that many agents share are those of None."""
        held = [(uid, user.held) for uid, user in list(self._users.items()) if user.held]
        return sorted(held, key=lambda each: each[1], reverse=True)[:number]

    def note(self, change: int) -> None:
        """So many bytes more are held; for `Share` alone."""
        held = self.held = self.held + change
        if held > self._high:
            self._high = held
            if held > self._short_at:
                self.short()
        elif self._high > BURST_BYTES and held < self._high // 2:
            self._high = held
            self.ebbed()


class Share:
    """The part of the account that one channel, or one server that many agents share, holds."""

    __slots__ = ("_memory", "_user", "held")

    def __init__(self, memory: Memory, user: _User) -> None:
        self._memory = memory
        self._user = user
        self.held = 0

    def has_room(self, size: int) -> bool:
        """Whether it may hold so much more."""
        held, memory = self.held, self._memory
        return 3 * size + held + self._user.held + memory.held <= memory.max_bytes or size + held <= SMALL_BYTES

    @property
    def is_full(self) -> bool:
        """Whether it may not hold a byte more."""
        return not self.has_room(1)

    @property
    def fault(self) -> Fault:
        """The fault where there is no room."""
        extras: dict[str, object] = {"what": "buffered_bytes", "limit": self._memory.max_bytes}
        return Fault(Code.TOO_MANY, "over the limit: bytes that the daemon keeps for agents and servers", extras)

    def move(self, to: "Share") -> None:
        """Hold what it holds for the user of another share."""
        self._user.held -= self.held
        self._user = to._user
        self._user.held += self.held

    def let_go(self, buffer: object) -> None:
        """Free `buffer`: a large one in steps of its own."""
        if isinstance(buffer, bytes | bytearray) and len(buffer) > LARGE_BYTES:
            self._memory.let_go(buffer)

    def let_go_all(self, buffers: Iterable[Sized]) -> None:
        """Free buffers of which thousands may come at once: all but tiny ones in steps of their own."""
        for buffer in buffers:
            if len(buffer) > TINY_BYTES:
                self._memory.let_go(buffer)

    def draw(self, size: int) -> bool:
        """Hold so much more, if it may."""
        if not self.has_room(size):
            return False
        self.add(size)
        return True

    def add(self, change: int) -> None:
        """Hold so much more whatever there is, or give that much back where it is less than nothing."""
        self.held += change
        self._user.held += change
        self._memory.note(change)


class Holding:
    """The part of a share that one growing and shrinking buffer holds."""

    __slots__ = ("_share", "held")

    def __init__(self, share: Share) -> None:
        self._share = share
        self.held = 0

    def resize(self, size: int) -> bool:
        """Hold `size` bytes in all, if it may; less than before it always may."""
        change = size - self.held
        if change > 0 and not self._share.has_room(change):
            return False
        self._share.add(change)
        self.held = size
        return True
