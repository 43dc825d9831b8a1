"""The configuration as values: what each table and key means, its type and its default.

`config.configuration` parses a TOML file into `Config`; past that, values are typed and trusted. Every limit states
where its number comes from.

`${VAR}`, `${VAR:-default}` and `$$` (a dollar) are expanded in `daemon.listen`, `plumb` and `mcp_json`, in `command`,
`args` (but with `input_mode = "args"`), `env` (its values) and `cwd` of servers and tools, in `venv`, `read` and
`write`, in `url`, `headers` (their values), `ca`, `cert` and `key` of servers, in `roots` of profiles and in every key
that names a file with a secret, and nowhere else. In the same keys a relative path (a socket's, a `cwd`, a command with
a slash in it, a file's, a root) starts at the directory of the configuration file: a service has no other directory
that its author would expect. Past `config.configuration` all of them are absolute, roots are `file://` URIs, users and
groups are numbers, and no profile's token is left. A `~` means nothing.
"""

from typing import Annotated, Literal

from msgspec import Meta

from tooldispatchd.catalog.confined import ConfinedSpec
from tooldispatchd.catalog.secrecy import Secret, SecretChoice, SecretFile, SecretVariable, Spec
from tooldispatchd.catalog.speckinds import (
    KIB,
    MIB,
    PREFIX_PATTERN,
    PYTHON_PATTERN,
    TIB,
    Argv,
    Binding,
    Count,
    EnvName,
    HeaderName,
    HeaderValue,
    HostPort,
    Name,
    Owners,
    Seconds,
    ServerToolName,
    Size,
    SomeWord,
    Word,
)


class DaemonSpec(Spec, frozen=True, kw_only=True):
    """`[daemon]`: where agents come in, and how long running calls have at the end."""

    listen: tuple[SomeWord, ...] = ()
    """Ways in, as `config.listen_values` writes them; `serve --listen` stands in its place."""
    grace_s: Annotated[float, Meta(ge=0, le=3600)] = 10.0
    """What running calls have after SIGTERM; with the teardown it stays well under systemd's 90 s."""


class LimitsSpec(Spec, frozen=True, kw_only=True):
    """`[limits]`: every bound that a site may want to move."""

    call_s: Seconds = 60.0
    """One call, from its start to its answer; what MCP clients commonly use."""
    handshake_s: Seconds = 30.0
    """One MCP server, from spawn to its list of tools; package runners that install first need most of it."""
    max_line_bytes: Annotated[int, Meta(ge=4 * KIB, le=TIB)] = 8 * MIB
    """One line of an agent; a document or an image in base64 fits."""
    max_content_bytes: Annotated[int, Meta(ge=4 * KIB, le=TIB)] = 64 * MIB
    """One answer of a tool, and one line of an MCP server; far more than a model can read."""
    in_flight: Count = 256
    """Calls of one agent that run at once; more than a model asks for in one turn, few enough to hurt nobody."""
    waiting: Count = 1024
    """Calls of one agent that wait for a place; more get `queue_full`. Room for a burst, not for a runaway."""
    processes: Count | None = None
    """Calls of `command` and `python` tools at once in the whole daemon, and as many of agent processes at each level,
    since these may wait for the others; by default four a core: more only wait."""
    mcp_opening: Count = 16
    """MCP servers that start at once in the whole daemon; each is a burst of CPU."""
    out_buffer_bytes: Annotated[int, Meta(ge=4 * KIB, le=TIB)] = 1 * MIB
    """Answers that lie unread in one channel before its reading stops; many times what a socket holds."""
    stalled_s: Seconds = 120.0
    """How long a channel over that bound may take nothing before it is dropped; who is alive reads long before."""
    buffered_bytes: Annotated[int, Meta(ge=1 * MIB, le=TIB)] = 512 * MIB
    """All that is kept for agents and servers together: half lines, unread answers, inputs of calls, results of jobs,
    what servers say and are sent, and the schemas of their tools. One channel has a third at most, one user half: room
    for the largest answer. Over it the greediest gets `too_many`."""
    connections: Count = 20_000
    """Channels at once; each is a descriptor, and about two kilobytes while it is idle."""
    sessions: Count = 20_000
    """Agents at once, many of which may share a channel; as many as there are channels."""
    sessions_per_uid: Count = 1_000
    """Agents, and channels, of one user at once that is neither the daemon's own nor root; 20 users fill `sessions`."""
    lines_per_s: Count = 500_000
    """Lines of one channel in a second; more calls than one core answers, so that only a flood of what is not a call,
    or of calls that nobody waits for, meets it. A channel may carry thousands of agents."""
    in_flight_bytes: Annotated[int, Meta(ge=4 * KIB, le=TIB)] = 64 * MIB
    """Inputs of one agent's calls that have no answer yet; eight of the longest lines."""
    jobs: Count = 1024
    """Background jobs of one agent that run or are unread; as many as may wait for a place."""
    job_bytes: Annotated[int, Meta(ge=4 * KIB, le=TIB)] = 64 * MIB
    """Results of one agent's jobs that it has not read yet; one of the largest answers."""
    agent_depth: Annotated[int, Meta(ge=0, le=16)] = 1
    """How deep agents may call agents below the one that came in from outside; 0 leaves agent processes without tools.
    Each level multiplies what one call may set going."""


class OAuthSpec(Spec, frozen=True, kw_only=True):
    """`oauth` of a server with `auth = "oauth"`: who the daemon is to the authorization server."""

    grant: Literal["authorization_code", "client_credentials", "private_key_jwt"] = "authorization_code"
    """`authorization_code` needs a person once, at `tooldispatchd login`; the others need none."""
    client_id: Secret[SomeWord] | None = None
    """The client as it was registered; without one the daemon registers itself, where the server lets it."""
    client_secret_env: SecretVariable[SomeWord] | None = None
    """The variable of the daemon's environment that holds the client's secret. At most one of it and the file."""
    client_secret_file: SecretFile[SomeWord] | None = None
    """The file that holds the client's secret; a newline at its end does not count."""
    client_metadata_url: Secret[SomeWord] | None = None
    """The https URL of the client's own metadata document, for servers that know clients by it."""
    private_key_file: SecretFile[SomeWord] | None = None
    """The PEM file of the key that signs a `private_key_jwt`."""
    algorithm: Literal["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"] = "RS256"
    """How a `private_key_jwt` is signed."""
    scopes: tuple[Secret[SomeWord], ...] = ()
    """What is asked for; by default what the server says that it needs."""
    redirect_port: Annotated[int, Meta(ge=1, le=65_535)] | None = None
    """The port of the loopback redirect, where the client is registered with a fixed one."""


class McpSpec(ConfinedSpec, frozen=True, kw_only=True):
    """`[mcp.NAME]`: an MCP server of its own for each agent that uses it; exactly one of `command` and `url`.

    Where a tool or an agent uses a server, such a table may also stand in the place of a binding's name. The program of
    a `shared` server keeps to this table alone, that of any other to its agent's profile too.
    """

    command: Secret[SomeWord] | None = None
    """The program: a name looked for in `PATH`, or a path."""
    url: Secret[SomeWord] | None = None
    """Where a server is that runs already: `http://`, `https://`, `ws://` or `wss://`."""
    transport: Literal["auto", "http", "sse"] = "auto"
    """How an http URL is spoken to: Streamable HTTP, or the older pair of a stream and an endpoint. `auto` begins with
    the first and goes over to the other where the server refuses it."""
    headers: dict[HeaderName, Secret[HeaderValue]] = {}
    """Sent with every request to `url`; never to another origin."""
    token: Secret[str] | None = None
    """The bearer token for `url`; taken as it is written. At most one of `token`, `token_env` and `token_file`."""
    token_env: SecretVariable[SomeWord] | None = None
    """The variable of the daemon's environment that holds the token for `url`."""
    token_file: SecretFile[SomeWord] | None = None
    """The file that holds the token; a newline at its end does not count."""
    auth: SecretChoice[Literal["oauth"]] | None = None
    """How the daemon gets a token by itself."""
    oauth: OAuthSpec | None = None
    """The particulars of `auth = "oauth"`."""
    ca: SecretFile[SomeWord] | None = None
    """The PEM file of the authorities that are trusted for `url`, in the place of the system's."""
    cert: SecretFile[SomeWord] | None = None
    """The PEM file of the certificate that the daemon shows to `url`, and of its key unless `key` names it."""
    key: SecretFile[SomeWord] | None = None
    """The PEM file of the key to `cert`."""
    hosts: tuple[Secret[HostPort], ...] = ()
    """Further hosts, as HOST or HOST:PORT, that redirects and the discovery of an authorization server may lead to.
    Credentials for `url` never go there."""
    private: bool = False
    """Whether names that a server leads to may have a private address (loopback, 10.0.0.0/8, …); `url` always may."""
    args: tuple[Secret[Word], ...] = ()
    env: dict[EnvName, Secret[Word]] = {}
    """Added to the small environment that every child gets."""
    cwd: SomeWord | None = None
    """Where it runs; by default where the daemon does."""
    tools: tuple[ServerToolName, ...] | None = None
    """Whitelist; a tool that it names and the server lacks refuses the session."""
    deny: tuple[ServerToolName, ...] = ()
    """Tools that are never offered; it wins over `tools`."""
    prefix: Annotated[str, Meta(pattern=PREFIX_PATTERN)] | None = None
    """What stands before the colon in its tools' names; by default the binding's name, and "" offers raw names."""
    protocol: Literal["auto", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"] = "auto"
    """The protocol's revision; `auto` asks the server once and remembers what it speaks."""
    handshake_s: Seconds | None = None
    """This server's own limit, in the place of `limits.handshake_s`."""
    call_s: Seconds | None = None
    """This server's own limit, in the place of `limits.call_s`."""
    on_timeout: Literal["dead", "cancel"] | None = None
    """What a call over `call_s` means: the server hangs and its connection is `dead` (by default), or that call alone
    is cancelled (always with `shared`)."""
    restart: Literal["never", "backoff"] = "never"
    """Whether a connection that ended is opened anew, after 0, 1, 2, 5, 10, 30, then 60 s each time. A call that was in
    flight is never tried again."""
    shared: bool = False
    """Whether all agents with this configuration use one connection, instead of one each."""
    lazy: bool = False
    """Whether the server starts with the first call instead of with the session, once its list of tools is known."""
    mcp_resources: bool = False
    """Whether its resources and prompts are offered as the tools `read_resource`, `list_resources`, `get_prompt`."""
    trace: bool = False
    """Whether each message from and to it is logged: its kind, its number and its size, never what it says."""
    enabled: bool = True
    """A server that is not enabled is never started; profiles that name it go without, with a warning."""


Server = str | McpSpec
"""A server that is used: a binding's name, a URL, or a table as in `[mcp]`."""

Kind = Literal["agent", "plumb", "map", "filter", "merge", "barrier", "project", "id", "copy", "discard"]


InputMode = Literal["json", "text", "args", "env"]
OutputMode = Literal["json", "text", "lines"]


class ProcessSpec(ConfinedSpec, frozen=True, kw_only=True):
    """`[processes.NAME]`: a stream process, which takes and gives streams of messages; tools are made of processes.

    `!A -> !B` types a stream process. One of type `A -> B` stands in the base category: it may be made a tool, and
    cannot be wired into a chain.
    """

    kind: Kind
    type: str | None = None
    """Its type as text; inferred where the kind says it (`id`, `copy`, a `map` in a chain, …)."""
    description: str = ""
    map: str | None = None
    """The CEL expression of a `map`, over one message."""
    filter: str | None = None
    """The CEL expression of a `filter`, which says of one message whether it goes on."""
    project: Annotated[int, Meta(ge=0, le=63)] | None = None
    """Which of its streams a `project` gives, from 0."""
    chain: Annotated[tuple[str, ...], Meta(min_length=1, max_length=64)] | None = None
    """The processes of a `plumb`, in order; `lift(TOOL)` stands for a tool over every message."""
    command: Secret[Argv] | None = None
    """The program of an `agent`: one message on stdin, one JSON value on stdout; by default `agent_command`."""
    args: tuple[Secret[Word], ...] = ()
    env: dict[EnvName, Secret[Word]] = {}
    cwd: SomeWord | None = None
    prompt: Secret[str] | None = None
    """What an `agent` is told to do; it reads it in its spec."""
    model: str | None = None
    """The model that an `agent` is asked to use; it reads it in its spec."""
    tools: tuple[str, ...] | None = None
    """What an `agent` may call, as in a profile; an agent that names `tools` or `mcp` is a profile of its name."""
    mcp: tuple[Server, ...] | None = None
    """Servers that an `agent` is offered whole."""
    options: Secret[dict[str, object]] = {}
    """Anything else that the agent's program reads in its spec."""
    input_mode: InputMode = "json"
    """How an `agent` gets its message, as of a tool."""
    output_mode: OutputMode = "json"
    """How an `agent` gives its result, as of a tool."""
    reuse: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    """How many calls of one caller one child may serve in turn: a line in, a line out, as often as it likes. Only for
    programs that are made for it."""


class ToolSpec(ConfinedSpec, frozen=True, kw_only=True):
    """`[tools.NAME]`: one declared tool; exactly one of `process`, `mcp`, `inline`, `map`, `command` and `python` runs
    it."""

    type: str | None = None
    """`A -> B`, as text; or the two schemas stand in its place."""
    input_schema: dict[str, object] | None = None
    output_schema: dict[str, object] | None = None
    title: str | None = None
    """A short name, for people."""
    description: str = ""
    """What a model reads to know when to call it."""
    hint: Annotated[str, Meta(max_length=2_000)] | None = None
    """A line for the system prompt of every agent that may call it; `ready` has them all in `instructions`."""
    doc: Annotated[str, Meta(max_length=256 * KIB)] | None = None
    """Its full text, which the built-in tool `info` gives when it is asked for."""
    expose: bool = True
    """Whether it is offered at all; with `false` it is there for chains only."""
    call_s: Seconds | None = None
    """This tool's own limit, in the place of `limits.call_s`."""
    process: str | None = None
    """The process that it is made of: one message in, its one result out."""
    mcp: Server | None = None
    """The server whose tool it is."""
    name: str | None = None
    """What that server calls the tool; by default this tool's own name."""
    inline: Literal["id", "copy", "discard"] | None = None
    map: str | None = None
    """A CEL expression over the input."""
    command: Secret[Argv] | None = None
    """The program and its first arguments, never a shell's line."""
    args: tuple[Secret[Word], ...] = ()
    """Further arguments, after those of `command`."""
    env: dict[EnvName, Secret[Word]] = {}
    """Added to the small environment that every child gets."""
    cwd: SomeWord | None = None
    """Where it runs; by default where the daemon does, in its scratch directory where `read` or `write` is given."""
    input_mode: InputMode = "json"
    """How a `command` gets its input: as a line of JSON or as text on stdin, in its arguments, or as variables."""
    output_mode: OutputMode = "json"
    """How a `command` gives its answer on stdout: one JSON value, text, or a list of lines."""
    python: Annotated[str, Meta(pattern=PYTHON_PATTERN)] | None = None
    """A typed function, as `package.module:function`."""
    venv: SomeWord | None = None
    """The virtual environment (or the interpreter) that a `python` tool runs in; by default the daemon's own."""
    max_forks: Annotated[int, Meta(ge=1, le=10_000_000)] = 10_000
    """Calls after which a `python` tool's parent is replaced; what an import leaks ends there."""
    max_rss: Size = "1G"
    """Memory of a `python` tool's parent or resident worker after which it is replaced."""
    prefork: Annotated[int, Meta(ge=0, le=64)] = 0
    """Children of a `python` tool that are forked ahead of their calls."""
    resident: bool = False
    """Whether calls of a `python` tool run in workers that live on: for pure functions that are trusted, since one
    call can leave something behind for the next, whoever's that is."""
    reuse: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    """How many calls of one caller one child of a `command` may serve in turn, as of a process."""


class ProfileSpec(ConfinedSpec, frozen=True, kw_only=True):
    """`[agents.NAME]`: what an agent under this profile may call; what is left out is not offered."""

    tools: tuple[str, ...] = ()
    """Declared tools, and single tools of servers as `PREFIX:NAME`."""
    mcp: tuple[str, ...] = ()
    """Servers that are offered whole, by the names of their bindings."""
    roots: tuple[SomeWord, ...] = ()
    """Directories that servers are told of, where they ask what they should work on: paths, or `file://` URIs."""
    mcp_resources: bool = False
    """Whether resources and prompts are offered of every server that is offered whole, as `mcp_resources` there."""
    jobs: bool = True
    """Whether `job_wait`, `job_read`, `job_list` and `job_stop` are offered."""
    token: Secret[str] | None = None
    """What a `hello` must show; taken as it is written. At most one of `token`, `token_env` and `token_file`."""
    token_env: SecretVariable[SomeWord] | None = None
    """The variable of the daemon's environment that holds the token."""
    token_file: SecretFile[SomeWord] | None = None
    """The file that holds the token; a newline at its end does not count."""
    uid: Owners | None = None
    """Users who may open it; with `gid`, one of both is enough. A token is asked for beside them."""
    gid: Owners | None = None
    """Groups whose members may open it."""


class Config(Spec, frozen=True, kw_only=True):
    """A whole configuration file."""

    daemon: DaemonSpec = DaemonSpec()
    limits: LimitsSpec = LimitsSpec()
    types: dict[str, str] = {}
    """Names for types; each may be used in every other one and in `tools.*.type`."""
    mcp: dict[Binding, McpSpec] = {}
    tools: dict[Name, ToolSpec] = {}
    processes: dict[Name, ProcessSpec] = {}
    """Stream processes, of which tools and chains are made; none of them is offered by itself."""
    plumb: tuple[SomeWord, ...] = ()
    """Files in the plumb notation, which declare types, servers, processes and tools like the tables here."""
    mcp_json: tuple[SomeWord, ...] = ()
    """Files in which other MCP clients keep their servers (`mcpServers`, or `servers`); each is one in `[mcp]`."""
    agent_command: Secret[Argv] | None = None
    """What runs an agent that has no `command`: these words, and the path of the file with its spec."""
    agents: dict[Name, ProfileSpec] = {}
    """Without any there is one, `default`, that offers every tool and every server."""
