"""What one generation was configured with, as its sessions use it; it stays the same.

What a profile bounds it bounds for all programs that its agents start, and for those of agents that these call: the
called agent's own profile is narrowed by its caller's before its session opens.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Raw

from tooldispatchd.agent.log import Log
from tooldispatchd.agent.session.entrance import Authenticator
from tooldispatchd.calls.budget import AgentBudget
from tooldispatchd.catalog.agentspec import AgentSpec
from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.confinement import Confinement
from tooldispatchd.catalog.policy import has_budget, says_store
from tooldispatchd.catalog.profiles import Profile
from tooldispatchd.catalog.readings import Readings
from tooldispatchd.catalog.speckinds import WORKSPACE
from tooldispatchd.catalog.workspaces import Workspace
from tooldispatchd.wire.messages import DEPTH


class Setup:
    """The catalog and what follows from it.

    `agent_specs` are the paths of the files that describe agent processes without a command of their own, by the
    process's name. `uid` is the daemon's own user.
    """

    def __init__(self, catalog: Catalog, log: Log, *, uid: int, agent_specs: Mapping[str, str] = {}) -> None:
        self.catalog: Final = catalog
        self.limits: Final = catalog.config.limits
        line, content = self.limits.max_line_bytes, self.limits.max_content_bytes
        said = {"line": line, "in_flight": self.limits.in_flight, "content": content, "depth": DEPTH}
        # What `ready` says of them: the same for every session.
        self.ready_limits: Final = Raw(msgspec.json.encode(said))
        self.log: Final = log
        self.agent_specs: Final = agent_specs
        self.profile_keys: Final = ProfileKeys(catalog.profiles)
        self.uid: Final = uid
        self.authenticator: Final = Authenticator(catalog, own_uid=uid)

    @cached_property
    def declared(self) -> Readings:
        """The names of all declared tools, however they are spelled."""
        return Readings(self.catalog.tools)

    def profile_spec(self, profile: str) -> AgentSpec | None:
        """The table of a profile; None for the one that is there where the configuration names none."""
        return self.catalog.config.profile_spec(profile)

    def roots(self, profile: str, workspace: Workspace | None) -> tuple[str, ...]:
        """List the directories that servers of a session are told of, as `file://` URIs."""
        spec = self.profile_spec(profile)
        own = () if workspace is None else (Path(workspace.path).as_uri(),)
        return tuple(uri for root in (spec.roots if spec else ()) for uri in (own if root == WORKSPACE else (root,)))

    def budget(self, profile: str) -> AgentBudget | None:
        """A new budget for an agent of the profile; None where it has none."""
        spec = self.profile_spec(profile)
        return AgentBudget(spec.budget, spec.turn_budget) if spec is not None and has_budget(spec) else None

    def says_store(self, profile: Profile) -> bool:
        """Whether long answers of the profile's tools are kept because a table says so."""
        config = self.catalog.config
        servers = (use.server for use in profile.servers)
        specs = [self.catalog.servers[name].spec for name in servers if name in self.catalog.servers]
        return says_store(config, config.profile_spec(profile.name), tools=profile.tools, servers=specs)

    def offers_resources(self, profile: str) -> bool | None:
        """Whether resources and prompts are offered of every server that the profile offers whole; None: not said."""
        spec = self.profile_spec(profile)
        return None if spec is None else spec.mcp_resources


class ProfileKeys:
    """Profiles by key: a profile of the catalog has its name, a narrowed one a key that no name looks like.

    There are no more than profiles times the bounds that they have, which is bounded by the configuration.
    """

    def __init__(self, profiles: Mapping[str, Profile]) -> None:
        self._profiles = profiles
        self._narrowed: dict[str, Profile] = {}
        self._keys: dict[tuple[str, Confinement], str] = {}

    def profile(self, key: str) -> Profile:
        """The profile of a key."""
        narrowed = self._narrowed.get(key)
        return self._profiles[key] if narrowed is None else narrowed

    def key_of(self, profile: Profile) -> str:
        """The key of the whole profile with these bounds; `profile` may be a part of it."""
        known = self._profiles[profile.name]
        if profile.confinement == known.confinement:
            return profile.name
        place = profile.name, profile.confinement
        key = self._keys.get(place)
        if key is None:
            key = self._keys[place] = f"{profile.name}<{len(self._keys)}"
            self._narrowed[key] = msgspec.structs.replace(known, confinement=profile.confinement)
        return key

    def key_below(self, name: str, caller: Profile) -> str:
        """The key of the profile `name` for an agent that an agent of `caller` calls."""
        own = self._profiles[name]
        return self.key_of(msgspec.structs.replace(own, confinement=own.confinement.tightened(caller.confinement)))
