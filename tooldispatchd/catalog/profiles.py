"""What each kind of agent may call: profiles, and the prefixes under which servers offer their tools. Pure.

A profile names what exists, or it is a `Problem`; what it leaves out is not offered. A server that is not enabled
exists, so that switching it off needs no other edit: it is left out of every profile, and `disabled_uses` says so.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from tooldispatchd.catalog.names import nearest, split_name, unique_prefixes
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.specs import Config, McpSpec, ProfileSpec

DEFAULT_PROFILE: Final = "default"


class ServerUse(msgspec.Struct, frozen=True):
    """A server of a profile, by its binding's name; `only` is None where all that it offers is meant."""

    server: str
    only: tuple[str, ...] | None = None


class Profile(msgspec.Struct, frozen=True):
    """What an agent under this profile may call: declared tools and servers, each once, as the file orders them."""

    name: str
    tools: tuple[str, ...]
    servers: tuple[ServerUse, ...]


def assign_prefixes(servers: Mapping[str, McpSpec]) -> tuple[dict[str, str], list[str]]:
    """The prefix of each binding, and a warning for each that is not the one asked for.

    A taken one gets `-2`, or the next free number. Any number of servers may have none (`""`).
    """
    wanted = {binding: binding if spec.prefix is None else spec.prefix for binding, spec in servers.items()}
    prefixes = dict(zip(wanted, unique_prefixes(wanted.values()), strict=True))
    warnings = [
        f'mcp.{binding}: prefix "{wanted[binding]}" is taken, its tools are offered as "{prefix}:…"'
        for binding, prefix in prefixes.items()
        if prefix != wanted[binding]
    ]
    return prefixes, warnings


def build_profiles(config: Config) -> tuple[dict[str, Profile], list[Problem]]:
    """Every profile, and a problem for each name in one that does not exist."""
    if not config.agents:
        servers = tuple(ServerUse(binding) for binding, spec in config.mcp.items() if spec.enabled)
        return {DEFAULT_PROFILE: Profile(DEFAULT_PROFILE, tuple(config.tools), servers)}, []
    problems: list[Problem] = []
    prefixes, _ = assign_prefixes(config.mcp)
    profiles = {
        name: _ProfileBuilder(config, prefixes, problems).build(name, spec) for name, spec in config.agents.items()
    }
    return profiles, problems


def disabled_uses(config: Config) -> list[str]:
    """A warning for each profile's entry that a server which is not enabled takes away."""
    prefixes, _ = assign_prefixes(config.mcp)
    by_prefix = _by_prefix(config, prefixes)
    warnings: list[str] = []
    for name, spec in config.agents.items():
        named = [(entry, entry) for entry in spec.mcp]
        named += [(entry, by_prefix.get(split_name(entry)[0], "")) for entry in spec.tools if ":" in entry]
        for entry, binding in named:
            if binding in config.mcp and not config.mcp[binding].enabled:
                warnings.append(f"agents.{name}: {entry} is not offered: server {binding} is not enabled")
    return warnings


def _by_prefix(config: Config, prefixes: Mapping[str, str]) -> dict[str, str]:
    """Which binding is meant before the colon: a prefix wins, since that is what agents see; else a binding's name."""
    return {binding: binding for binding in config.mcp} | {prefix: binding for binding, prefix in prefixes.items()}


class _ProfileBuilder:
    """Collects one profile's tools and servers."""

    def __init__(self, config: Config, prefixes: Mapping[str, str], problems: list[Problem]) -> None:
        self._config = config
        self._by_prefix = _by_prefix(config, prefixes)
        self._problems = problems
        self._tools: dict[str, None] = {}
        # None stands for the whole server.
        self._servers: dict[str, dict[str, None] | None] = {}

    def build(self, name: str, spec: ProfileSpec) -> Profile:
        for index, server in enumerate(spec.mcp):
            self._add_server(server, ("agents", name, "mcp", index))
        for index, tool in enumerate(spec.tools):
            if ":" in tool:
                self._add_server_tool(tool, ("agents", name, "tools", index))
            else:
                self._add_tool(tool, ("agents", name, "tools", index))
        servers = tuple(
            ServerUse(server, None if only is None else tuple(only))
            for server, only in self._servers.items()
            if self._config.mcp[server].enabled
        )
        return Profile(name, tuple(self._tools), servers)

    def _add_server(self, server: str, path: Path) -> None:
        if server in self._config.mcp:
            self._servers[server] = None
        else:
            self._refuse(path, "no such server in [mcp]", server, nearest(server, self._config.mcp))

    def _add_tool(self, tool: str, path: Path) -> None:
        if tool in self._config.tools:
            self._tools[tool] = None
        else:
            self._refuse(path, "no such tool in [tools]", tool, nearest(tool, self._config.tools))

    def _add_server_tool(self, entry: str, path: Path) -> None:
        prefix, tool = split_name(entry)
        server = self._by_prefix.get(prefix)
        if server is None:
            close = nearest(prefix, self._by_prefix)
            self._refuse(path, "no such server in [mcp]", entry, close and f"{close}:{tool}")
            return
        spec = self._config.mcp[server]
        if tool in spec.deny:
            self._refuse(path, f"mcp.{server}.deny takes this tool away", entry, None)
        elif spec.tools is not None and tool not in spec.tools:
            close = nearest(tool, spec.tools)
            self._refuse(path, f"mcp.{server}.tools does not list this tool", entry, close and f"{prefix}:{close}")
        else:
            only = self._servers.setdefault(server, {})
            if only is not None:
                only[tool] = None

    def _refuse(self, path: Path, why: str, value: str, close: str | None) -> None:
        self._problems.append(Problem(path, why, value=value, nearest=close))
