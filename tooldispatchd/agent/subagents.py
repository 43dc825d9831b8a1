"""Agents that a call starts: each has a channel of its own to call tools with, and a session that lives as it does.

    open ──▶ two pipes, a host, a session under the agent's own profile ──▶ (child) ──▶ close
                                                  rest ⇄ wake, between the calls of a child that serves several

The channel is what `run` gives an agent: requests on descriptor 4, answers on 5, told in the same variables. When
`close` returns nothing of the session is left: no call, no task, no child, no descriptor. It is entered in the root's
books (`lineage`).
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import trio

from tooldispatchd.agent.calls.call import Call, Plan
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.session.entrance import Entrance, Visitor
from tooldispatchd.agent.session.host import ChannelHost
from tooldispatchd.agent.session.lineage import Lineage, too_deep
from tooldispatchd.agent.session.session import Session
from tooldispatchd.agent.tools.declaredplans import plan_ahead
from tooldispatchd.agent.tools.showing import plain_entries
from tooldispatchd.children.descriptors import close_all, open_pipe
from tooldispatchd.front.channel import Channel, FdEnd, PairWire
from tooldispatchd.front.front import Front
from tooldispatchd.privatefiles import create_private
from tooldispatchd.providers.process.ports import PortPipes
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.messages import EventKind

# The agent's own numbers, and the variables that tell of them: those of `runner`, so that one client suits both.
REQUESTS: Final = 4
ANSWERS: Final = 5
CHANNEL: Final = "TOOLDISPATCHD_CHANNEL"
TOOLS: Final = "TOOLDISPATCHD_TOOLS"
SERVERS_TOOLS: Final = "PLUMB_MCP_TOOLS"
# No descriptor of ours may be one that the child is given another one as.
LEAST_FD: Final = 10
# The ladder of an MCP server takes at most 4 s, the kill of a child 2; what is not gone by then ends by itself.
CLOSE_S: Final = 10.0


class AgentChannel:
    """One child's channel, made by `SubAgents.open`: the `programs.Lent` of plans."""

    def __init__(self, lineage: Lineage, runtime: Runtime, profile: str, front: Front) -> None:
        self.extra: dict[int, int] = {}
        self.env: dict[str, str] = {CHANNEL: f"{REQUESTS},{ANSWERS}"}
        self._lineage = lineage
        self._runtime = runtime
        self._files: list[Path] = []
        self._ports: list[int] = []
        self._closed = trio.Event()
        # What the root is told of it; None before it is started, and when it has ended.
        self._child: dict[str, object] | None = None
        self._channel = Channel(front, self._wire(), lineage.account.share)
        # It is a part of a call: whatever is configured meanwhile, it is of the generation of that.
        # No other profile, whatever a hello asks for.
        entrance = Entrance(profile, frozenset({profile}))
        visitor = Visitor(os.geteuid(), os.getegid())
        self._host = ChannelHost(
            lambda: runtime, self._channel, self._host_closed, entrance=entrance, visitor=visitor, lineage=lineage
        )

    @property
    def number(self) -> int:
        """The number of its session in the log."""
        return self._lineage.number

    def serve(self, call: Call) -> None:
        """From now on the child serves `call`: its own calls end when that one does."""
        self._lineage.serves = call
        self._lineage.until = call.until
        self._lineage.traceparent = call.traceparent
        call.request.child = self.number

    def started(self) -> None:
        """The child has its descriptors, or there will be none: close our copies, so that its end is seen."""
        for fd in self.extra.values():
            os.close(fd)
        self.extra.clear()

    def share_streams(self) -> PortPipes:
        """Keep the child's descriptors: what it says beside its answer, and reads after its message, goes through them.

        They are non-blocking, and closed with the channel.
        """
        pipes = PortPipes(self.extra.pop(REQUESTS), self.extra.pop(ANSWERS))
        self._ports = [*pipes]
        for fd in pipes:
            os.set_blocking(fd, False)
        self.env[CHANNEL] = "stdio"
        return pipes

    async def close(self) -> None:
        """End the session, whatever runs in it. Idempotent. Cannot be cancelled, and takes at most `CLOSE_S`."""
        self.started()
        self._channel.abort("the call of its agent has ended")
        if not self._closed.is_set():
            with trio.move_on_after(CLOSE_S, shield=True):
                await self._closed.wait()
        if not self._closed.is_set():
            self._runtime.setup.log.warning("agent not torn down in time", session=self.number, within_s=CLOSE_S)
        self._report(EventKind.CHILD_FINISHED)
        self._child = self._lineage.serves = None
        while self._ports:
            os.close(self._ports.pop())
        while self._files:
            with suppress(OSError):
                self._files.pop().unlink()

    # --- what `SubAgents.open` does ---

    async def open(self, call: Call, profile: str, directory: Path | None) -> Fault | None:
        """Open the session for `call` and wait for its servers; why it cannot be. Raises `OSError`."""
        self._channel.open(self._host, closed=lambda: None)
        await plan_ahead(self._runtime, profile)
        asked = self._runtime.setup.profile_keys.profile(profile)
        while (session := self._host.open_called(asked)) is None:
            await self._host.search()
        if isinstance(session, Fault):
            return session
        self._child = {"id": call.id, "tool": call.request.name, "child": self.number, **self._lineage.names()}
        self._report(EventKind.CHILD_STARTED)
        assert self._lineage.opened is not None
        await self._lineage.opened.wait()
        if session.machine.refusal is not None:
            return session.machine.refusal
        if directory is not None:
            self._tell_tools(session, directory)
        return None

    def _report(self, kind: EventKind) -> None:
        events = self._lineage.account.events
        if events is not None and self._child is not None:
            events.tell(kind, self._child)
            events.flush()

    def _tell_tools(self, session: Session, directory: Path) -> None:
        """Write the files that `run` gives its agents too: all tools, and those of servers alone."""
        declared = self._runtime.setup.catalog.tools
        plans = session.toolset.listed.values()
        self._tell(TOOLS, directory / f"tools-{self.number}.json", plans)
        of_servers = [plan for plan in plans if plan.kind == "mcp" and plan.name not in declared]
        self._tell(SERVERS_TOOLS, directory / f"mcp-{self.number}.json", of_servers)

    def _tell(self, variable: str, path: Path, plans: Iterable[Plan]) -> None:
        fd = create_private(path)
        self._files.append(path)
        with os.fdopen(fd, "wb") as file:
            file.write(msgspec.json.encode(plain_entries(plans)) + b"\n")
        self.env[variable] = str(path)

    def _wire(self) -> PairWire:
        """Our ends of two pipes; the child's lie in `extra`. Raises `OSError`."""
        fds: list[int] = []
        try:
            open_pipe(fds, least=LEAST_FD)
            open_pipe(fds, least=LEAST_FD)
            requests, theirs_requests, theirs_answers, answers = fds
            os.set_blocking(requests, False)
            os.set_blocking(answers, False)
        except OSError:
            close_all(fds)
            raise
        self.extra = {REQUESTS: theirs_requests, ANSWERS: theirs_answers}
        return PairWire(FdEnd(requests), FdEnd(answers))

    def _host_closed(self, _host: ChannelHost) -> None:
        self._closed.set()
        if self._lineage.opened is not None:
            self._lineage.opened.set()


class SubAgents:
    """The `runtime.Lender` of the daemon.

    `directory` is one of the daemon's own, for the files with their tools; without it they get none.
    """

    def __init__(self, front: Front, directory: Path | None = None) -> None:
        self._front = front
        self._directory = directory

    async def open(self, runtime: Runtime, call: Call, profile: str) -> AgentChannel | Fault | None:
        """A channel for the child that is to serve `call`, under `profile`: the key of one of an agent process.

        Nothing has been started where it is a fault: the call stands too deep (`not_allowed`), there is no room for
        one more session (`too_many`), its servers refuse it, or it cannot be made (`tool_failed`). None where agents
        have no channels at all, by `limits.agent_depth = 0`. It waits for the profile's servers, and leaves nothing
        where it is cancelled meanwhile. Whoever gets a channel must close it.
        """
        deepest = runtime.setup.limits.agent_depth
        if deepest == 0:
            return None
        above = call.context.lineage
        if above.depth >= deepest:
            return too_deep(call.request.name, above.depth, deepest)
        lent: AgentChannel | None = None
        refusal: Fault | None = None
        is_open = False
        try:
            below = above.below()
            below.workspace = call.context.workspace
            lent = AgentChannel(below, runtime, profile, self._front)
            refusal = await lent.open(call, profile, self._directory)
            is_open = refusal is None
        except OSError as error:
            name = runtime.setup.profile_keys.profile(profile).name
            refusal = Fault(Code.TOOL_FAILED, f"cannot give {name} a channel: {error.strerror}")
        finally:
            if lent is not None and not is_open:
                await lent.close()  # noqa: ASYNC102  # it shields and bounds itself
        if refusal is not None or lent is None:
            return refusal
        lent.serve(call)
        return lent
