"""A program as a profile's agents run it."""

import msgspec

from tooldispatchd.forked.policy import Policy
from tooldispatchd.providers.process.running import Command


class Program(msgspec.Struct, frozen=True):
    """A command as a profile's agents run it.

    `policy` is what it is started under, None where nothing is asked of it, and `unenforced` the keys that this machine
    cannot keep it to. An agent that may call tools has a `profile`, by its key. One child serves `reuse` calls of a
    session.
    """

    command: Command
    policy: Policy | None = None
    unenforced: tuple[str, ...] = ()
    profile: str | None = None
    reuse: int | None = None
    home: dict[str, str] = {}
    """Its `HOME`, where its table says one."""
    files: tuple[str, ...] = ()
    """Files of the daemon's that it is told of and must be able to read."""

    @property
    def reads_text(self) -> bool:
        """Whether its input is text, and not JSON."""
        return self.command.feed.mode == "text"
