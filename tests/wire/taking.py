"""What a channel says, as one text."""

from tooldispatchd.wire.channel import ChannelMachine


def taken(channel: ChannelMachine) -> bytes:
    """The lines that it has to send, joined where there are pieces of them."""
    lines = channel.take()
    return lines if isinstance(lines, bytes) else b"".join(lines)
