"""The catalog: every declared tool, every profile and every server's prefix, built from one configuration. Pure.

A configuration gives a catalog or its problems, never a part of each.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from tooldispatchd.catalog.caching import caching_problems, caching_warnings
from tooldispatchd.catalog.callgraph import find_cycles
from tooldispatchd.catalog.choosing import alias_problems, aliases_of
from tooldispatchd.catalog.deadlocks import find_deadlocks
from tooldispatchd.catalog.denials import doubted_names
from tooldispatchd.catalog.enforcement import Enforceable
from tooldispatchd.catalog.hookspec import hook_problems, idle_hooks, tools_of
from tooldispatchd.catalog.masker import Masker
from tooldispatchd.catalog.meanings import Declared, build_types, strip_stream, to_schema
from tooldispatchd.catalog.policy import queue_problems
from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.processes import Process, unrun_agents
from tooldispatchd.catalog.profiles import Profile, build_profiles, digest_of, disabled_uses, token_problem
from tooldispatchd.catalog.rest.declared import RestApi, build_apis
from tooldispatchd.catalog.rules import Rules, approver_problems, compile_rules
from tooldispatchd.catalog.servers import Binding, binding_of, build_servers, path_of
from tooldispatchd.catalog.signatures import Signature
from tooldispatchd.catalog.specs import Config
from tooldispatchd.catalog.tools import DeclaredTool, build_tools
from tooldispatchd.catalog.traits import Traits, declared_traits, tagged_by_apis
from tooldispatchd.catalog.types import JSON
from tooldispatchd.catalog.workspaces import workspace_problems

_NO_TOKENS: Final[Mapping[str, bytes]] = MappingProxyType({})
_NO_SIGNATURES: Final[Mapping[str, Signature]] = MappingProxyType({})
_NO_APIS: Final[Mapping[str, "DescribedApi"]] = MappingProxyType({})


class DescribedApi(msgspec.Struct, frozen=True):
    """What was made of a document of OpenAPI: its tools by name, each with its operation, and what is no tool, and
    why."""

    tools: dict[str, str] = {}
    left_out: tuple[str, ...] = ()


class Catalog(msgspec.Struct, frozen=True):
    """What sessions share: they read it and never change it.

    `tools` and `processes` by declared name, `profiles` by name, `servers` by binding, those that have no table of
    their own too; `apis` are those of HTTP, likewise; `warnings` are whole sentences for the log. `tokens` holds the
    SHA-256 of each profile's token, where it has one; `config` holds none. `agent_specs` are what agents that
    `agent_command` runs are told, by process. `enforceable` is what of its programs' bounds the machine can enforce, as
    far as any are asked for. `aliases` are further names of tools, each with the tool's own. `described` are the APIs
    that documents describe; `rules` are compiled. `traits` are the tags and hints of tools. `masker` knows the secrets
    that were read with the configuration.
    """

    config: Config
    tools: dict[str, DeclaredTool]
    profiles: dict[str, Profile]
    processes: dict[str, Process]
    servers: dict[str, Binding]
    warnings: tuple[str, ...]
    tokens: dict[str, bytes] = {}
    agent_specs: dict[str, bytes] = {}
    enforceable: Enforceable = Enforceable()
    aliases: dict[str, str] = {}
    apis: dict[str, RestApi] = {}
    described: dict[str, DescribedApi] = {}
    rules: Rules = {}
    traits: Traits = {}
    masker: Masker = msgspec.field(default_factory=Masker)

    @property
    def locked(self) -> frozenset[str]:
        """The profiles that only the program of an agent process may open, on the channel that it is given."""
        names = (name for section, name in self.config.profile_tables() if section == "processes")
        return frozenset(name for name in names if name not in self.tokens and not self.profiles[name].is_bound)

    @property
    def openable(self) -> dict[str, Profile]:
        """The profiles that a `hello` may name."""
        locked = self.locked
        return {name: profile for name, profile in self.profiles.items() if name not in locked}

    @property
    def is_protected(self) -> bool:
        """Whether any profile asks for a token, a user or a group."""
        return bool(self.tokens) or any(profile.is_bound for profile in self.profiles.values())

    @property
    def has_administrators(self) -> bool:
        """Whether any profile rules the daemon; where none does, its own user does."""
        return any(profile.admin for profile in self.profiles.values())


def build_catalog(
    config: Config,
    tokens: Mapping[str, bytes] = _NO_TOKENS,
    signatures: Mapping[str, Signature] = _NO_SIGNATURES,
    described: Mapping[str, DescribedApi] = _NO_APIS,
) -> Catalog | list[Problem]:
    """The catalog, or every problem of its tools and profiles, in the order servers, tools, profiles, tokens.

    `tokens` are the digests of those that stand outside of `config`, by profile; `signatures` those of tools that are
    functions, by tool. The schemas of the tools of `described` APIs are known to be such as can be compiled.
    """
    config, own, wrong = _without_tokens(config, tokens)
    config = tagged_by_apis(config)
    servers, warnings, problems = build_servers(config)
    apis = build_apis(config)
    sound = frozenset(tool for api in described.values() for tool in api.tools)
    tools, processes, wrong_tools = build_tools(config, servers, signatures, apis, sound)
    traits = declared_traits(config, servers, {name: tool.rest.hints for name, tool in tools.items() if tool.rest})
    profiles, unknown = build_profiles(config, servers, traits)
    problems += [*apis.problems, *wrong_tools, *alias_problems(config), *unknown, *find_cycles(config), *wrong]
    placed = [(path_of(name, config, servers), binding.spec) for name, binding in servers.items()]
    problems += queue_problems(config, placed)
    owned = [
        (path, ("mcp", binding.name), binding.spec) for (path, _), binding in zip(placed, servers.values(), strict=True)
    ]
    rules, wrong_rules = compile_rules(config, {name: tool.input_schema for name, tool in tools.items()}, owned)
    problems += [*wrong_rules, *approver_problems(config)]
    problems += [*hook_problems(config.hooks), *_misfit_hooks(config, signatures)]
    problems += caching_problems(config, tools, placed)
    # What is not there, or wrong in itself, has been told.
    problems = problems or [
        *workspace_problems(config, profiles, servers),
        *find_deadlocks(config, profiles, servers),
    ]
    if problems:
        _free(tools)
        return problems
    warnings = [*warnings, *apis.warnings, *disabled_uses(config, servers), *unrun_agents(config)]
    warnings += doubted_names(config, servers)
    warnings += [*_idle_workspaces(config), *_open_powers(config, profiles, {**tokens, **own})]
    warnings += [*_idle_hooks(config, servers), *caching_warnings(config.mcp)]
    warnings += [f"tools.{each.name}: not checked is its {what}" for each in tools.values() for what in each.unchecked]
    specs: dict[str, bytes] = {}
    if config.agent_command is not None:
        declared, _ = build_types(config.types)
        agents_run = (each for each in processes.values() if each.kind == "agent" and each.spec.command is None)
        specs = {agent.name: _agent_spec(agent, declared, servers) for agent in agents_run}
    told = (config, tools, profiles, processes, servers, tuple(warnings), {**tokens, **own}, specs)
    catalog = Catalog(*told, aliases=aliases_of(config), apis=dict(apis.apis), described=dict(described), traits=traits)
    return msgspec.structs.replace(catalog, rules=rules)


def _without_tokens(config: Config, tokens: Mapping[str, bytes]) -> tuple[Config, dict[str, bytes], list[Problem]]:
    """The configuration without its tokens, their digests by profile, and what is wrong with any."""
    own: dict[str, bytes] = {}
    problems: list[Problem] = []
    for path, profile in config.profile_tables().items():
        name = path[1]
        if profile.token is not None:
            own[name] = digest_of(profile.token)
            why = token_problem(profile.token)
            problems += [Problem((*path, "token"), why)] if why else []
        elif (profile.token_env is not None or profile.token_file is not None) and name not in tokens:
            # It would be open to everyone.
            problems.append(Problem(path, "its token has not been read"))
    agents = {name: msgspec.structs.replace(profile, token=None) for name, profile in config.agents.items()}
    processes = {name: msgspec.structs.replace(process, token=None) for name, process in config.processes.items()}
    without = msgspec.structs.replace(config, agents=agents, processes=processes) if own else config
    return without, own, problems


def _free(tools: dict[str, DeclaredTool]) -> None:
    """One after the other: freeing all at once keeps the interpreter's lock, for which a daemon's loop waits."""
    while tools:
        tools.popitem()


def _misfit_hooks(config: Config, signatures: Mapping[str, Signature]) -> Iterator[Problem]:
    """A problem for each function of a hook that cannot be called with a call alone."""
    for tool in tools_of(config.hooks):
        schema = signatures[tool].input_schema if tool in signatures else {"required": ["call"]}
        if schema.get("required") != ["call"]:
            why = "a hook's function is called with one argument, call"
            yield Problem(("tools", tool, "python"), why, allowed="def NAME(call): …")


def _idle_hooks(config: Config, servers: Mapping[str, Binding]) -> Iterator[str]:
    """A sentence for each hook that no tool is asked about."""
    asked = tools_of(config.hooks)
    prefixes = [binding.prefix for binding in servers.values()]
    return idle_hooks(config.hooks, (name for name in config.tools if name not in asked), prefixes)


def _open_powers(config: Config, profiles: Mapping[str, Profile], tokens: Mapping[str, bytes]) -> Iterator[str]:
    """A sentence for each profile that has power over others, and for which no token is needed."""
    asked = {spec.approver for spec in config.profile_tables().values()}
    for name, profile in profiles.items():
        table = "processes" if name in config.processes and name not in config.agents else "agents"
        if name in tokens or (table == "processes" and not profile.is_bound):
            continue
        bound = "any process of its uid or gid, a tool's of this daemon too,"
        opener = bound if profile.is_bound else "whoever can open the socket"
        if profile.admin:
            yield f"{table}.{name}: admin = true without a token: {opener} may administer the daemon"
        if name in asked:
            allows = "may allow the calls of others, and of its own other agents, and sees their inputs"
            yield f"{table}.{name}: approver = true without a token: {opener} {allows}"


def _idle_workspaces(config: Config) -> list[str]:
    """A sentence for each profile that has a workspace, and names nothing that could work there."""
    return [
        f"agents.{name}: it has a workspace and offers nothing: say what in tools, toolboxes, mcp or allow"
        for name, profile in config.agents.items()
        if profile.workspace is not None
        and not (profile.tools or profile.mcp or profile.allow is not None or profile.deny)
    ]


def _agent_spec(process: Process, declared: Declared, servers: Mapping[str, Binding]) -> bytes:
    """What an agent is told that `agent_command` runs: a JSON object with those keys of its table that say what it is.

    `input_schema` and `output_schema` are of one message; `tools` and `mcp` name what its profile offers, and are left
    out where it has none. Nothing of how a server is reached stands in it, and so no credential.
    """
    spec = process.spec
    source, target = process.arrow or (JSON, JSON)
    told: dict[str, object] = {
        "name": process.name,
        "type": process.type_text,
        "description": spec.description,
        "prompt": spec.prompt,
        "model": spec.model,
        "input_schema": to_schema(strip_stream(source, declared), declared),
        "output_schema": to_schema(strip_stream(target, declared), declared),
        "tools": None if spec.tools is None else list(spec.tools),
        "mcp": None if spec.mcp is None else [binding_of(server, servers) for server in spec.mcp],
        "options": spec.options,
    }
    return msgspec.json.encode({key: value for key, value in told.items() if value is not None})
