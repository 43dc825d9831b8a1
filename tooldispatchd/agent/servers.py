"""The servers of one session: which it has, a connection to each, and the prefix under which each offers its tools.

A server is there because the profile offers its tools, or because a declared tool is one of its tools, or both: there
is one connection either way. One that cannot be started (it is switched off, or is behind a URL) settles at once.
"""

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Final, Protocol

from tooldispatchd.agent.runtime import Log, Runtime
from tooldispatchd.calls.connection import ConnectionState
from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.names import default_prefix, unique_prefixes
from tooldispatchd.catalog.profiles import Profile, ServerUse
from tooldispatchd.catalog.servers import NOT_YET, Binding
from tooldispatchd.catalog.tools import DeclaredTool
from tooldispatchd.providers.mcp.connection import Connection
from tooldispatchd.providers.mcp.server import Server
from tooldispatchd.wire.faults import Code, Fault

# A line of a server holds an answer and its envelope.
ENVELOPE_BYTES: Final = 1024 * 1024


class Owner(Protocol):
    """The session, as its servers need it."""

    def opened(self) -> None:
        """A server has answered or failed."""

    def own(self, run: Callable[[], Awaitable[None]], close: Callable[[], None]) -> None:
        """Run a connection's owner task in the session's nursery, under its guard."""

    def flush(self) -> None:
        """Send what has been answered."""


class SessionServer:
    """One of them. `use` is None where its tools are not offered themselves.

    `needed` are its tools that declared tools are made of, each with the name of one of these. `prefix` is None while
    it is not known, and where it is of no use. `connection` is None where the server is never started. `warnings` are
    there once it has settled.
    """

    __slots__ = (
        "_refusal",
        "binding",
        "connection",
        "has_answered",
        "is_settled",
        "name",
        "needed",
        "prefix",
        "use",
        "warnings",
    )

    def __init__(self, binding: Binding, use: ServerUse | None) -> None:
        self.binding = binding
        self.name = binding.name
        self.use = use
        self.needed: dict[str, str] = {}
        self.prefix = None if use is None else binding.prefix
        self.connection: Connection | None = None
        # It may have to wait for those before it until it settles.
        self.has_answered = False
        self.is_settled = False
        self.warnings: list[str] = []
        self._refusal = _why_never(binding)

    @property
    def is_startable(self) -> bool:
        """Whether a connection can be opened at all."""
        return self._refusal is None

    @property
    def is_unnamed(self) -> bool:
        """Whether it will be called what it calls itself."""
        return self.use is not None and self.binding.prefix is None

    @property
    def fault(self) -> Fault | None:
        """Why none of its tools can be called; None while it starts, and while it serves."""
        connection = self.connection
        if connection is None or connection.state in {ConnectionState.OPENING, ConnectionState.OPEN}:
            return self._refusal
        return connection.fault


def _why_never(binding: Binding) -> Fault | None:
    if binding.spec.enabled and binding.spec.url is None:
        return None
    why = NOT_YET if binding.spec.enabled else "it is not enabled"
    extras: dict[str, object] = {"server": binding.name, "reason": why}
    return Fault(Code.SERVER_UNAVAILABLE, f"server {binding.name} is not available: {why}", extras)


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
    """All of them, by the names of their bindings. Agents of one `channel` wait for one another's servers to start."""

    __slots__ = ("_by_name", "_channel", "_log", "_owner", "_runtime")

    def __init__(self, owner: Owner, runtime: Runtime, log: Log, *, channel: object) -> None:
        self._owner = owner
        self._runtime = runtime
        self._log = log
        self._channel = channel
        self._by_name: dict[str, SessionServer] = {}

    def __iter__(self) -> Iterator[SessionServer]:
        """Each of them, those that are offered first."""
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def __getitem__(self, name: str) -> SessionServer:
        return self._by_name[name]

    def offer(self, use: ServerUse) -> None:
        """Have a server of the profile."""
        self._by_name[use.server] = SessionServer(self._runtime.catalog.servers[use.server], use)

    def need(self, tool: DeclaredTool) -> SessionServer:
        """The server whose tool a declared tool is."""
        assert tool.server is not None
        name = tool.server.binding
        server = self._by_name.get(name)
        if server is None:
            server = self._by_name[name] = SessionServer(self._runtime.catalog.servers[name], None)
        server.needed.setdefault(tool.server.tool, tool.name)
        return server

    def open(self, settled: Callable[[SessionServer], None]) -> None:
        """Start them, all at once. Each calls `settled` by itself, and then the owner's `opened`.

        One that cannot be started settles here and now, without `opened`.
        """
        for server in self:
            if server.is_startable:
                self._start(server, settled)
            else:
                self._settle(server, settled)

    def _start(self, server: SessionServer, settled: Callable[[SessionServer], None]) -> None:
        connection = server.connection = Connection(
            self._server(server),
            family=self._runtime.family,
            opening=self._runtime.opening.of(self._channel),
            log=self._log.bind(server=server.name),
            batch_done=self._owner.flush,
        )
        self._owner.own(partial(connection.run, partial(self._settle, server, settled)), connection.close)

    def _server(self, server: SessionServer) -> Server:
        spec = server.binding.spec
        limits = self._runtime.limits
        assert spec.command is not None
        return Server(
            name=server.name,
            argv=(spec.command, *spec.args),
            env=spec.env,
            cwd=spec.cwd,
            # What is not offered needs no more than the tools that declared ones are made of.
            whitelist=spec.tools if server.use is not None else (),
            declared=tuple(server.needed),
            deny=spec.deny,
            handshake_s=spec.handshake_s or limits.handshake_s,
            call_s=spec.call_s or limits.call_s,
            max_line_bytes=limits.max_content_bytes + ENVELOPE_BYTES,
            max_content_bytes=limits.max_content_bytes,
        )

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
            if one.connection is not None:
                one.warnings += one.connection.warnings
                if one.is_unnamed and one.fault is None:
                    one.prefix = self._prefix(one, one.connection.said_name)
            settled(one)
        if server.is_startable:
            self._owner.opened()

    def _prefix(self, server: SessionServer, said: str | None) -> str:
        """What a server that was given no name is called: what it calls itself, or after its command."""
        wanted = default_prefix(said) if said is not None else server.name
        taken = [other.prefix for other in self if other.prefix is not None]
        prefix = unique_prefixes([*taken, wanted])[-1]
        if prefix != wanted:
            server.warnings.append(f'prefix "{wanted}" is taken, its tools are offered as "{prefix}:…"')
            self._log.warning("prefix taken", server=server.name, wanted=wanted, prefix=prefix)
        return prefix

    def close(self) -> None:
        """Ask every connection to end; their owner tasks return when nothing of them is left."""
        for server in self:
            if server.connection is not None:
                server.connection.close()

    @property
    def is_settled(self) -> bool:
        """Whether every server has answered or failed."""
        return all(server.is_settled for server in self)

    @property
    def opening_limit_s(self) -> float:
        """How long a call may wait for the servers: the longest handshake, and its wait for a place to begin."""
        waiting = (server.connection for server in self if not server.is_settled)
        longest = max((each.server.handshake_s for each in waiting if each is not None), default=0.0)
        return 2 * longest + self._runtime.limits.call_s

    def under(self, prefix: str) -> list[SessionServer]:
        """Those that may offer a tool with this prefix: those of the prefix, then those that offer raw names."""
        raw = [server for server in self if server.prefix == "" and prefix]
        return [server for server in self if server.prefix == prefix] + raw

    def may_become(self, prefix: str) -> bool:
        """Whether a server that has yet to say its name may get this prefix."""
        if not prefix or any(server.prefix == prefix for server in self):
            return False
        return any(server.is_unnamed and not server.is_settled for server in self)
