"""What each kind of agent may call: profiles, of tables of their own and of agent processes. Pure.

A profile names what exists, or it is a `Problem`; what it leaves out is not offered. A server that is not enabled
exists, so that switching it off needs no other edit: it is left out of every profile, and `disabled_uses` says so.
`narrow` takes away from a profile and never adds to it.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from tooldispatchd.catalog.agentspec import AgentSpec
from tooldispatchd.catalog.choosing import aliases_of, declared_names
from tooldispatchd.catalog.confinement import NOTHING, Confinement, confinement_of, problems_of
from tooldispatchd.catalog.denials import ChosenNames
from tooldispatchd.catalog.globs import NameList, is_glob
from tooldispatchd.catalog.names import nearest, prefixed, split_name
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.serverdenials import is_spelled
from tooldispatchd.catalog.servers import NO_SUCH_SERVER, Binding, binding_of, server_tool
from tooldispatchd.catalog.speckinds import Owners
from tooldispatchd.catalog.specs import Config, Server
from tooldispatchd.catalog.spelling import Separator
from tooldispatchd.catalog.traits import HINT, HINTS, TAG, Choice, Traits, is_trait, trait_problems

DEFAULT_PROFILE: Final = "default"
# The built-in tools of a profile whose tools are searched, in the order in which they are used.
FIND_TOOLS: Final = "find_tools"
DESCRIBE_TOOL: Final = "describe_tool"
CALL_TOOL: Final = "call_tool"
SEARCH_TOOLS: Final = (FIND_TOOLS, DESCRIBE_TOOL, CALL_TOOL)
# Far over any key that is in use. A bound, since a digest is made of whatever an agent sends.
MAX_TOKEN_BYTES: Final = 4096
_NO_ALIASES: Final[Mapping[str, str]] = MappingProxyType({})
_NO_TRAITS: Final[Traits] = MappingProxyType({})


class ServerUse(msgspec.Struct, frozen=True):
    """A server of a profile, by its binding's name; `only` is None where all that it offers is meant.

    `only` are names and patterns that the server must have; of these, what each list of `within` has and `without` has
    not is offered. These two may have hints too.
    """

    server: str
    only: tuple[str, ...] | None = None
    within: tuple[tuple[str, ...], ...] = ()
    without: tuple[str, ...] = ()
    spelled: tuple[str, ...] = ()
    """What takes tools away by any spelling of the whole name, prefix and all."""

    def may_admit(self, tool: str, prefix: str | None) -> bool:
        """Whether a tool of the server may be offered, as far as the profile tells without knowing its hints."""
        lists = self.within if self.only is None else (self.only, *self.within)
        is_taken = self.denies(tool, (), prefix=prefix)
        return not is_taken and all(Choice(entries).admits(tool, HINTS) for entries in lists)

    def denies(self, tool: str, traits: Iterable[str], *, prefix: str | None) -> bool:
        """Whether a tool of the server is taken away; `prefix` is what its names begin with, where that is known."""
        if Choice(self.without).admits(tool, traits):
            return True
        return bool(self.spelled) and prefix is not None and is_spelled(prefixed(prefix, tool), self.spelled)


class Profile(msgspec.Struct, frozen=True):
    """What an agent under this profile may call: declared tools and servers, each once, as the file orders them.

    Servers that only its declared tools use are not among them. `jobs` says whether the tools for background jobs are
    offered. `uids` and `gids` are who may open it, by number; where both are None, that is everyone. `confinement` is
    what all programs that it calls keep to, beside what each of them says of itself.
    """

    name: str
    tools: tuple[str, ...]
    servers: tuple[ServerUse, ...]
    jobs: bool = True
    uids: frozenset[int] | None = None
    gids: frozenset[int] | None = None
    confinement: Confinement = NOTHING
    order: str | None = None
    """The order of its agents' calls, where it says one."""
    disabled: tuple[str, ...] = ()
    """Servers that it names and that are not enabled."""
    separator: Separator = ":"
    """What stands between prefix and tool in names that are shown."""
    resolve: Literal["spelled", "lenient"] = "spelled"
    """Whether a tool may be called by the last part of its name."""
    is_searched: bool = False
    """Whether its agents are shown the tools that find others, in the place of all."""
    workspace: str | None = None
    """Its sessions' directory, as a template; `makes_workspace` where that is made if it is missing."""
    makes_workspace: bool = False
    workspaces: tuple[str, ...] = ()
    """The directories that a `hello` may name in its place, as patterns."""
    admin: bool = False
    """Whether its agents may see what the daemon does, and change it."""

    @property
    def has_workspace(self) -> bool:
        """Whether its sessions may have a workspace."""
        return self.workspace is not None or bool(self.workspaces)

    @property
    def is_bound(self) -> bool:
        """Whether only certain users or groups may open it."""
        return self.uids is not None or self.gids is not None


# Nobody's: what runs under it keeps to its own table alone.
UNBOUND: Final = Profile("", (), ())


class Narrowing(msgspec.Struct, frozen=True):
    """What an agent wants of its profile, named as a profile's table names it; None leaves it as the profile has it.

    But who names tools alone wants no servers beside those of its tools.
    """

    tools: tuple[str, ...] | None = None
    mcp: tuple[str, ...] | None = None
    jobs: bool | None = None
    allow: tuple[str, ...] | None = None


class NotOffered(msgspec.Struct, frozen=True):
    """A name in a `Narrowing` that its profile does not offer, whether it exists elsewhere or not."""

    name: str


def token_problem(token: str) -> str | None:
    """Why no profile can have this token, or None where one can; never a part of it."""
    try:
        size = len(token.encode())
    except UnicodeEncodeError:
        return "the token is not UTF-8"
    if not size:
        return "the token is empty"
    return f"the token has more than {MAX_TOKEN_BYTES} bytes" if size > MAX_TOKEN_BYTES else None


def digest_of(token: str) -> bytes:
    """The SHA-256 of a token, in which form alone the daemon keeps it.

    One of more characters than a token may have bytes is cut to one too many: it costs no more, and matches none.
    """
    # No text of JSON or of the environment may raise here, lone surrogates neither.
    return hashlib.sha256(token[: MAX_TOKEN_BYTES + 1].encode("utf-8", "surrogatepass")).digest()


class _Wanted(msgspec.Struct, frozen=True):
    """What makes a profile, wherever it is written: `path` leads to its table."""

    path: Path
    tools: tuple[str, ...]
    mcp: tuple[Server, ...]
    spec: AgentSpec = AgentSpec()


def build_profiles(
    config: Config, servers: Mapping[str, Binding], traits: Traits = _NO_TRAITS
) -> tuple[dict[str, Profile], list[Problem]]:
    """Every profile, and a problem for each name in one that does not exist; `build_servers` tells of those in `mcp`.

    An agent process that names `tools` or `mcp` is a profile of its name, as a table in `[agents]` with these would be.
    `traits` are those of declared tools.
    """
    problems = [
        Problem(("agents", name), "the agent process of this name is a profile of this name already")
        for name in config.agents
        if name in config.processes and config.processes[name].is_profile
    ]
    builder = _ProfileBuilder(config, servers, traits)
    profiles: dict[str, Profile] = {}
    if not config.agents:
        whole = tuple(ServerUse(name) for name in config.mcp if servers[name].spec.enabled)
        exposed = tuple(name for name, spec in config.tools.items() if spec.expose is True)
        disabled = tuple(name for name in config.mcp if not servers[name].spec.enabled)
        profiles[DEFAULT_PROFILE] = Profile(DEFAULT_PROFILE, exposed, whole, disabled=disabled)
    profiles |= {name: builder.build(name, wanted) for name, wanted in _all_wanted(config).items()}
    return profiles, [*problems, *trait_problems(config, servers), *builder.problems]


class _ProfileBuilder:
    """Builds profiles, and collects what is wrong with them in `problems`."""

    def __init__(self, config: Config, servers: Mapping[str, Binding], traits: Traits) -> None:
        self._config = config
        self._servers = servers
        self._by_prefix, self._aliases = _by_prefix(servers), aliases_of(config)
        self._traits = traits
        # What its server will say of a tool is not known yet: the session looks again.
        self._hoped = {
            name: (*own, *HINTS) if config.tools[name].mcp is not None else own for name, own in traits.items()
        }
        self.problems: list[Problem] = []

    def build(self, name: str, wanted: _Wanted) -> Profile:
        """The profile; what is wrong in it is left out."""
        spec, path, servers = wanted.spec, wanted.path, self._servers
        tools, used = self._chosen(wanted)
        # The bounds of an agent process are those of its own program, and have been looked at there.
        is_lent = path[0] == "processes"
        wrong = [] if is_lent else problems_of(spec, path)
        self.problems += [*_unknown_owners(spec, path), *wrong]
        enabled = {server: only for server, only in used.items() if servers[server].spec.enabled}
        chosen = ChosenNames(self._config, servers, spec)
        self.problems += chosen.problems(path)
        offered, uses = _allowed(tools, _uses(enabled), chosen.allowed(), servers, self._hoped)
        offered, uses = _denied(offered, uses, chosen, servers, self._traits)
        self.problems += _hidden_by_search(spec, path, offered)
        return Profile(
            name,
            offered,
            uses,
            jobs=spec.jobs,
            uids=_numbers(spec.uid),
            gids=_numbers(spec.gid),
            confinement=NOTHING if wrong or is_lent else confinement_of(spec),
            order=spec.order,
            disabled=tuple(server for server in used if server not in enabled),
            separator=spec.separator,
            resolve=spec.resolve,
            is_searched=spec.catalog == "search",
            workspace=spec.workspace,
            makes_workspace=spec.make,
            workspaces=spec.workspaces,
            admin=spec.admin,
        )

    def _chosen(self, wanted: _Wanted) -> tuple[tuple[str, ...], dict[str, dict[str, None] | None]]:
        """The declared tools that it names, and of each server the names; None stands for the whole server."""
        servers = (binding_of(server, self._servers) for server in wanted.mcp)
        used: dict[str, dict[str, None] | None] = {server: None for server in servers if server in self._servers}
        tools: dict[str, None] = {}
        for index, entry in enumerate(wanted.tools):
            path = (*wanted.path, "tools", index)
            problem = self._entry_problem(entry, path)
            if problem is not None:
                self.problems.append(problem)
            elif ":" in entry:
                prefix, tool = split_name(entry)
                only = used.setdefault(self._by_prefix[prefix], {})
                if only is not None:
                    only[tool] = None
            else:
                found = declared_names(entry, self._config, self._aliases)
                tools |= dict.fromkeys(found)
                wrong = () if wanted.spec.jobs else _jobs_in(found, self._config)
                self.problems += [Problem(path, why, value=entry) for why in wrong]
        return tuple(tools), used

    def _entry_problem(self, entry: str, path: Path) -> Problem | None:
        """Why a profile cannot have what stands at `path` of its `tools`, or None where it can."""
        if ":" not in entry:
            if is_glob(entry):
                found = declared_names(entry, self._config, {})
                return None if found else Problem(path, "no tool in [tools] matches this pattern", value=entry)
            declared = self._config.tools.get(self._aliases.get(entry, entry))
            if declared is not None:
                why = f"tools.{entry} has expose = false: it is there for chains only"
                return Problem(path, why, value=entry) if declared.expose is False else None
            if entry in self._config.processes:
                why = f"no such tool in [tools]: {entry} is a process; a tool can be made of it"
                return Problem(path, why, value=entry)
            return Problem(path, "no such tool in [tools]", value=entry, nearest=nearest(entry, self._config.tools))
        prefix, tool = split_name(entry)
        if prefix not in self._by_prefix:
            close = nearest(prefix, self._by_prefix)
            return Problem(path, NO_SUCH_SERVER, value=entry, nearest=close and f"{close}:{tool}")
        server = self._by_prefix[prefix]
        spec = self._servers[server].spec
        table = f"mcp.{server}." if server in self._config.mcp else "the server's "
        if self._servers[server].denials.admits(tool):
            return Problem(path, f"{table}deny takes this tool away", value=entry)
        if spec.allow is not None and not is_glob(tool) and not NameList(spec.allow).admits(tool):
            return Problem(path, f"{table}allow does not have this tool", value=entry)
        if spec.tools is not None and not _may_be_among(spec.tools, tool):
            close = nearest(tool, spec.tools)
            why = f"{table}tools does not list this tool"
            return Problem(path, why, value=entry, nearest=close and f"{prefix}:{close}")
        return None


def _unknown_owners(spec: AgentSpec, path: Path) -> Iterator[Problem]:
    """A name that was not looked up would admit nobody, without a word."""
    for key, owners in (("uid", spec.uid), ("gid", spec.gid)):
        for owner in _each(owners):
            if isinstance(owner, str):
                yield Problem((*path, key), "this name has not been looked up", value=owner)


def _hidden_by_search(spec: AgentSpec, path: Path, offered: Iterable[str]) -> Iterator[Problem]:
    """A declared tool of such a name could not be called."""
    for name in SEARCH_TOOLS if spec.catalog == "search" else ():
        if name in offered:
            why = f"its tools are found by {name}, and tools.{name} is another tool"
            yield Problem((*path, "catalog"), why, value="search")


def _jobs_in(tools: Iterable[str], config: Config) -> list[str]:
    """Why a profile without jobs cannot have these tools, for each of which that is so."""
    why = 'tools.{} has mode = "background", and this profile has no jobs'
    return [why.format(name) for name in tools if config.tools[name].mode == "background"]


def _all_wanted(config: Config) -> dict[str, _Wanted]:
    """What makes each profile: a table of its own, or an agent process that is one."""
    tables = {
        name: _Wanted(("processes", name), spec.tools or (), spec.mcp or (), spec)
        for name, spec in config.processes.items()
        if spec.is_profile
    }
    tables |= {name: _Wanted(("agents", name), spec.tools, spec.mcp, spec) for name, spec in config.agents.items()}
    for name, wanted in tables.items():
        allow = wanted.spec.allow
        if (allow is not None or wanted.spec.deny) and not wanted.tools and not wanted.mcp:
            # It only says what of everything is offered; a pattern names no tool.
            exposed = tuple(
                tool
                for tool, spec in config.tools.items()
                if spec.expose is True or (spec.expose and tool in (allow or ()))
            )
            tables[name] = _Wanted(wanted.path, exposed, tuple(config.mcp), wanted.spec)
    return tables


def narrow(
    profile: Profile,
    wish: Narrowing,
    servers: Mapping[str, Binding],
    aliases: Mapping[str, str] = _NO_ALIASES,
    traits: Traits = _NO_TRAITS,
) -> Profile | NotOffered:
    """The part of `profile` that `wish` names, or the first name that is not a part of it.

    A tool of a server that is offered whole may be named before it is known whether the server has it: it becomes
    a whitelist, and a server without it refuses the session.
    """
    offered = {use.server: use for use in profile.servers}
    by_prefix = _by_prefix(servers)
    if wish.jobs and not profile.jobs:
        return NotOffered("jobs")
    used: dict[str, dict[str, None] | None] = {}
    if wish.tools is None and wish.mcp is None:
        used = {use.server: None if use.only is None else dict.fromkeys(use.only) for use in profile.servers}
    for server in wish.mcp or ():
        if server not in offered or offered[server].only is not None:
            return NotOffered(server)
        used[server] = None
    tools: dict[str, None] = dict.fromkeys(profile.tools if wish.tools is None else ())
    own = set(profile.tools)
    for entry in wish.tools or ():
        prefix, tool = split_name(entry)
        server = by_prefix.get(prefix, "") if ":" in entry else ""
        found = NameList([entry]).of(profile.tools) if is_glob(entry) else [aliases.get(entry, entry)]
        if found and own.issuperset(found):
            tools |= dict.fromkeys(found)
        elif server in offered and _has_tool(servers[server], offered[server], tool):
            only = used.setdefault(server, {})
            if only is not None:
                only[tool] = None
        else:
            return NotOffered(entry)
    # A whole server is the part of it that the profile has.
    kept = [_within(use, offered[use.server]) for use in _uses(used)]
    offers, uses = _allowed(tuple(tools), kept, wish.allow, servers, traits)
    jobs = profile.jobs if wish.jobs is None else wish.jobs
    # An agent that is trusted with less than its profile is not trusted with the daemon.
    return msgspec.structs.replace(profile, tools=offers, servers=uses, jobs=jobs, admin=False)


def _within(use: ServerUse, whole: ServerUse) -> ServerUse:
    """A part of what a profile has of a server; what it names itself must still be there."""
    # A name was looked for there already.
    if whole.only in (None, use.only) or use.only is None or not any(map(is_glob, use.only)):
        return ServerUse(use.server, use.only, whole.within, whole.without, whole.spelled)
    return ServerUse(use.server, use.only, (whole.only, *whole.within), whole.without, whole.spelled)


def _allowed(
    tools: tuple[str, ...],
    uses: Iterable[ServerUse],
    allow: tuple[str, ...] | None,
    servers: Mapping[str, Binding],
    traits: Traits,
) -> tuple[tuple[str, ...], tuple[ServerUse, ...]]:
    """What `allow` leaves of tools and servers; a server of which it names nothing is left out."""
    if allow is None:
        return tools, tuple(uses)
    kept: list[ServerUse] = []
    for use in uses:
        parts = _of_server(allow, use.server, servers)
        if _has_tag(servers[use.server], allow):
            kept.append(use)
            continue
        chosen = Choice(parts)
        only = use.only and tuple(name for name in use.only if is_glob(name) or chosen.admits(name, HINTS))
        if parts and only != ():
            kept.append(msgspec.structs.replace(use, only=only, within=(*use.within, parts)))
    chosen = Choice(filter(_is_of_declared, allow))
    return tuple(name for name in tools if chosen.admits(name, traits.get(name, ()))), tuple(kept)


def _denied(
    tools: tuple[str, ...],
    uses: tuple[ServerUse, ...],
    chosen_names: ChosenNames,
    servers: Mapping[str, Binding],
    traits: Traits,
) -> tuple[tuple[str, ...], tuple[ServerUse, ...]]:
    """What `deny` leaves of tools and servers; a server whose tag it has is left out."""
    deny = chosen_names.denied()
    if not deny:
        return tools, uses
    kept: list[ServerUse] = []
    for use in uses:
        if not _has_tag(servers[use.server], deny):
            # Without a prefix a tool may be called as one of another server.
            raw = (entry for entry in deny if servers[use.server].prefix == "" and not is_trait(entry))
            without = tuple(dict.fromkeys((*_of_server(deny, use.server, servers), *raw)))
            part = msgspec.structs.replace(use, without=without, spelled=chosen_names.spelled(servers[use.server]))
            prefix = servers[use.server].prefix
            only = use.only and tuple(name for name in use.only if not part.denies(name, (), prefix=prefix))
            kept += [] if only == () else [msgspec.structs.replace(part, only=only)]
    chosen = Choice(filter(_is_of_declared, deny))
    return tuple(name for name in tools if not chosen.admits(name, traits.get(name, ()))), tuple(kept)


def _is_of_declared(entry: str) -> bool:
    return is_trait(entry) or ":" not in entry


def _of_server(entries: Iterable[str], server: str, servers: Mapping[str, Binding]) -> tuple[str, ...]:
    """The entries of a list that are of a server's tools, as that calls them; and all hints."""
    prefix = servers[server].prefix
    called, known = {server, prefix} - {None, ""}, _by_prefix(servers)
    parts: list[str] = []
    for entry in entries:
        before, tool = split_name(entry)
        if entry.startswith(HINT):
            parts.append(entry)
        elif not is_trait(entry) and ":" in entry and any(NameList([before]).admits(str(name)) for name in called):
            parts.append(tool)
        elif not is_trait(entry) and prefix == "" and not NameList([before] if before else ()).of(known):
            # The tools of a server without a prefix are written as those that are declared, colons in them too.
            parts.append(entry)
    return tuple(parts)


def _has_tag(server: Binding, entries: Iterable[str]) -> bool:
    """Whether a list has a tag of the server, and so of all its tools."""
    return Choice(filter(is_trait, entries)).admits("", (TAG + tag for tag in server.spec.tags))


def disabled_uses(config: Config, servers: Mapping[str, Binding]) -> list[str]:
    """A warning for each use of a server that is not enabled: what is not offered, and which tools cannot be called."""
    by_prefix = _by_prefix(servers)
    # The profile that offers everything names none of them.
    whole = [name for name in config.mcp if not config.agents and not servers[name].spec.enabled]
    where = f"agents.{DEFAULT_PROFILE}"
    warnings = [f"{where}: {name} is not offered: server {name} is not enabled" for name in whole]
    for wanted in _all_wanted(config).values():
        # An address is not shown, and a table has no name.
        named = [
            (entry if isinstance(entry, str) and "://" not in entry else "", binding_of(entry, servers))
            for entry in wanted.mcp
        ]
        named += [(entry, by_prefix.get(split_name(entry)[0], "")) for entry in wanted.tools if ":" in entry]
        for entry, binding in named:
            if binding in servers and not servers[binding].spec.enabled:
                where = ".".join(map(str, wanted.path))
                warnings.append(f"{where}: {entry or binding} is not offered: server {binding} is not enabled")
    for name, spec in config.tools.items():
        tool = server_tool(name, spec, servers)
        if tool is not None and tool.binding in servers and not servers[tool.binding].spec.enabled:
            warnings.append(f"tools.{name}: server {tool.binding} is not enabled; it answers server_unavailable")
    return warnings


def _has_tool(server: Binding, use: ServerUse, tool: str) -> bool:
    """Whether a tool of a server may be used, or any that a pattern stands for, as far as the configuration knows."""
    spec = server.spec
    if is_glob(tool):
        return all(each is None or _may_be_among(each, tool) for each in (spec.tools, use.only))
    lists = [each for each in (spec.tools, spec.allow) if each is not None]
    is_kept = all(NameList(each).admits(tool) for each in lists) and use.may_admit(tool, server.prefix)
    return is_kept and not server.denials.admits(tool)


def _may_be_among(names: tuple[str, ...], entry: str) -> bool:
    """Whether a tool, or one that a pattern stands for, may be among what a list of names and patterns has."""
    if is_glob(entry):
        return any(map(is_glob, names)) or bool(NameList([entry]).of(names))
    return NameList(names).admits(entry)


def _uses(servers: Mapping[str, Iterable[str] | None]) -> tuple[ServerUse, ...]:
    return tuple(ServerUse(server, None if only is None else tuple(only)) for server, only in servers.items())


def _each(owners: Owners | None) -> tuple[int | str, ...]:
    return () if owners is None else owners if isinstance(owners, tuple) else (owners,)


def _numbers(owners: Owners | None) -> frozenset[int] | None:
    """Users or groups by number; their names have been looked up where the configuration was read."""
    return None if owners is None else frozenset(owner for owner in _each(owners) if isinstance(owner, int))


def _by_prefix(servers: Mapping[str, Binding]) -> dict[str, str]:
    """Which binding is meant before the colon: a prefix wins, since that is what agents see; else a binding's name."""
    prefixes = {binding.prefix: name for name, binding in servers.items() if binding.prefix is not None}
    return {name: name for name in servers} | prefixes
