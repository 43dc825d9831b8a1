"""The names in a profile's `allow` and `deny`, by every spelling under which a tool can be called. Pure.

A declared tool has its name, its aliases, and what its server calls it; a server's tool its name behind a prefix; and
each of these the spellings of providers and separators. What fits no tool is a problem, since a denial with a slip
would leave its tool callable; where a server's list is not known yet it is a warning.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final

from tooldispatchd.catalog.agentspec import AgentSpec
from tooldispatchd.catalog.choosing import aliases_of
from tooldispatchd.catalog.globs import NameList, is_glob
from tooldispatchd.catalog.names import nearest, split_name
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.serverdenials import is_spelled, spellings_of
from tooldispatchd.catalog.servers import Binding, server_tool
from tooldispatchd.catalog.specs import Config, ToolSpec
from tooldispatchd.catalog.traits import is_trait

_UNKNOWN: Final = "no tool has this name, and no pattern fits any: what it should take away would stay"


class ChosenNames:
    """What the names in the `allow` and the `deny` of one profile stand for."""

    def __init__(self, config: Config, servers: Mapping[str, Binding], spec: AgentSpec) -> None:
        self.spec: Final = spec
        self._servers = servers
        self._config = config
        self._aliases = aliases_of(config)
        self._prefixes = {
            prefix: name for name, each in servers.items() for prefix in (name, each.prefix) if prefix is not None
        }

    def allowed(self) -> tuple[str, ...] | None:
        """List the entries of `allow`, and the names of tools that they spell in another way."""
        if self.spec.allow is None:
            return None
        entries = [entry for entry in self.spec.allow if not is_trait(entry) and not is_glob(entry)]
        others = [name for entry in entries for name in (*self._own.get(entry, ()), *self._behind_prefixes(entry))]
        return tuple(dict.fromkeys((*self.spec.allow, *others)))

    def denied(self) -> tuple[str, ...]:
        """List the entries of `deny` and the names of all tools that they stand for, a server's behind its prefix."""
        found = dict.fromkeys(self.spec.deny)
        for entry in self.spec.deny:
            if not is_trait(entry):
                declared = self._declared(entry)
                at_servers = (server_tool(name, self._config.tools[name], self._servers) for name in declared)
                found |= dict.fromkeys(declared)
                if not is_glob(entry):
                    # A pattern is of what it is matched against alone.
                    found |= dict.fromkeys(f"{at.binding}:{at.tool}" for at in at_servers if at is not None)
                found |= dict.fromkeys(self._behind_prefixes(entry))
        return tuple(found)

    def spelled(self, server: Binding) -> tuple[str, ...]:
        """List the entries of `deny` that are looked for among the spellings of a server's tools.

        A pattern without a colon is among them, where it is more than `*`, which is of declared tools: a denial of
        `*delete*` would else leave a server's.
        """
        names = (
            entry for entry in self.spec.deny if entry.strip("*?") and not is_trait(entry) and not self._is_exact(entry)
        )
        # What a server without a name will be called is not known before it has said so.
        return tuple(entry for entry in names if server.prefix is None or ":" not in entry)

    def problems(self, path: Path) -> Iterator[Problem]:
        """Report each name in `deny` that fits no tool."""
        for place, entry in enumerate(self.spec.deny):
            if not is_trait(entry) and not self._fits(entry) and not self._may_fit(entry):
                known = [*self._config.tools, *self._aliases, *self._listed()]
                yield Problem((*path, "deny", place), _UNKNOWN, value=entry, nearest=nearest(entry, known))

    def doubts(self) -> Iterator[str]:
        """Describe each name that fits no known tool, where that is no problem."""
        for key, entries in (("allow", self.spec.allow or ()), ("deny", self.spec.deny)):
            for entry in entries:
                if not is_trait(entry) and not is_glob(entry) and not self._fits(entry):
                    known = "whether a tool has this name is known once its server has told its tools"
                    yield f"{key}: {entry}: {known if self._may_fit(entry) else 'no tool has this name'}"

    def _is_exact(self, entry: str) -> bool:
        return entry in self._config.tools or entry in self._aliases

    @cached_property
    def _own(self) -> dict[str, list[str]]:
        """The declared tools by each spelling of their own names."""
        return self._index(lambda name, tool: (name, *tool.aliases))

    @cached_property
    def _all(self) -> dict[str, list[str]]:
        """The same, by what their servers call them, too."""
        return self._index(lambda name, tool: (name, *tool.aliases, *self._names_at_server(name, tool)))

    def _index(self, names_of: Callable[[str, ToolSpec], Iterable[str]]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name, tool in self._config.tools.items():
            bare = [name.rpartition(".")[2]] if self.spec.resolve == "lenient" else []
            for spelling in {look for each in (*names_of(name, tool), *bare) for look in spellings_of(each)}:
                found.setdefault(spelling, []).append(name)
        return found

    def _names_at_server(self, name: str, tool: ToolSpec) -> list[str]:
        at = server_tool(name, tool, self._servers)
        if at is None or at.binding not in self._servers:
            return []
        return [f"{each}:{at.tool}" for each in self._servers[at.binding].prefixes]

    def _declared(self, entry: str) -> list[str]:
        """List the declared tools that an entry stands for, by any of their names."""
        if self._is_exact(entry):
            return [self._aliases.get(entry, entry)]
        if is_glob(entry):
            return [name for spelling in NameList([entry]).of(self._all) for name in self._all[spelling]]
        return self._all.get(entry, [])

    def _behind_prefixes(self, entry: str) -> Iterator[str]:
        """List what a spelled name stands for at servers, each behind its binding."""
        if ":" in entry or self._is_exact(entry):
            return
        for prefix, server in self._prefixes.items():
            for start in {look[:-1] for look in spellings_of(f"{prefix}:x") if look.endswith("x")} if prefix else ():
                if entry.startswith(start) and entry != start:
                    yield f"{server}:{entry[len(start) :]}"
            if self.spec.resolve == "lenient":
                yield f"{server}:{entry}"

    def _fits(self, entry: str) -> bool:
        """Whether a tool that is known has this name."""
        if self._declared(entry):
            return True
        return any(is_spelled(name, (entry,)) for name in self._listed())

    def _may_fit(self, entry: str) -> bool:
        """Tell whether a server whose list is not known may have a tool of this name."""
        listed = ((server, server.spec.tools) for server in self._servers.values())
        unlisted = [server for server, tools in listed if tools is None or any(map(is_glob, tools))]
        if unlisted and ":" not in entry and is_glob(entry):
            return True
        if any(server.prefix in {None, ""} for server in unlisted):
            return True
        names = [each for each in (entry, *self._behind_prefixes(entry)) if ":" in each]
        before = [split_name(name)[0] for name in names]
        known = [prefix for server in unlisted for prefix in server.prefixes]
        return any(NameList([each]).admits(prefix) for each in before for prefix in known)

    def _listed(self) -> Iterator[str]:
        """List the tools that tables of servers name."""
        for prefix, server in self._prefixes.items():
            for tool in self._servers[server].spec.tools or ():
                if not is_glob(tool):
                    yield f"{prefix}:{tool}" if prefix else tool


def unmatched(entries: Iterable[str], prefixes: Iterable[str], tools: Iterable[str]) -> list[str]:
    """List the names of a `deny` that begin with a server's prefix, and stand for none of its tools."""
    starts = tuple(f"{prefix}{sign}" for prefix in prefixes if prefix for sign in (":", "_"))
    named = [entry for entry in entries if entry.startswith(starts) and not is_glob(entry)] if starts else []
    known = (
        {look for tool in tools for prefix in prefixes for look in spellings_of(f"{prefix}:{tool}")} if named else ()
    )
    return [entry for entry in named if entry not in known]


def doubted_names(config: Config, servers: Mapping[str, Binding]) -> list[str]:
    """Warn of each name of which only a started server can tell whether it fits a tool."""
    return [
        f"{'.'.join(path)}.{doubt}"
        for path, spec in config.profile_tables().items()
        for doubt in ChosenNames(config, servers, spec).doubts()
    ]
