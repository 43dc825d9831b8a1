"""The line of a channel whose end has not come: its bytes are held on the channel's share of the memory."""

from tooldispatchd.calls.memory import Holding, Share
from tooldispatchd.wire.channel import ChannelMachine


class HalfLine(Holding):
    """`held` are its bytes that lie in the machine, as of the last `hold`."""

    __slots__ = ("_machine",)

    def __init__(self, share: Share, machine: ChannelMachine) -> None:
        super().__init__(share)
        self._machine = machine

    def hold(self, unfinished: int) -> bool:
        """Hold so many bytes of it; false where there is no room for more, and the line is refused."""
        has_room = self.resize(unfinished)
        if not has_room:
            self._machine.give_up(self._share.fault)
        if not has_room or not unfinished:
            self.drop()
        return has_room

    def drop(self) -> None:
        """Keep nothing of it."""
        self.resize(0)
        self._share.let_go(self._machine.forget_unfinished())
