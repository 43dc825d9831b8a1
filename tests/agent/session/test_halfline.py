"""The memory of a line whose end has not come."""

from tooldispatchd.agent.session.halfline import HalfLine
from tooldispatchd.calls.memory import Memory
from tooldispatchd.wire.channel import ChannelMachine
from tooldispatchd.wire.decode import Refused

ROOM = 300_000


def test_its_bytes_are_on_the_share_until_it_ends() -> None:
    share, machine = Memory(ROOM).share(1000), ChannelMachine(1_000_000)
    half = HalfLine(share, machine)
    assert half.hold(machine.feed(b"x" * 50_000))
    assert share.held == 50_000
    assert half.hold(machine.feed(b"\n"))
    assert (share.held, len(machine.lines)) == (0, 1)


def test_one_without_room_is_refused_and_gives_back_what_it_had() -> None:
    share, machine = Memory(ROOM).share(1000), ChannelMachine(1_000_000)
    half = HalfLine(share, machine)
    assert half.hold(machine.feed(b"x" * 50_000))
    assert not half.hold(machine.feed(b"x" * 100_000))
    (refused,) = machine.messages()
    assert isinstance(refused, Refused)
    assert (refused.fault, share.held) == (share.fault, 0)
