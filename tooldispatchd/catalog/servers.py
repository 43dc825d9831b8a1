"""Servers as bindings: those of `[mcp]`, and the anonymous ones, which stand where a tool or an agent uses them. Pure.

Equal servers are one binding, so that a session opens one connection for them: the same URL once it is written in one
way, or the same command, and all other keys equal too. Two tables of `[mcp]` stay two, since each was given a name.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec import UNSET

from tooldispatchd.catalog.confinement import problems_of
from tooldispatchd.catalog.names import default_prefix, nearest, unique_prefixes
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.serverchecks import check_server, credential_warning
from tooldispatchd.catalog.serverurls import URL_ALLOWED, host_of, is_meant_as_url, normal_url
from tooldispatchd.catalog.specs import Config, McpSpec, Server, ToolSpec

# What is said of a name that none of the bindings has.
NO_SUCH_SERVER: Final = "no such server in [mcp]"


class ServerCredentials(msgspec.Struct, frozen=True):
    """What the daemon shows to a server behind a URL, as it was read when the configuration was.

    `headers` are the configured ones and the bearer token's, in the order in which they are sent; `client_secret` and
    `private_key` (PEM) are those of its `oauth`.
    """

    headers: tuple[tuple[str, str], ...] = ()
    client_secret: str | None = None
    private_key: str | None = None

    def __repr__(self) -> str:
        """The names of the headers; all else is secret."""
        parts = [f"headers={[name for name, _ in self.headers]}"] if self.headers else []
        parts += [f"{key}=…" for key in ("client_secret", "private_key") if getattr(self, key) is not None]
        return f"ServerCredentials({', '.join(parts)})"


_NO_CREDENTIALS: Final = ServerCredentials()


class Binding(msgspec.Struct, frozen=True):
    """A server that may be used: `name` stands in logs and faults, and no two have the same.

    `prefix` is what stands before the colon in its tools' names, "" where they are offered as they are; it is None for
    an anonymous server that states none, and known once the server has said its name. A URL in `spec` is normalised.
    `credentials` are empty until they are read, which is not done here, and for a command.
    """

    name: str
    spec: McpSpec
    prefix: str | None
    credentials: ServerCredentials = _NO_CREDENTIALS


class ServerTool(msgspec.Struct, frozen=True):
    """The tool of a server that a declared tool is: the binding's name, and what that server calls the tool."""

    binding: str
    tool: str


def build_servers(config: Config) -> tuple[dict[str, Binding], list[str], list[Problem]]:
    """Every binding by its name, those of `[mcp]` first; warnings for the log; and all that is wrong.

    That covers every use of a server but those before a colon in a profile's `tools`.
    """
    builder = _ServersBuilder(config)
    servers = builder.build()
    return servers, builder.warnings, builder.problems


def binding_of(reference: Server, servers: Mapping[str, Binding]) -> str:
    """The name of the binding that is meant, of those that `build_servers` gave for the same configuration.

    For a text that is neither a name nor a URL it is the text itself, of which `build_servers` has told.
    """
    spec = _spec_of(reference)
    if spec is None:
        return str(reference)
    return next((name for name, binding in servers.items() if binding.spec == spec), str(reference))


def path_of(name: str, config: Config, servers: Mapping[str, Binding]) -> Path:
    """Where the table of the binding `name` stands: in `[mcp]`, or where it is used first."""
    if name in config.mcp:
        return "mcp", name
    return next(path for path, reference in _references(config) if binding_of(reference, servers) == name)


def server_tool(name: str, spec: ToolSpec, servers: Mapping[str, Binding]) -> ServerTool | None:
    """What the declared tool `name` is at its server; None for one that has no `mcp`."""
    if spec.mcp is None:
        return None
    return ServerTool(binding_of(spec.mcp, servers), spec.name or name)


def _spec_of(reference: Server) -> McpSpec | None:
    """An anonymous server's table, its URL normalised; None for what is meant as a name."""
    if isinstance(reference, McpSpec):
        return _normal(reference)
    url = normal_url(reference)
    return None if url is None else McpSpec(url=url)


def _normal(spec: McpSpec) -> McpSpec:
    """The table with its URL normalised; one that is none stays, and is a problem."""
    url = None if spec.url is None else normal_url(spec.url)
    return spec if url is None or url == spec.url else msgspec.structs.replace(spec, url=url)


def _own_name(spec: McpSpec) -> str:
    """What an anonymous server is called after: its command's last part, or its URL's host."""
    if spec.command is not None:
        # Who writes a whole line there, against the rule, may have put anything into it.
        program = spec.command.split(maxsplit=1)[0] if spec.command.strip() else ""
        return default_prefix(program.rpartition("/")[2])
    return default_prefix(host_of(spec.url or ""))


def _references(config: Config) -> Iterator[tuple[Path, Server]]:
    """Every use of a server, and where it stands."""
    for name, tool in config.tools.items():
        if tool.mcp is not None:
            yield ("tools", name, "mcp"), tool.mcp
    for name, process in config.processes.items():
        for index, server in enumerate(process.mcp or ()):
            yield ("processes", name, "mcp", index), server
    for name, profile in config.agents.items():
        for index, server in enumerate(profile.mcp):
            yield ("agents", name, "mcp", index), server


class _ServersBuilder:
    """Collects bindings, and what is wrong with them."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.warnings: list[str] = []
        self.problems: list[Problem] = []
        # Where each stands, and its table: named ones, then the others.
        self._named: dict[str, tuple[Path, McpSpec]] = {
            name: (("mcp", name), _normal(spec)) for name, spec in config.mcp.items()
        }
        self._anonymous: list[tuple[Path, McpSpec]] = []

    def build(self) -> dict[str, Binding]:
        for path, spec in self._named.values():
            self._check(path, spec)
        for path, reference in _references(self._config):
            self._add(path, reference)
        servers = self._bind()
        self._check_denied(servers)
        return servers

    def _add(self, path: Path, reference: Server) -> None:
        if isinstance(reference, str) and reference in self._named:
            return
        spec = _spec_of(reference)
        if spec is None:
            self._refuse_name(path, str(reference))
        elif all(spec != other for _, other in [*self._named.values(), *self._anonymous]):
            self._check(path, spec)
            self._anonymous.append((path, spec))

    def _refuse_name(self, path: Path, reference: str) -> None:
        if is_meant_as_url(reference):
            self.problems.append(Problem(path, "this is no URL that can be used", allowed=URL_ALLOWED))
            return
        # What looks like an address may hold a password.
        value = UNSET if "@" in reference or "/" in reference else reference
        close = nearest(reference, self._config.mcp)
        self.problems.append(Problem(path, NO_SUCH_SERVER, value=value, nearest=close))

    def _check(self, path: Path, spec: McpSpec) -> None:
        self.problems.extend((*check_server(path, spec), *problems_of(spec, path)))
        warning = credential_warning(spec)
        if warning is not None:
            self.warnings.append(f"{_dotted(path)}: {warning}")

    def _bind(self) -> dict[str, Binding]:
        """Names and prefixes for all; a taken one gets the next free number."""
        names = unique_prefixes([*self._named, *(_own_name(spec) for _, spec in self._anonymous)])
        placed = dict(zip(names, [*self._named.values(), *self._anonymous], strict=True))
        wanted = {name: name if spec.prefix is None else spec.prefix for name, (_, spec) in placed.items()}
        # Who states no prefix and has no name of its own is called what it calls itself.
        unknown = [name for name, (_, spec) in placed.items() if spec.prefix is None and name not in self._named]
        for name in unknown:
            del wanted[name]
        prefixes = dict(zip(wanted, unique_prefixes(wanted.values()), strict=True))
        for name, prefix in prefixes.items():
            if prefix != wanted[name]:
                where = f'{_dotted(placed[name][0])}: prefix "{wanted[name]}" is taken'
                self.warnings.append(f'{where}, its tools are offered as "{prefix}:…"')
        return {name: Binding(name, spec, prefixes.get(name)) for name, (_, spec) in placed.items()}

    def _check_denied(self, servers: Mapping[str, Binding]) -> None:
        for name, spec in self._config.tools.items():
            tool = server_tool(name, spec, servers)
            binding = None if tool is None else servers.get(tool.binding)
            if tool is not None and binding is not None and tool.tool in binding.spec.deny:
                path: Path = ("tools", name, "name" if spec.name else "mcp")
                self.problems.append(Problem(path, f"the server's deny takes {tool.tool} away"))


def _dotted(path: Path) -> str:
    """A path as people write it: `processes.writer.mcp[0]`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
