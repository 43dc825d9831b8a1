"""A channel's line whose end has not come, on the channel's share of memory."""

from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.session.entrance import Visitor
from tooldispatchd.calls.memory import Holding, Share
from tooldispatchd.wire.channel import ChannelMachine


class HalfLine:
    """What lies of it in `machine`; refused where there is no room for more."""

    __slots__ = ("_holding", "_machine", "_runtime", "_share", "_visitor", "_was_refused")

    def __init__(self, machine: ChannelMachine, share: Share, runtime: Runtime, visitor: Visitor) -> None:
        self._machine = machine
        self._share = share
        self._runtime = runtime
        self._visitor = visitor
        self._holding = Holding(share)
        self._was_refused = False

    @property
    def held(self) -> int:
        """How many bytes of it are held."""
        return self._holding.held

    def look(self) -> None:
        """Hold what lies there now, or refuse the line."""
        if self._holding.resize(self._machine.unfinished):
            if not self.held:
                self.drop()
            return
        self._machine.give_up(self._share.fault)
        self.drop()
        if not self._was_refused:
            # Once for each channel: whoever goes on like this must not fill the log too.
            self._was_refused = True
            memory, who = self._runtime.memory, self._visitor
            shown = {"uid": who.uid, "pid": who.pid, "held": memory.held, "limit": memory.max_bytes}
            self._runtime.log.warning("line refused for want of memory", **shown)

    def drop(self) -> None:
        """Nothing of it is needed any more."""
        self._holding.resize(0)
        self._share.let_go(self._machine.forget_unfinished())
