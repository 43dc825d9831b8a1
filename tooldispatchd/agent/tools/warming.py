"""Start servers before an agent needs them, by the profiles of one generation, and again after a reload."""

from collections.abc import Iterator

from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.tools.servers import at_servers, wanted_of, why_never
from tooldispatchd.agent.tools.servervalues import value_of
from tooldispatchd.agent.tools.spares import ServerKind, WantedServer
from tooldispatchd.catalog.profiles import Profile
from tooldispatchd.catalog.workspaces import needs_workspace


class ServerKinds:
    """The kinds of servers that profiles of one generation have."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        # By profile, for each of its servers the tools that declared ones are made of.
        self._servers: dict[str, dict[str, dict[str, None]]] = {}

    def servers(self, profile: Profile) -> dict[str, dict[str, None]]:
        """The servers of a profile by name."""
        found = self._servers.get(profile.name)
        if found is None:
            found = self._servers[profile.name] = {use.server: {} for use in profile.servers}
            for tools in at_servers(self._runtime.setup.catalog, profile).values():
                for at in (tool.server for tool in tools):
                    if at is not None:
                        found.setdefault(at.binding, {})[at.tool] = None
        return found

    def find(self, kind: ServerKind) -> WantedServer | None:
        """Say what is wanted of a kind; None where there is no such profile, or not with this server."""
        runtime, catalog = self._runtime, self._runtime.setup.catalog
        profile = catalog.profiles.get(kind.profile)
        needed = None if profile is None else self.servers(profile).get(kind.server)
        if profile is None or needed is None or why_never(binding := catalog.servers[kind.server]) is not None:
            return None
        use = next((each for each in profile.servers if each.server == kind.server), None)
        value, program = value_of(
            runtime, binding, use, needed=tuple(needed), profile=profile, workspace=kind.workspace
        )
        return wanted_of(runtime, binding, value, program, kind, turns=(kind.server, 0))

    def warm(self) -> Iterator[ServerKind]:
        """The kinds that profiles with `warm` begin with; a workspace is known with its session alone."""
        setup = self._runtime.setup
        for profile in setup.catalog.profiles.values():
            spec = setup.profile_spec(profile.name)
            for name in self.servers(profile) if spec is not None and spec.warm else ():
                its = setup.catalog.servers[name].spec
                if its.shared or not (its.lazy or needs_workspace(its)):
                    yield ServerKind(profile.name, name, -1 if its.shared else setup.uid)


def renew_servers(runtime: Runtime) -> None:
    """Have what waits without a session follow the configuration, and start what its profiles with `warm` need."""
    kinds = ServerKinds(runtime)
    runtime.services.sharing.renew(kinds.find, filter(None, map(kinds.find, kinds.warm())))
    if runtime.services.python is not None:
        runtime.services.python.start(runtime.setup)
