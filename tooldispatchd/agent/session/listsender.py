"""Sends one agent lists of its tools, in answer to `tools` and when they have changed; and makes them ready for that.

A list of many tools is rendered in turns of the loop, one of all sessions' at a time. The channel's further lines wait
for it, so that they find what they would have found behind a short one.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

import trio

from tooldispatchd.agent.calls.sessionchannel import SessionChannel
from tooldispatchd.agent.runtime import Services
from tooldispatchd.agent.session.changes import Changes
from tooldispatchd.agent.session.offering import Offering
from tooldispatchd.agent.session.tasktree import Task
from tooldispatchd.calls.selection import ToolSelection
from tooldispatchd.wire.faults import Fault
from tooldispatchd.wire.messages import ToolsReq
from tooldispatchd.wire.session import SessionMachine, State


class ListedSession(Protocol):
    """`Session`, around its lists."""

    machine: SessionMachine
    number: int

    def start_soon(self, task: Task) -> None: ...


class ListSender:
    """See the module."""

    __slots__ = ("_changes", "_channel", "_offering", "_services", "_session")

    def __init__(self, session: ListedSession, offering: Offering, channel: SessionChannel, services: Services) -> None:
        self._session = session
        self._offering = offering
        self._channel = channel
        self._services = services
        self._changes: Changes | None = None

    def answer(self, asked: ToolsReq) -> Fault | None:
        """Answer `tools` or `select`, or say why that cannot be. What is switched is so at once."""
        chosen = self._offering.choose(asked)
        if isinstance(chosen, Fault):
            return chosen
        outgoing = self._session.machine.outgoing
        self._once_rendered(lambda: outgoing.append(self._offering.answer(asked, chosen)), asked.schemas, chosen)
        return None

    def changed(self) -> None:
        """Its tools have changed: send the list before long."""
        self._changes = self._changes or Changes(self._services.timer, self._send_changed)
        self._changes.note()

    def _send_changed(self) -> None:
        self.once_rendered(self._send_rendered)
        self._channel.flush()

    def _send_rendered(self) -> None:
        if self._session.machine.state is not State.CLOSED:
            self._offering.send_changed()

    def once_rendered(self, then: Callable[[], None]) -> None:
        """Call `then` when the list in the form of `hello` can be sent in one turn: now, unless it is a long one."""
        self._once_rendered(then, None, self._offering.selection)

    def _once_rendered(self, then: Callable[[], None], form: str | None, chosen: ToolSelection | None) -> None:
        pauses = self._offering.render(form, chosen)
        for _pause in pauses if self._session.machine.state is not State.CLOSED else ():
            self._channel.hold()
            self._session.start_soon(partial(self._render, then, pauses))
            return
        then()

    async def _render(self, then: Callable[[], None], pauses: Iterator[None]) -> None:
        try:
            async with self._services.listing.of((self._channel.gate_key, self._session.number)):
                await trio.lowlevel.checkpoint()
                for _pause in pauses:
                    await trio.lowlevel.checkpoint()
            then()
        finally:
            self._channel.release()
        self._channel.flush()

    def close(self) -> None:
        """Send nothing any more."""
        if self._changes is not None:
            self._changes.close()
