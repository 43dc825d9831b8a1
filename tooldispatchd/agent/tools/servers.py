"""The servers of one session: each with its keeper, its prefix, and the value that the MCP client is made from.

A server is there because the profile offers its tools, or because a declared tool is one of its tools, or both: it is
kept once either way, by the session itself or for all that share it. One that is switched off settles at once.
"""

from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator
from functools import partial
from typing import Final, Protocol

from tooldispatchd.agent.faults import too_many, without_secrets
from tooldispatchd.agent.log import Log
from tooldispatchd.agent.programs.programs import Housed, Program
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.session.entrance import Visitor
from tooldispatchd.agent.session.notes import ServerNotes
from tooldispatchd.agent.tools.servervalues import value_of
from tooldispatchd.agent.tools.sharing import SharedServer, View
from tooldispatchd.agent.tools.spares import MakeKeeper, ServerKind, Successor, WantedServer
from tooldispatchd.calls.census import Census
from tooldispatchd.calls.gate import Turns
from tooldispatchd.calls.memory import Share
from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.globs import NameList
from tooldispatchd.catalog.masker import Masker
from tooldispatchd.catalog.names import default_prefix, prefix_taken, unique_prefixes
from tooldispatchd.catalog.profiles import Profile, ServerUse
from tooldispatchd.catalog.servers import Binding, kept_s
from tooldispatchd.catalog.tools import DeclaredTool
from tooldispatchd.catalog.workspaces import Workspace, needs_workspace
from tooldispatchd.providers.mcp.asking import KINDS, NOBODY, AgentSide
from tooldispatchd.providers.mcp.connection import Connection
from tooldispatchd.providers.mcp.keeper import Keeper, ServerHandle
from tooldispatchd.providers.mcp.remembered import key_of
from tooldispatchd.providers.mcp.server import Server, ServerOffer
from tooldispatchd.providers.mcp.stdio import ChildPlace
from tooldispatchd.providers.mcp.ways import preload, way_to
from tooldispatchd.wire.faults import Code, Fault

DISABLED: Final = "it is not enabled"
NO_WORKSPACE: Final = "it works in the session's workspace, and this session has none"


class ServersOwner(AgentSide, Protocol):
    """`Session`, as its servers use it."""

    def opened(self) -> None: ...
    def own(self, run: Callable[[], Awaitable[None]], close: Callable[[], None]) -> None: ...
    def flush(self) -> None: ...
    def tools_changed(self) -> None: ...
    def server_moved(self, server: str, fault: Fault | None) -> None: ...

    workspace: Workspace | None
    """The session's own directory, if it has one."""
    visitor: Visitor


class SessionServer:
    """A server of one session. `use` is None where its tools are not offered themselves.

    `needed` are its tools that declared tools are made of, each with the name of one of these. `prefix` is None while
    it is not known, and where it is of no use. `kept` is None where the server is never started. `warnings` are
    there once it has settled; `unenforced` are the bounds that this machine cannot keep its program to.
    """

    __slots__ = (
        "_masker",
        "_refusal",
        "binding",
        "has_answered",
        "is_settled",
        "kept",
        "name",
        "needed",
        "notes",
        "planned",
        "prefix",
        "unenforced",
        "use",
        "warnings",
    )

    def __init__(self, binding: Binding, use: ServerUse | None, masker: Masker) -> None:
        self.binding = binding
        self._masker = masker
        self.name = binding.name
        self.use = use
        self.needed: dict[str, str] = {}
        self.prefix = None if use is None else binding.prefix
        self.kept: ServerHandle | None = None
        # What it says beyond its tools, once it has said something that its agent hears.
        self.notes: ServerNotes | None = None
        # What the plans of its tools were made of.
        self.planned: ServerOffer | None = None
        # It may have to wait for the servers before it until it settles.
        self.has_answered = False
        self.is_settled = False
        self.warnings: list[str] = []
        self.unenforced: tuple[str, ...] = ()
        self._refusal = why_never(binding)
        if use is not None and binding.wanted_prefix is not None:
            self.warnings.append(prefix_taken(binding.wanted_prefix, binding.prefix))

    def refuse(self, reason: str) -> None:
        """Never start it in this session."""
        self._refusal = self._refusal or _unavailable(self.binding, reason)

    @property
    def is_startable(self) -> bool:
        """Whether it is there at all."""
        return self._refusal is None

    @property
    def is_unnamed(self) -> bool:
        """Whether it will be called what it calls itself."""
        return self.use is not None and self.binding.prefix is None

    @property
    def lists(self) -> list[tuple[str, ...]]:
        """The lists of names, patterns and hints that a tool must be on to be offered itself."""
        spec, use = self.binding.spec, self.use
        own = (spec.tools, spec.allow, *(() if use is None else (use.only, *use.within)))
        return [names for names in own if names is not None]

    def denies(self, tool: str, traits: Iterable[str] = ()) -> bool:
        """Whether its table takes a tool away, or the profile."""
        is_denied = self.binding.denials.admits(tool)
        return is_denied or (self.use is not None and self.use.denies(tool, traits, prefix=self.prefix))

    def keeps(self, tool: str) -> bool:
        """Whether a tool that is asked for is not taken away again."""
        spec, use = self.binding.spec, self.use
        lists = [names for names in (spec.allow, *(() if use is None else use.within)) if names is not None]
        return all(NameList(names).admits(tool) for names in lists) and not self.denies(tool)

    def why_left_out(self, tool: str) -> str | None:
        """Why a tool that would be offered cannot be used; None where it can, or nothing is known of it."""
        kept = self.kept if self.use is not None and self.keeps(tool) else None
        return None if kept is None or tool in kept.offer.tools else kept.offer.left_out.get(tool)

    @property
    def fault(self) -> Fault | None:
        """Why none of its tools can be called now; None while it starts, and while it serves."""
        fault = self._refusal if self.kept is None else self.kept.fault
        return None if fault is None else without_secrets(fault, self._masker)


def why_never(binding: Binding) -> Fault | None:
    """Why a server never starts; None for one that may."""
    if binding.spec.enabled:
        return None
    return _unavailable(binding, DISABLED if binding.left_out is None else f"left out: {binding.left_out}")


def _unavailable(binding: Binding, reason: str) -> Fault:
    extras: dict[str, object] = {"server": binding.name, "reason": reason}
    return Fault(Code.SERVER_UNAVAILABLE, f"server {binding.name} is not available: {reason}", extras)


def at_servers(catalog: Catalog, profile: Profile) -> dict[str, tuple[DeclaredTool, ...]]:
    """The profile's declared tools that need servers, by name: which tools of servers each is, or its chains lift."""
    found: dict[str, tuple[DeclaredTool, ...]] = {}
    for name in profile.tools if catalog.servers else ():
        tool = catalog.tools[name]
        needed = tuple(each for each in (tool, *map(catalog.tools.__getitem__, tool.needs)) if each.server is not None)
        if needed:
            found[name] = needed
    return found


class Servers:
    """A session's servers by the names of their bindings. They start in the `turns` of their agent.

    `changed` is called with one that has settled and has other tools since.
    """

    __slots__ = ("_by_name", "_changed", "_log", "_memory_share", "_owner", "_profile", "_runtime", "_turns")

    def __init__(
        self,
        owner: ServersOwner,
        runtime: Runtime,
        log: Log,
        *,
        profile: Profile,
        turns: Turns,
        share: Share,
        changed: Callable[[SessionServer], None],
    ) -> None:
        self._owner = owner
        self._runtime = runtime
        self._log = log
        self._profile = profile
        self._turns = turns
        self._memory_share = share
        self._changed = changed
        self._by_name: dict[str, SessionServer] = {}

    def __iter__(self) -> Iterator[SessionServer]:
        """The servers, those that are offered first."""
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def __getitem__(self, name: str) -> SessionServer:
        return self._by_name[name]

    def get(self, name: str) -> SessionServer | None:
        """The server of that name, if the session has it."""
        return self._by_name.get(name)

    def offer(self, use: ServerUse) -> None:
        """Have a server of the profile."""
        self._by_name[use.server] = self._made(use.server, use)

    def introduced(self, server: SessionServer) -> ServerOffer | None:
        """Find the offer of a server; while it is starting, what it said of itself last, without tools."""
        if server.kept is None:
            return None
        if not server.is_settled:
            return self._runtime.services.sharing.introductions.get(server.kept.server)
        return None if server.fault is not None else server.kept.offer

    def advice(self) -> Iterator[tuple[str, str]]:
        """List the instructions of the servers that are offered, each with its prefix."""
        for server in self:
            offer, prefix = self.introduced(server), server.prefix
            if server.use is not None and prefix is not None and offer is not None and offer.instructions:
                yield prefix, offer.instructions

    @property
    def starting(self) -> tuple[bool, list[str]]:
        """Whether something is known of each, and which have not answered yet."""
        left = [server for server in self if not server.is_settled]
        return all(self.introduced(server) is not None for server in left), [server.name for server in left]

    def need(self, tool: DeclaredTool) -> SessionServer:
        """The server whose tool a declared tool is."""
        assert tool.server is not None
        name = tool.server.binding
        server = self._by_name.get(name)
        if server is None:
            server = self._by_name[name] = self._made(name, None)
        server.needed.setdefault(tool.server.tool, tool.name)
        return server

    def _made(self, name: str, use: ServerUse | None) -> SessionServer:
        catalog = self._runtime.setup.catalog
        return SessionServer(catalog.servers[name], use, catalog.masker)

    def open(self, settled: Callable[[SessionServer], None], *, before: "Servers | None" = None) -> None:
        """Start them, all at once. Each calls `settled` by itself, and then the owner's `opened`.

        One that cannot be started, or that others use already, settles here and now, without `opened`; so does one of
        `before` that is the same here.
        """
        for server in self:
            if needs_workspace(server.binding.spec) and self._owner.workspace is None:
                server.refuse(NO_WORKSPACE)
            if not server.is_startable:
                self._settle(server, settled)
            elif server.binding.spec.shared:
                shared = self._runtime.services.sharing.shared(self._wanted(server, *self._value(server)))
                self._attach(server, shared, settled)
            else:
                value, program = self._value(server)
                if before is not None and before.hand_over(server, value):
                    assert server.kept is not None
                    server.kept.hear(partial(self._altered, server))
                    self._settle(server, settled)
                elif not self._take_spare(server, value, program, settled):
                    self._start(server, value, program, settled)

    def _start(
        self, server: SessionServer, value: Server, program: Program | None, settled: Callable[[SessionServer], None]
    ) -> None:
        keeper = server.kept = open_keeper(
            self._runtime,
            server.binding,
            value,
            self._owner.flush,
            partial(self._altered, server),
            program=program,
            log=self._log.bind(server=server.name),
            agent=self._owner,
            place=self._place,
            turns=self._turns,
            share=self._memory_share,
        )
        keeper.moved = partial(self._owner.server_moved, server.name)
        self._owner.own(partial(keeper.run, Once(partial(self._answered, server, settled))), keeper.close)

    def _place(self) -> "ServerPlace":
        return ServerPlace(self._runtime.state.servers, self._turns[0], self._runtime.setup.limits.mcp_processes)

    def _take_spare(
        self, server: SessionServer, value: Server, program: Program | None, settled: Callable[[SessionServer], None]
    ) -> bool:
        """Have a server that waits for such a session, if there is one; and others behind it."""
        wanted, sharing = self._wanted(server, value, program), self._runtime.services.sharing
        spare = sharing.take(wanted.key, self._owner, None if value.reach is not None else self._place())
        if wanted.spares and self._profile is self._runtime.setup.catalog.profiles.get(self._profile.name):
            sharing.stock(wanted)
        if spare is None:
            return False
        if spare.keeper.connection is not None:
            spare.keeper.connection.share.move(self._memory_share)
        view = self._attach(server, spare, settled)
        self._owner.own(spare.ended.wait, view.close)
        return True

    def _wanted(self, server: SessionServer, value: Server, program: Program | None) -> WantedServer:
        owner = self._owner
        kind = ServerKind(self._profile.name, server.name)
        if not server.binding.spec.shared:
            answers = owner.answers.intersection(KINDS.values())
            is_heard = owner.hears(server.name)
            kind = ServerKind(*kind[:2], owner.visitor.uid, answers, is_heard, owner.workspace)
        return wanted_of(self._runtime, server.binding, value, program, kind, turns=self._turns)

    def hand_over(self, server: SessionServer, value: Server) -> bool:
        """Give the server that is the same in another generation its open connection; whether there is one."""
        mine = self._by_name.get(server.name)
        if mine is None or mine.kept is None or mine.kept.server != value or mine.fault is not None:
            return False
        old, new = mine.binding.spec, server.binding.spec
        if old.shared or (old.lazy, old.restart) != (new.lazy, new.restart):
            return False
        server.kept, mine.kept = mine.kept, None
        server.notes, mine.notes = mine.notes, None
        return True

    def _value(self, server: SessionServer) -> tuple[Server, Program | None]:
        value, program = value_of(
            self._runtime,
            server.binding,
            server.use,
            needed=tuple(server.needed),
            profile=self._profile,
            workspace=self._owner.workspace,
        )
        server.unenforced = () if program is None else program.unenforced
        return value, program

    def _attach(self, server: SessionServer, shared: SharedServer, settled: Callable[[SessionServer], None]) -> View:
        view = server.kept = View(
            shared,
            settled=partial(self._answered, server, settled),
            changed=partial(self._altered, server),
            flush_agent=self._owner.flush,
        )
        view.moved = partial(self._owner.server_moved, server.name)
        if view.is_settled:
            self._settle(server, settled)
        return view

    def _answered(self, server: SessionServer, settled: Callable[[SessionServer], None]) -> None:
        self._settle(server, settled)
        self._owner.opened()

    def _altered(self, server: SessionServer) -> None:
        """A server has other tools than before; where it has not settled yet, it will with these."""
        if not server.is_settled:
            return
        if server.is_unnamed and server.prefix is None and server.kept is not None:
            server.prefix = self._prefix(server, server.kept.offer.said_name)
        self._changed(server)

    def _settle(self, server: SessionServer, settled: Callable[[SessionServer], None]) -> None:
        """A server has answered or failed.

        Those without a name settle in their order: what they are called must not depend on which of them is quick.
        """
        server.has_answered = True
        waiting = [server] if not server.is_unnamed else [one for one in self if one.is_unnamed and not one.is_settled]
        for one in waiting:
            if not one.has_answered:
                break
            one.is_settled = True
            if one.kept is not None:
                one.warnings += one.kept.offer.warnings
                if one.is_unnamed and (one.fault is None or one.kept.offer.tools):
                    one.prefix = self._prefix(one, one.kept.offer.said_name)
            settled(one)

    def _prefix(self, server: SessionServer, said: str | None) -> str:
        """The prefix of a server without a configured name: the name that it gives itself, or one after its command."""
        wanted = default_prefix(said) if said is not None else server.name
        taken = [other.prefix for other in self if other.prefix is not None]
        prefix = unique_prefixes([*taken, wanted])[-1]
        if prefix != wanted:
            server.warnings.append(prefix_taken(wanted, prefix))
            self._log.warning("prefix taken", server=server.name, wanted=wanted, prefix=prefix)
        return prefix

    def close(self) -> None:
        """Release all servers. Idempotent. The owner tasks return when nothing of them is left."""
        for server in self:
            if server.kept is not None:
                server.kept.close()
            if server.notes is not None:
                server.notes.close()

    def forget(self) -> None:
        """Drop the references to the owner and the servers, after the end."""
        self._by_name.clear()
        del self._owner, self._changed

    @property
    def is_settled(self) -> bool:
        """Whether every server has answered or failed."""
        return all(server.is_settled for server in self)

    @property
    def opening_limit_s(self) -> float:
        """How long a call may wait for the servers: the longest handshake, and its wait for a place to begin."""
        waiting = (server.kept for server in self if not server.is_settled)
        longest = max((each.server.handshake_s for each in waiting if each is not None), default=0.0)
        return 2 * longest + self._runtime.setup.limits.call_s

    def under(self, prefix: str) -> list[SessionServer]:
        """The servers that may offer a tool with this prefix: those of the prefix, then those with raw names."""
        raw = [server for server in self if server.prefix == "" and prefix]
        return [server for server in self if server.prefix == prefix] + raw

    def may_become(self, prefix: str) -> bool:
        """Whether a server that has yet to say its name may get this prefix."""
        if not prefix or any(server.prefix == prefix for server in self):
            return False
        return any(server.is_unnamed and not server.is_settled for server in self)


class ServerPlace:
    """The place of one process among the `limit` that its channel, or its user, may have."""

    __slots__ = ("_census", "_is_taken", "_key", "_limit")

    def __init__(self, census: Census, key: Hashable, limit: int) -> None:
        self._census = census
        self._key = key
        self._limit = limit
        self._is_taken = False

    def take(self) -> Fault | None:
        """Count the process; the reason why it must not start, where there is one."""
        if self._census.is_full_for(self._key, self._limit):
            return too_many("mcp_processes", self._limit)
        self._census.enter(self._key)
        self._is_taken = True
        return None

    def leave(self) -> None:
        """Count it no more. Idempotent."""
        if self._is_taken:
            self._is_taken = False
            self._census.leave(self._key)


class Once:
    """Acts when it is called first, and holds nothing from then on: who may call it lives for longer."""

    __slots__ = ("_act",)

    def __init__(self, act: Callable[[], None]) -> None:
        self._act: Callable[[], None] | None = act

    def __call__(self) -> None:
        act, self._act = self._act, None
        if act is not None:
            act()


def open_keeper(
    runtime: Runtime,
    binding: Binding,
    server: Server,
    batch_done: Callable[[], None],
    changed: Callable[[], None],
    *,
    program: Program | None,
    log: Log,
    agent: AgentSide,
    place: Callable[[], ChildPlace] | None,
    turns: Turns,
    share: Share,
) -> Keeper:
    """The keeper of a connection to `server`, still to be run; it starts in the `turns` of an agent.

    What it holds of the daemon's memory is of `share`, and its child has a `place`.
    """
    # A connection may outlive the generation that it was opened in: nothing of it may hold the runtime.
    services, state = runtime.services, runtime.state
    house = None if program is None or program.policy is None else partial(Housed, services.programs, program)

    def connect(changed: Callable[[], None]) -> Connection:
        return Connection(
            server,
            way=way_to(server, services.family, services.accounts, house=house, place=place, watch=services.front),
            eras=services.sharing.eras,
            unavailable=state.unavailable,
            opening=services.opening.of(turns),
            checkers=services.checkers,
            log=log,
            share=share,
            batch_done=batch_done,
            changed=changed,
            agent=agent,
        )

    spec = binding.spec
    return Keeper(
        server,
        connect,
        lazy=spec.lazy,
        restart=spec.restart,
        lists=services.sharing.tool_lists,
        counts=services.sharing.counts.of(server.name),
        log=log,
        batch_done=batch_done,
        changed=changed,
        is_ending=lambda: state.is_draining,
    )


def wanted_of(
    runtime: Runtime, binding: Binding, value: Server, program: Program | None, kind: ServerKind, *, turns: Turns
) -> WantedServer:
    """Say what a server is that no session owns, and how it is made, in `turns`; its memory is nobody's at first."""
    spec, setup = binding.spec, runtime.setup
    key: Hashable = key_of(value)
    roots: tuple[str, ...] = ()
    spares = 0
    if not spec.shared:
        roots = setup.roots(kind.profile, kind.workspace)
        key = (key, spec.restart, kind.uid, roots, kind.answers, kind.is_heard)
        # Many servers ask for the roots before anything else, and a spare has no agent who could say them.
        spares = 0 if "roots" in kind.answers and not roots else spec.spare

    def make(successor: Successor | None) -> MakeKeeper:
        return partial(
            open_keeper,
            runtime,
            binding,
            value,
            program=program,
            log=setup.log.bind(server=binding.name),
            agent=successor or NOBODY,
            place=None if successor is None else lambda: successor,
            turns=turns,
            share=runtime.state.memory.share(None),
        )

    return WantedServer(key, kind, make, spec.shared, spares, kept_s(spec), roots)


def preload_ways(catalog: Catalog) -> None:
    """Import what connections to the servers of a daemon need, before anybody waits."""
    for binding in catalog.servers.values():
        if binding.spec.url is not None and binding.spec.enabled:
            preload(binding.spec.url)
