"""Servers as bindings: those of `[mcp]`, and the anonymous ones, which stand where a tool or an agent uses them. Pure.

Equal servers are one binding, so that a session opens one connection for them: the same URL once it is written in one
way, or the same command, and all other keys equal too. Two tables of `[mcp]` stay two, since each was given a name.

First the URLs, each in its one way of being written; then which keys of one table contradict one another, told without
a value, since what stands at the wrong key may be a secret; then the bindings.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec import UNSET

from tooldispatchd.catalog.confinement import KEYS, problems_of
from tooldispatchd.catalog.names import default_prefix, nearest, prefix_taken, split_name, unique_prefixes
from tooldispatchd.catalog.problems import Path, Problem, dotted
from tooldispatchd.catalog.serverdenials import ServerDenials
from tooldispatchd.catalog.specs import Config, McpSpec, OAuthSpec, Server, ToolSpec

# --- URLs ---

# What browsers and proxies take; a longer one is no address.
MAX_URL_CHARS: Final = 2048
URL_ALLOWED: Final = "http(s):// or ws(s)://, a host and no user, then a port, a path and a query where there are any"

_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_SCHEMES: Final = tuple(f"{scheme}://" for scheme in _PORTS)
# RFC 3986, without a user and a password: a token has a key of its own.
_CHARS: Final = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*"
_QUERY_CHARS: Final = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*"
_URL: Final = re.compile(
    r"(?P<scheme>[A-Za-z]+)://(?P<host>[A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?"
    rf"(?P<path>/{_CHARS})?(?P<query>\?{_QUERY_CHARS})?(?:#{_QUERY_CHARS})?"
)
# RFC 6761, 6.3, and RFC 1122, 3.2.1.3; no name is looked up here.
_LOOPBACK: Final = re.compile(r"(.+\.)?localhost|127\.[0-9.]+|\[(0{0,4}:)+0{0,3}1\]")


def normal_url(text: str) -> str | None:
    """A URL of one of the four schemes in its one way of being written, or None where the text is none.

    Scheme and host in lower case, no default port, no fragment, and `/` for an empty path (RFC 3986, 6.2).
    """
    found = _URL.fullmatch(text) if len(text) <= MAX_URL_CHARS else None
    if found is None:
        return None
    scheme, host = found["scheme"].lower(), found["host"].lower()
    port = None if found["port"] is None else int(found["port"])
    if scheme not in _PORTS or (port is not None and not 0 < port < 1 << 16):
        return None
    shown = "" if port is None or port == _PORTS[scheme] else f":{port}"
    return f"{scheme}://{host}{shown}{found['path'] or '/'}{found['query'] or ''}"


def is_meant_as_url(text: str) -> bool:
    """Whether a text begins as a URL does, so that it is no name, whether or not it can be used."""
    return text.lower().startswith(_SCHEMES)


def host_of(url: str) -> str:
    """The host of a URL, in brackets where it is an IPv6 address; "" where it is no URL."""
    found = _URL.fullmatch(url)
    return "" if found is None else found["host"].lower()


def scheme_of(url: str) -> str:
    """`http`, `https`, `ws` or `wss` for a normal URL."""
    return url.partition(":")[0]


def is_readable_on_the_way(url: str) -> bool:
    """Whether what goes to a normal URL is neither encrypted nor stays on this machine."""
    return scheme_of(url) in {"http", "ws"} and _LOOPBACK.fullmatch(host_of(url)) is None


def without_query(url: str) -> str:
    """A URL as it may be shown: keys of an interface are handed out in queries."""
    return url.partition("#")[0].partition("?")[0]


# --- the keys of one table ---

# What starts a child, and means nothing where a server runs already.
COMMAND_ONLY: Final = ("args", "env", "cwd", *KEYS)
# What goes over the network, and means nothing to a child.
URL_ONLY: Final = (
    *("transport", "headers", "token", "token_env", "token_file", "auth", "oauth"),
    *("ca", "cert", "key", "hosts", "private"),
)
NO_WAY: Final = "a server has command or url, this one has neither"
TOKENS: Final = ("token", "token_env", "token_file")
CLIENT_SECRETS: Final = ("client_secret_env", "client_secret_file")
# Fields that say how a message is framed, or that the protocol itself sets: two of one would be two truths.
OWNED_HEADERS: Final = frozenset(
    {
        *("host", "connection", "upgrade", "content-length", "content-type", "transfer-encoding", "accept"),
        *("mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name", "last-event-id"),
    }
)
_OWNED_PREFIXES: Final = ("mcp-param-", "sec-websocket-")
# A PAT is a personal access token; a path is none.
_SENSITIVE: Final = r"auth|cookie|key|token|secret|password|credential|(?<![a-z])pat(?![a-z])"
_SECRET_NAME: Final = re.compile(_SENSITIVE, re.IGNORECASE)
# The name's end counts: `--max-tokens` and `--author` say something else.
_SECRET_OPTION: Final = re.compile(rf"--?[a-z0-9_-]*(?:{_SENSITIVE})", re.IGNORECASE)
# One-shot agents of a person come again within minutes.
KEPT_S: Final = 300.0
_SOURCES: Final = '"token", "token_env" or "token_file"'
# Which keys of `oauth` a grant needs, and which only one grant has.
_NEEDED: Final = {
    "authorization_code": (),
    "client_credentials": ("client_id",),
    "private_key_jwt": ("client_id", "private_key_file"),
}
_ONLY_OF: Final = {
    "private_key_file": ("private_key_jwt",),
    "algorithm": ("private_key_jwt",),
    "client_metadata_url": ("authorization_code",),
    "redirect_port": ("authorization_code",),
    **dict.fromkeys(CLIENT_SECRETS, ("authorization_code", "client_credentials")),
}


def check_server(path: Path, spec: McpSpec) -> Iterator[Problem]:
    """Every way in which the keys of the table at `path` do not go together."""
    yield from _check_way(path, spec)
    if spec.url is not None:
        yield from _check_credentials(path, spec)
    yield from host_problems(path, spec.hosts)
    if spec.shared and spec.on_timeout == "dead":
        why = "a shared connection lives on when one agent's call takes too long"
        yield Problem((*path, "on_timeout"), why, value=spec.on_timeout, allowed='"cancel", or no shared')
    if spec.keep_s and not spec.shared:
        why = "a server that each agent has for itself ends with it"
        yield Problem((*path, "keep_s"), why, value=spec.keep_s, allowed="shared = true, or spare in its place")
    if spec.spare and (spec.shared or spec.lazy):
        why = "there is one for all agents" if spec.shared else "a lazy server starts with the first call"
        yield Problem((*path, "spare"), why, value=spec.spare, allowed="neither shared nor lazy")
    yield from problems_of(spec, path)


def kept_s(spec: McpSpec) -> float:
    """How long a server stays without an agent, in seconds."""
    return (KEPT_S if spec.keep_s is None else spec.keep_s) if spec.shared else 0.0


def host_problems(path: Path, hosts: tuple[str, ...]) -> Iterator[Problem]:
    """Each of the `hosts` of a table whose port is none."""
    for index, host in enumerate(hosts):
        if ":" in host and not 0 < int(host.partition(":")[2]) < 1 << 16:
            allowed = "HOST, or HOST:PORT with a port of 1 to 65535"
            yield Problem((*path, "hosts", index), "no such port", allowed=allowed)


def credential_warning(spec: McpSpec) -> str | None:
    """What is to be said of a server to whose URL a secret goes for everyone on the way to read, else None."""
    # As far as the names of headers tell.
    has_secret = bool(_stated(spec, TOKENS)) or spec.auth is not None or _has_secret_header(spec)
    if not has_secret or not spec.enabled or spec.url is None or not is_readable_on_the_way(spec.url):
        return None
    scheme = scheme_of(spec.url)
    return f"its credentials go over {scheme}://, where others may read them; {scheme}s:// encrypts them"


def credential_kinds(spec: McpSpec) -> list[str]:
    """What kinds of things are shown to the server behind a URL that identify the daemon; no header's name."""
    kinds = ["token"] if _stated(spec, TOKENS) else []
    kinds += ["headers"] if _has_secret_header(spec) else []
    kinds += [f"oauth {(spec.oauth or OAuthSpec()).grant}"] if spec.auth is not None else []
    return [*kinds, *(["client certificate"] if spec.cert is not None else [])]


def may_be_secret(name: str) -> bool:
    """Whether the name of a header or a variable is one under which secrets stand."""
    return _SECRET_NAME.search(name) is not None


def is_secret_option(word: str) -> bool:
    """Whether a program's option is one behind which a secret stands, as `--api-key`."""
    return _SECRET_OPTION.fullmatch(word) is not None


def _has_secret_header(spec: McpSpec) -> bool:
    return any(map(may_be_secret, spec.headers))


def _check_way(path: Path, spec: McpSpec) -> Iterator[Problem]:
    """Exactly one of `command` and `url`, and what belongs to it."""
    ways = [way for way in ("command", "url") if getattr(spec, way) is not None]
    if len(ways) != 1:
        yield Problem(path, "a server has command or url, this one has both" if ways else NO_WAY)
    if spec.url is None:
        for key in _stated(spec, URL_ONLY):
            yield Problem((*path, key), f"only a server with url has {key}")
        return
    for key in _stated(spec, COMMAND_ONLY) if ways == ["url"] else ():
        yield Problem((*path, key), f"only a server with command has {key}")
    url = normal_url(spec.url)
    if url is None:
        yield Problem((*path, "url"), "this is no URL that can be used", allowed=URL_ALLOWED)
        return
    is_web = scheme_of(url) in {"http", "https"}
    if not is_web and spec.transport != "auto":
        yield Problem((*path, "transport"), "only an http:// or https:// URL has a choice", value=spec.transport)
    elif spec.transport == "sse" and spec.protocol == "2026-07-28":
        why = "this revision has no HTTP+SSE"
        yield Problem((*path, "protocol"), why, value=spec.protocol, allowed='an older one, or transport = "http"')
    if not is_web and spec.auth is not None:
        yield Problem((*path, "auth"), "only an http:// or https:// URL says where tokens are given out")


def _check_credentials(path: Path, spec: McpSpec) -> Iterator[Problem]:
    tokens = _stated(spec, TOKENS)
    for key in tokens[1:]:
        yield Problem((*path, key), f'"{tokens[0]}" says already where the token is', allowed=f"one of {_SOURCES}")
    if spec.auth is not None and tokens:
        yield Problem((*path, "auth"), f'"{tokens[0]}" says already where the token is', allowed=f"auth, or {_SOURCES}")
    if spec.key is not None and spec.cert is None:
        yield Problem((*path, "key"), "a key belongs to a cert, and this server has none")
    if spec.oauth is not None:
        if spec.auth is None:
            yield Problem((*path, "oauth"), "these are the particulars of auth", allowed='auth = "oauth" beside it')
        yield from _check_oauth((*path, "oauth"), spec.oauth)
    seen: set[str] = set()
    for name in spec.headers:
        low, header = name.lower(), (*path, "headers", name)
        if low in OWNED_HEADERS or low.startswith(_OWNED_PREFIXES):
            yield Problem(header, "the transport sets this header itself")
        if low == "authorization" and (spec.auth is not None or tokens):
            other = "auth" if spec.auth is not None else tokens[0]
            yield Problem(header, f'"{other}" sets this header already')
        if low in seen:
            yield Problem(header, "this header stands here twice: capitals make no difference")
        seen.add(low)


def _check_oauth(path: Path, oauth: OAuthSpec) -> Iterator[Problem]:
    """What the grant needs and has not, and what it has and cannot use."""
    grant = oauth.grant
    needed = [f'"{key}"' for key in _NEEDED[grant] if getattr(oauth, key) is None]
    secrets = _stated(oauth, CLIENT_SECRETS)
    if grant == "client_credentials" and not secrets:
        needed.append('one of "client_secret_env" and "client_secret_file"')
    if needed:
        yield Problem(path, f"grant {grant} needs {' and '.join(needed)}")
    for key, grants in _ONLY_OF.items():
        if grant not in grants and _stated(oauth, (key,)):
            yield Problem((*path, key), f"it means nothing with grant {grant}", allowed=f"with {' and '.join(grants)}")
    if len(secrets) > 1:
        yield Problem((*path, secrets[1]), f'"{secrets[0]}" says already where the secret is')
    if grant == "authorization_code" and secrets and oauth.client_id is None:
        yield Problem((*path, secrets[0]), "a secret belongs to a client_id, and there is none")
    url = oauth.client_metadata_url
    if url is not None and (normal_url(url) is None or not url.lower().startswith("https://")):
        yield Problem((*path, "client_metadata_url"), "this is no URL that can be used", allowed="an https:// URL")
    if url is not None and oauth.client_id is not None and grant == "authorization_code":
        yield Problem((*path, "client_metadata_url"), '"client_id" says already which client the daemon is')


def _stated(spec: McpSpec | OAuthSpec, keys: tuple[str, ...]) -> list[str]:
    """Those of `keys` that say something else than their defaults."""
    bare = type(spec)()
    return [key for key in keys if getattr(spec, key) != getattr(bare, key)]


# --- bindings ---

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
    wanted_prefix: str | None = None
    """The prefix that it should have had, where another server has that."""
    left_out: str | None = None
    """Why it cannot be used, where another client's file has it so that it cannot be understood."""

    @property
    def prefixes(self) -> tuple[str, ...]:
        """What may stand before the names of its tools."""
        return tuple(dict.fromkeys(filter(None, (self.name, self.prefix))))

    @property
    def denials(self) -> ServerDenials:
        """What its own table takes away."""
        return ServerDenials(self.spec.deny, self.prefixes)


class ServerTool(msgspec.Struct, frozen=True):
    """The tool of a server that a declared tool is: the binding's name, and what that server calls the tool."""

    binding: str
    tool: str


def build_servers(config: Config) -> tuple[dict[str, Binding], list[str], list[Problem]]:
    """Every binding by its name, those of `[mcp]` first; warnings for the log; and all that is wrong.

    That covers every use of a server but those before a colon in a profile's `tools`.
    """
    placed: list[tuple[Path, McpSpec]] = [(("mcp", name), _normal(spec)) for name, spec in config.mcp.items()]
    problems = [problem for path, spec in placed for problem in check_server(path, spec)]
    for path, reference in _references(config):
        if isinstance(reference, str) and reference in config.mcp:
            continue
        spec = _spec_of(reference)
        if spec is None and is_meant_as_url(str(reference)):
            problems.append(Problem(path, "this is no URL that can be used", allowed=URL_ALLOWED))
        elif spec is None:
            name = str(reference)
            # What looks like an address may hold a password.
            value = UNSET if "@" in name or "/" in name else name
            problems.append(Problem(path, NO_SUCH_SERVER, value=value, nearest=nearest(name, config.mcp)))
        elif all(spec != other for _, other in placed):
            problems += check_server(path, spec)
            placed.append((path, spec))
    servers, warnings = _bind(placed, config)
    problems += [problem for name in config.mcp for problem in _prefixed_names(servers[name])]
    for name, tool in config.tools.items():
        meant = server_tool(name, tool, servers)
        binding = None if meant is None else servers.get(meant.binding)
        if meant is not None and binding is not None and binding.denials.admits(meant.tool):
            key = "name" if tool.name else "mcp"
            problems.append(Problem(("tools", name, key), f"the server's deny takes {meant.tool} away"))
    return servers, warnings, problems


def _prefixed_names(server: Binding) -> Iterator[Problem]:
    """Report each name in the server's own lists that has its prefix: it would stand for no tool."""
    for key in ("tools", "allow", "deny", "read_only", "idempotent"):
        for index, entry in enumerate(getattr(server.spec, key) or ()):
            prefix, tool = split_name(entry)
            # A name may have two colons together, as those of C++ and Rust have.
            if prefix in server.prefixes and not tool.startswith(":"):
                why = "a server's own lists have the names of its tools without a prefix"
                yield Problem(("mcp", server.name, key, index), why, value=entry, nearest=tool)


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


def _bind(placed: list[tuple[Path, McpSpec]], config: Config) -> tuple[dict[str, Binding], list[str]]:
    """Names and prefixes for all tables, those of `[mcp]` first; a taken one gets the next free number."""
    warnings = [f"{dotted(path)}: {warning}" for path, spec in placed if (warning := credential_warning(spec))]
    called = list(config.mcp)
    for _, spec in placed[len(config.mcp) :]:
        # After its command's last part, or its URL's host. Against the rule a whole command line may stand there, with
        # a secret in it.
        words = [host_of(spec.url or "")] if spec.command is None else spec.command.split()
        called.append(default_prefix(words[0].rpartition("/")[2] if words else ""))
    by_name = dict(zip(unique_prefixes(called), placed, strict=True))
    # An anonymous server without a prefix gets the name that it gives itself.
    wanted = {
        name: name if spec.prefix is None else spec.prefix
        for name, (_, spec) in by_name.items()
        if name in config.mcp or spec.prefix is not None
    }
    prefixes = dict(zip(wanted, unique_prefixes(wanted.values()), strict=True))
    for name, prefix in prefixes.items():
        if prefix != wanted[name]:
            warnings.append(f"{dotted(by_name[name][0])}: {prefix_taken(wanted[name], prefix)}")
    bindings = {
        name: Binding(
            name,
            spec,
            prefixes.get(name),
            wanted_prefix=None if prefixes.get(name) == wanted.get(name) else wanted[name],
        )
        for name, (_, spec) in by_name.items()
    }
    return bindings, warnings
