"""The configuration as values: what each table and key means, its type and its default.

The text below a field is the one description of that setting: docs/configuration.md is written from it (`make
protocol`), so it may hold Markdown, with links as they lead from there.

`config.configuration` parses a TOML file into `Config`; past that, values are typed and trusted. Every limit states
where its number comes from.

`${VAR}`, `${VAR:-default}`, `${file:PATH}` and `$$` (a dollar) are expanded in `daemon.listen`, `plumb` and `mcp_json`,
in `command`, `args` (but with `input_mode = "args"`), `env` (its values) and `cwd` of servers and tools, in `venv`,
`read` and `write`, in `url`, `headers` (their values), `ca`, `cert` and `key` of servers, in what `restspecs` says of
APIs and requests, in `roots`, `workspace` and `workspaces` of profiles and in every key that names a file with a
secret, and nowhere else. In the same keys a relative path (a socket's, a `cwd`, a command with a slash in it, a file's,
a root) starts at the directory of the configuration file: a service has no other directory that its author would
expect. Past `config.configuration` all of them are absolute, roots are `file://` URIs, users and groups are numbers,
and no profile's token is left. A `~` means nothing.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tooldispatchd.catalog.agentspec import AGENT_KEYS, AgentSpec
from tooldispatchd.catalog.answerspec import ServerAnswersSpec
from tooldispatchd.catalog.auditspec import AuditSpec
from tooldispatchd.catalog.hookspec import HookSpec
from tooldispatchd.catalog.httpauthspec import HttpAuthSpec
from tooldispatchd.catalog.openapispec import ApiName, OpenApiSpec
from tooldispatchd.catalog.policyspec import (
    CacheSpec,
    PolicySpec,
    QueueSpec,
)
from tooldispatchd.catalog.restspecs import AnnotationsSpec, ForeignRestSpec, RestApiSpec, RestSpec
from tooldispatchd.catalog.secrecy import Secret, SecretChoice, SecretFile, SecretVariable, Spec
from tooldispatchd.catalog.speckinds import (
    KIB,
    MIB,
    OUTPUT_PATTERN,
    PREFIX_PATTERN,
    PYTHON_PATTERN,
    TIB,
    Argv,
    BindingName,
    Count,
    EnvName,
    HeaderName,
    HeaderValue,
    HookName,
    HostPort,
    Name,
    QueueName,
    Seconds,
    ServerToolName,
    Size,
    SomeWord,
    Tags,
    Word,
)
from tooldispatchd.catalog.toolboxspecs import ToolboxSpec
from tooldispatchd.catalog.tracesspec import TracesSpec

# An agent that cancels a call wants it to end; a minute is long for that.
StopSeconds = Annotated[float, Meta(ge=0, le=60)]


class DaemonSpec(Spec, frozen=True, kw_only=True):
    """`[daemon]`: where agents come in, how long running calls have at the end, and whether its files are watched."""

    listen: tuple[SomeWord, ...] = ()
    """[Where agents come in](agents.md#ways-in). `serve --listen` replaces it. By default the socket that the
    environment names, see below."""
    grace_s: Annotated[float, Meta(ge=0, le=3600)] = 10.0
    """Seconds that running calls still have when the daemon is asked to stop. With the teardown the default stays well
    under systemd's 90 s."""
    watch: bool = False
    """Whether the daemon [reads its configuration again](operating.md#reload) by itself when one of its files, or the
    code of a Python function, has changed. Off by default: editors save half-finished files."""


class LimitsSpec(Spec, frozen=True, kw_only=True):
    """`[limits]`: every bound that a site may want to move."""

    call_s: Seconds = 60.0
    """Seconds for one call, from its turn to its answer, of a tool without a limit of its own. The default is what MCP
    clients commonly use."""
    agent_s: Seconds = 600.0
    """In its place, for tools that run an agent process, itself or in a chain. The default is many turns of a model,
    each with its calls."""
    handshake_s: Seconds = 30.0
    """Seconds for one MCP server, from its start to its list of tools. Package runners that install first need most of
    the default."""
    max_line_bytes: Annotated[int, Meta(ge=4 * KIB, le=TIB)] = 8 * MIB
    """One line of an agent. By default a document or an image in base64 fits."""
    max_content_bytes: Annotated[int, Meta(ge=4 * KIB, le=TIB)] = 64 * MIB
    """One answer of a tool, and one line of an MCP server. The default is far more than a model can read."""
    part_bytes: Annotated[int, Meta(ge=4 * KIB, le=TIB)] = 8 * MIB
    """One part of an answer of an agent that asked for blocks, such as an image in base64. By default as much as one
    line of an agent."""
    in_flight: Count = 256
    """Calls of one agent that run at once. The default is more than a model asks for in one turn, and few enough to
    hurt nobody."""
    waiting: Count = 1024
    """Calls of one agent that wait for a place; more get `queue_full`. By default there is room for a burst, not for a
    runaway."""
    processes: Count | None = None
    """Calls of `command` and `python` tools that run at once in the whole daemon, and as many of agent processes at
    each [level](#processesname), since these may wait for the others. By default four for each core: more would only
    wait for each other."""
    mcp_opening: Count = 16
    """MCP servers that start at once in the whole daemon. Each start is a burst of CPU."""
    mcp_processes: Count = 256
    """Processes of MCP servers at once for all agents of one channel, or of one user that is neither the daemon's own
    nor root; a server over it is unavailable. Shared ones do not count. As many may wait without
    an agent (`keep_s`, `spare`). By default as many as calls of an agent."""
    out_buffer_bytes: Annotated[int, Meta(ge=4 * KIB, le=TIB)] = 1 * MIB
    """Unread answers of one channel before its requests are no longer read. The default is many times what a socket
    holds."""
    stalled_s: Seconds = 120.0
    """Seconds that a channel over that bound may take nothing before it is dropped. An agent that is alive reads long
    before the default."""
    buffered_bytes: Annotated[int, Meta(ge=1 * MIB, le=TIB)] = 512 * MIB
    """Everything that is held for agents and servers together: half lines, inputs of calls, unread answers, results of
    jobs, messages of servers, and the schemas of their tools. One channel has a third at most, one user half; the
    largest holder gets `too_many` first. By default the largest answer fits."""
    connections: Count = 20_000
    """Channels at once. Each is one descriptor, and about two kilobytes while it is idle. The last 128 descriptors (of
    few, a quarter) are kept for programs."""
    sessions: Count = 20_000
    """Agents at once, many of which may share a channel. By default as many as channels."""
    sessions_per_uid: Count = 1_000
    """Agents, and channels, at once of one user that is neither the daemon's own nor root. By default twenty users fill
    `sessions`."""
    lines_per_s: Count = 500_000
    """Lines of one channel in a second; more get `too_many`. The default is more calls than one core answers, so that
    only a flood of lines that are no calls, or that nobody waits for, reaches it. A channel may carry thousands of
    agents."""
    in_flight_bytes: Annotated[int, Meta(ge=4 * KIB, le=TIB)] = 64 * MIB
    """Inputs of one agent's calls that have no answer yet. By default eight of the longest lines."""
    jobs: Count = 1024
    """Background jobs of one agent that run or are unread; more get `queue_full`. By default as many as may wait for a
    place."""
    job_bytes: Annotated[int, Meta(ge=4 * KIB, le=TIB)] = 64 * MIB
    """Results of one agent's jobs that it has not read yet. By default one of the largest answers."""
    stored_bytes: Annotated[int, Meta(ge=4 * KIB, le=TIB)] = 256 * MIB
    """[Long answers](policy.md#long-answers) that are kept on disk for one agent; the oldest are forgotten for a new
    one. By default four of the largest."""
    all_stored_bytes: Annotated[int, Meta(ge=4 * KIB, le=TIB)] = 4 * 1024 * MIB
    """The same for all agents together; where there is no room, an answer is cut. By default sixteen agents have all of
    theirs."""
    approve_s: Seconds = 300.0
    """Seconds that somebody has to answer whether a call may run; then it is refused. By default time to come back to
    the screen."""
    agent_depth: Annotated[int, Meta(ge=0, le=16)] = 1
    """How deep agents may call agents below the one that came in from outside; 0 leaves agent processes without tools.
    Each level multiplies what one call may set going."""


class OAuthSpec(Spec, frozen=True, kw_only=True):
    """`oauth` of a server with `auth = "oauth"`: who the daemon is to the authorization server."""

    grant: Literal["authorization_code", "client_credentials", "private_key_jwt"] = "authorization_code"
    """`authorization_code` needs a person once, at `tooldispatchd login`; the others need none."""
    client_id: Secret[SomeWord] | None = None
    """The client as it was registered. Without one the daemon registers itself, where the server lets it."""
    client_secret_env: SecretVariable[SomeWord] | None = None
    """The variable of the daemon's environment that holds the client's secret. At most one of it and the file."""
    client_secret_file: SecretFile[SomeWord] | None = None
    """The file that holds the client's secret; a newline at its end does not count."""
    client_metadata_url: Secret[SomeWord] | None = None
    """The https URL of the client's own metadata document, for servers that know clients by it, in the place of
    `client_id`."""
    private_key_file: SecretFile[SomeWord] | None = None
    """The PEM file of the key that signs a `private_key_jwt`."""
    algorithm: Literal["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"] = "RS256"
    """How a `private_key_jwt` is signed."""
    scopes: tuple[Secret[SomeWord], ...] = ()
    """The scopes that are asked for; by default what the server says that it needs."""
    redirect_port: Annotated[int, Meta(ge=1, le=65_535)] | None = None
    """The port of the loopback redirect, where the client is registered with a fixed one."""


class McpSpec(ServerAnswersSpec, frozen=True, kw_only=True):
    """`[mcp.NAME]`: an MCP server of its own for each agent that uses it; exactly one of `command` and `url`.

    Where a tool or an agent uses a server, such a table may also stand in the place of a binding's name. The program of
    a `shared` server keeps to this table alone, that of any other to its agent's profile too.
    """

    command: Secret[SomeWord] | None = None
    """The program: one word, a name looked for in `PATH`, or a path. Such a server may have [bounds and a
    sandbox](#bounds-and-a-sandbox)."""
    url: Secret[SomeWord] | None = None
    """In its place, a server that runs elsewhere: `http://`, `https://`, `ws://` or `wss://`."""
    transport: Literal["auto", "http", "sse"] = "auto"
    """How an http URL is spoken to: `http` is Streamable HTTP, `sse` the older HTTP+SSE; `auto` begins with the first
    and goes over to the other where the server refuses it."""
    headers: dict[HeaderName, Secret[HeaderValue]] = {}
    """Headers that go with every request to `url`, and never to another origin."""
    token: Secret[str] | None = None
    """The bearer token for `url`; taken as it is written. At most one of `token`, `token_env` and `token_file`. Over
    plain `http://` or `ws://` to another machine it is a warning."""
    token_env: SecretVariable[SomeWord] | None = None
    """The variable of the daemon's environment that holds the token for `url`."""
    token_file: SecretFile[SomeWord] | None = None
    """The file that holds the token; a newline at its end does not count."""
    auth: SecretChoice[Literal["oauth"]] | None = None
    """With `oauth` the daemon gets tokens by itself."""
    oauth: OAuthSpec | None = None
    """The particulars of `auth = "oauth"`, [below](#oauth)."""
    ca: SecretFile[SomeWord] | None = None
    """The PEM file of the authorities that are trusted for `url`, in the place of the system's. A PEM file that cannot
    be used is an error when the configuration is read."""
    cert: SecretFile[SomeWord] | None = None
    """The PEM file of the certificate that the daemon shows to `url`, and of its key unless `key` names it."""
    key: SecretFile[SomeWord] | None = None
    """The PEM file of the key to `cert`."""
    hosts: tuple[Secret[HostPort], ...] = ()
    """Further hosts, as `HOST` or `HOST:PORT`, that redirects and the discovery of an authorization server may lead to.
    Credentials for `url` never go there."""
    private: bool = False
    """With `true` names that the server leads to may have a private address (loopback, 10.0.0.0/8, …); `url` itself,
    and addresses and `localhost` among `hosts`, always may."""
    args: tuple[Secret[Word], ...] = ()
    """Arguments of `command`."""
    env: dict[EnvName, Secret[Word]] = {}
    """Variables beside the [small environment](security.md#what-is-there) that every child gets."""
    cwd: SomeWord | None = None
    """Where it runs; by default where the daemon does. `"workspace"` is the session's [workspace](#workspaces)."""
    tools: tuple[ServerToolName, ...] | None = None
    """Offer these tools only, by name or by [pattern](agents.md#patterns); an agent is refused (`missing_tool`) if the
    server lacks one, or has none of a pattern. By default all."""
    allow: tuple[ServerToolName, ...] | None = None
    """Of what would be offered, only these names and patterns; one that the server does not have is no error. It wins
    over `tools`."""
    deny: tuple[ServerToolName, ...] = ()
    """Never offer these names and patterns, by any spelling of a tool's name; it wins over `tools` and `allow`."""
    tags: Tags = ()
    """Tags of each of its tools, see [tags](agents.md#tags-and-hints)."""
    prefix: Annotated[str, Meta(pattern=PREFIX_PATTERN)] | None = None
    """What stands before the colon in its tools' names; by default the table's name. `""` offers the names as the
    server gives them. One that another table has gets a number (`time-2`), with a warning."""
    protocol: Literal["auto", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"] = "auto"
    """The protocol's revision; `auto` asks the server once and remembers what it speaks."""
    handshake_s: Seconds | None = None
    """This server's own limit in seconds, in the place of `limits.handshake_s`."""
    call_s: Seconds | None = None
    """This server's own limit in seconds, in the place of `limits.call_s`."""
    on_timeout: Literal["dead", "cancel"] | None = None
    """What a call over `call_s` does: the server hangs and its connection is `dead`, the default, or that call alone is
    cancelled (`cancel`), which it always is with `shared`."""
    restart: Literal["never", "backoff"] = "never"
    """With `backoff` a connection that ended is opened anew, after about 0, 1, 2, 5, 10, 30, then 60 s each time. A
    call that was in flight is never tried again."""
    shared: bool = False
    """With `true` all agents use one connection, in the place of one each."""
    keep_s: Annotated[float, Meta(ge=0, le=86_400)] | None = None
    """How long a `shared` server stays when its last agent has left, in seconds: by default 300. It ends before when
    the daemon needs the room."""
    spare: Annotated[int, Meta(ge=0, le=64)] = 0
    """How many processes of a server that each agent has for itself have started already, and wait for
    [the next agent](mcp.md#what-is-started-before-it-is-needed)."""
    lazy: bool = False
    """With `true` the server starts with the first call instead of with the session, once its list of tools is
    known."""
    mcp_resources: bool | None = None
    """With `true` its resources and prompts are offered as the tools `read_resource`, `list_resources`, `get_prompt`;
    with `tools`, those of them that it lists. An agent that asks for them
    [by itself](mcp.md#resources-and-prompts) gets them then, and never with `false`; by default where nothing narrows
    the server's tools."""
    read_only: tuple[ServerToolName, ...] = ()
    """Which of its tools, by name or [pattern](agents.md#patterns), change nothing, as `read_only` of a tool; beside
    those of which it says so itself (`readOnlyHint`)."""
    idempotent: tuple[ServerToolName, ...] = ()
    """Which of its tools, by name or pattern, may be tried again: see `idempotent` of a tool."""
    meta: bool = False
    """With `true` each call tells it, in `_meta`, [whose call it is](mcp.md#what-a-server-is-told-of-a-call)."""
    trace: bool = False
    """With `true` the kind, the number and the size of each message from and to it is logged, never its content."""
    enabled: bool = True
    """With `false` it is never started, and profiles that name it go without it, with a warning."""


Server = str | McpSpec
"""A server that is used: a binding's name, a URL, or a table as in `[mcp]`."""

# The forms of lists of tools that are a provider's own.
NativeForm = Literal["anthropic", "openai", "openai_responses", "google"]

Kind = Literal["agent", "plumb", "map", "filter", "merge", "barrier", "project", "id", "copy", "discard"]


InputMode = Literal["json", "text", "args", "env"]
OutputMode = Annotated[str, Meta(pattern=OUTPUT_PATTERN)]
ExitCodes = tuple[Annotated[int, Meta(ge=0, le=255)], ...] | Literal["result"]


class ProcessSpec(AgentSpec, frozen=True, kw_only=True):
    """`[processes.NAME]`: a stream process, which takes and gives streams of messages; tools are made of processes.

    `!A -> !B` types a stream process. One of type `A -> B` stands in the base category: it may be made a tool, and
    cannot be wired into a chain.
    """

    kind: Kind
    """What it does, see above."""
    type: str | None = None
    """Its type as text; inferred where the kind or the stage before says it."""
    description: str = ""
    """What it is for; an `agent` reads it in its spec."""
    map: str | None = None
    """The CEL expression of a `map`, over one message."""
    filter: str | None = None
    """The CEL expression of a `filter`, which says of one message whether it goes on."""
    project: Annotated[int, Meta(ge=0, le=63)] | None = None
    """Which of its streams a `project` gives, from 0."""
    chain: Annotated[tuple[str, ...], Meta(min_length=1, max_length=128)] | None = None
    """The processes of a `plumb`, in order; `lift(TOOL)` stands for a tool over every message."""
    command: Secret[Argv] | None = None
    """The program of an `agent`: one message on stdin, one JSON value on stdout. By default `agent_command`."""
    args: tuple[Secret[Word], ...] = ()
    """Further arguments, as of a tool."""
    env: dict[EnvName, Secret[Word]] = {}
    """Variables of its own, as of a tool."""
    cwd: SomeWord | None = None
    """Where it runs, as of a tool."""
    prompt: Secret[str] | None = None
    """What an `agent` is told to do; it reads it in its spec."""
    model: str | None = None
    """The model that an `agent` is asked to use; it reads it in its spec."""
    tools: tuple[str, ...] | None = None
    """What an `agent` may call, as in a profile. An agent that has any key of a profile is a [profile](#agentsname) of
    its name, which only the program that was started for it may open, unless it has a token, a `uid` or a `gid`."""
    mcp: tuple[Server, ...] | None = None
    """Servers that an `agent` is offered whole."""
    options: Secret[dict[str, object]] = {}
    """Anything else that the agent's program reads in its spec."""
    input_mode: InputMode = "json"
    """How an `agent` gets its message, as of a tool."""
    output_mode: OutputMode = "json"
    """How an `agent` gives its result, as of a tool."""
    exit_codes: ExitCodes | None = None
    """With which codes an `agent` has given a result, as of a tool."""
    ports: Literal["stdio"] | None = None
    """With `stdio` an `agent` that names `tools` or `mcp` writes its requests to its stdout, beside its result, and
    reads the answers from its stdin, after the line with its message; by default it has descriptors 4 and 5 for
    them."""
    stop_s: StopSeconds = 2.0
    """Seconds that an `agent` has to end itself once its call is ended early, as of a tool. By default time to write
    down where it is."""

    @property
    def is_profile(self) -> bool:
        if self.kind != "agent":
            return False
        return (
            self.tools is not None
            or self.mcp is not None
            or any(getattr(self, key) != unsaid for key, unsaid in AGENT_KEYS.items())
        )


class ToolSpec(PolicySpec, frozen=True, kw_only=True):
    """`[tools.NAME]`: one declared tool; exactly one of `process`, `mcp`, `inline`, `map`, `command`, `python`,
    `rest`, `native` and `builtin` runs it."""

    type: str | None = None
    """`A -> B`, as text. Inferred where its process or expression says it; without it and without schemas a `command`
    takes and gives any JSON."""
    input_schema: dict[str, object] | None = None
    """A JSON Schema of its input; with `output_schema` in the place of `type`."""
    output_schema: dict[str, object] | None = None
    """A JSON Schema of its output."""
    title: str | None = None
    """A short name, for people."""
    description: str = ""
    """What a model reads to know when to call it."""
    hint: Annotated[str, Meta(max_length=2_000)] | None = None
    """A line for the system prompt of every agent that may call it; `ready` has them all in `instructions`."""
    doc: Annotated[str, Meta(max_length=256 * KIB)] | None = None
    """Its full text, which the built-in tool `info` gives: `info({"name": …})`. That tool is there where any tool has a
    `doc`."""
    aliases: tuple[Name, ...] = ()
    """Further names under which agents may call it, and profiles and a `spec` may name it; lists of tools do not show
    them. No other tool may have one of them."""
    expose: bool | Literal["named"] = True
    """With `"named"` it is offered where a profile or an agent process names it, and neither by a pattern nor by the
    profile that offers every tool. With `false` it is offered to nobody, and there for chains alone."""
    tags: Tags = ()
    """Words by which profiles and agents choose tools together, see [tags](agents.md#tags-and-hints)."""
    call_s: Seconds | None = None
    """This tool's own limit in seconds, in the place of `limits.call_s`."""
    read_only: bool | None = None
    """With `true` it changes nothing: its answers may be [cached](policy.md#the-cache), and it shares what its
    `exclusive` names with others that only look. By default what its server or its `annotations` say of it."""
    idempotent: bool = False
    """With `true` a call that ended with a fault of the category `unavailable` is tried again, up to twice, after about
    1 and 2 s or what the fault says in `retry_after_ms`, as long as its deadline lets it. All retries of its calls are
    at most a tenth of these, and ten. Only for tools that may do their work twice."""
    mode: Literal["background", "asked"] | None = None
    """With `background` each call becomes a job, as if the agent had asked for one; a profile without `jobs` cannot
    have such a tool. With `asked` a call does whose input says `"background": true`, for models that cannot ask
    otherwise."""
    process: str | None = None
    """The [process](#processesname) that it is made of: one message in, its one result out."""
    mcp: Server | None = None
    """The server whose tool it is: the name of a table in `[mcp]`, a URL, or a table as there. Typed, it is checked as
    any other tool; without types it takes and gives what the server says."""
    name: str | None = None
    """With `mcp`: what the server calls the tool; by default this tool's own name."""
    inline: Literal["id", "copy", "discard"] | None = None
    """`id` gives its input back, `copy` gives it twice, `discard` gives `null`."""
    map: str | None = None
    """An expression in CEL over the input, see below."""
    command: Secret[Argv] | None = None
    """The program and its first arguments, never a shell's line: one JSON value on its stdin, one JSON value on its
    stdout, exit code 0. One child for each call."""
    args: tuple[Secret[Word], ...] = ()
    """Further arguments, after those of `command`."""
    env: dict[EnvName, Secret[Word]] = {}
    """Variables beside the [small environment](security.md#what-is-there) that every child gets."""
    cwd: SomeWord | None = None
    """Where it runs; by default where the daemon does, in its scratch directory where `read` or `write` is given.
    `"workspace"` is the session's [workspace](#workspaces), and `"./workspace"` a directory of that name."""
    input_mode: InputMode = "json"
    """How a `command` gets its input: as a line of JSON or as text on stdin, in its arguments, or as variables. See
    [Programs](#programs)."""
    output_mode: OutputMode = "json"
    """How a `command` gives its answer on stdout: one JSON value, `text`, a list of `lines`, a list of typed parts
    (`blocks`), or one file, by its media type (`"image/png"`). See [Programs](#programs)."""
    exit_codes: ExitCodes | None = None
    """The exit codes with which a `command` has given an answer, by default `[0]`; any other is a failure. With
    `"result"` each has, and the answer is the text of its stdout and stderr, with the code as the last line."""
    rest: RestSpec | None = None
    """A request to an HTTP API, see [HTTP APIs](#http-apis)."""
    native: Secret[dict[NativeForm, dict[str, object]]] | None = None
    """A tool that a model's provider runs itself: what stands in a list in that [form](agents.md#tools-of-providers),
    as it is. Lists in other forms do not have it, and a call here is `provider_native`."""
    annotations: AnnotationsSpec | None = None
    """Hints about a tool with `rest`, for whoever decides about calls: whether it only reads, whether it destroys."""
    python: Annotated[str, Meta(pattern=PYTHON_PATTERN)] | None = None
    """A typed Python function, as `package.module:function`, see [Python functions](#python-functions)."""
    builtin: SecretChoice[str] | None = None
    """One tool of a [toolbox](toolbox.md), such as `"read"`, under this table's name; `options` are its set's own
    keys."""
    venv: SomeWord | None = None
    """The virtual environment, or the interpreter, that a `python` tool runs in; by default the daemon's own."""
    max_forks: Annotated[int, Meta(ge=1, le=10_000_000)] = 10_000
    """Calls after which the warm parent of a `python` tool, or a worker, is replaced; what an import leaks ends
    there."""
    max_rss: Size = "1G"
    """Memory after which the warm parent of a `python` tool, or a worker, is replaced."""
    resident: bool = False
    """With `true` calls of a `python` tool run in [workers](programs.md#workers) that live on, without a fork: only
    for functions that you trust, since one call can leave something behind for the next."""
    state: bool | str = False
    """With `true` a `python` tool keeps a [state](programs.md#state) between the calls of a session, which `ctx.state`
    is; a name in the place of `true` is one that several tools share."""
    options: Secret[dict[str, object]] = {}
    """What a `python` tool's function finds as `ctx.options`; of a `builtin` the keys of its set."""
    stop_s: StopSeconds = 0.0
    """Seconds that a `command` or a function has to end itself once its call is [ended early](programs.md#stopping): a
    program gets TERM, and what is left after them is killed. By default it is killed at once."""


class ProfileSpec(AgentSpec, frozen=True, kw_only=True):
    """`[agents.NAME]`: what an agent under this profile may call; what is left out is not offered."""

    tools: tuple[str, ...] = ()
    """Declared tools, and single tools of servers as `PREFIX:NAME`; also [patterns](agents.md#patterns). What is not
    there is an error, and so is a pattern that nothing matches."""
    mcp: tuple[str, ...] = ()
    """Servers that are offered whole, by the names of their tables."""


class Config(Spec, frozen=True, kw_only=True):
    daemon: DaemonSpec = DaemonSpec()
    """Where agents come in, and the end: [`[daemon]`](#daemon)."""
    limits: LimitsSpec = LimitsSpec()
    """Every bound that a site may want to move: [`[limits]`](#limits)."""
    audit: AuditSpec = AuditSpec()
    """A record of each call: [`[audit]`](#audit)."""
    traces: TracesSpec = TracesSpec()
    """Spans of calls: [`[traces]`](#traces)."""
    queues: dict[QueueName, QueueSpec] = {}
    """Where calls wait for one another: [`[queues.NAME]`](#queuesname)."""
    hooks: dict[HookName, HookSpec] = {}
    """What is asked about calls: [`[hooks.NAME]`](#hooksname)."""
    cache: CacheSpec = CacheSpec()
    """Where answers are kept that may be given again: [`[cache]`](#cache)."""
    types: dict[str, str] = {}
    """Names for types; each may be used in every other one and in the `type` of tools and processes:
    [`[types]`](#types)."""
    mcp: dict[BindingName, McpSpec] = {}
    """MCP servers: [`[mcp.NAME]`](#mcpname)."""
    rest: dict[BindingName, RestApiSpec] = {}
    """HTTP APIs that several tools use: [`[rest.NAME]`](#restname)."""
    openapi: dict[ApiName, OpenApiSpec] = {}
    """HTTP APIs that documents of OpenAPI describe, whose operations are tools: [`[openapi.NAME]`](#openapiname)."""
    tools: dict[Name, ToolSpec] = {}
    """Tools: [`[tools.NAME]`](#toolsname)."""
    rest_tools: dict[Name, ForeignRestSpec] = msgspec.field(name="restTools", default_factory=dict)
    """Requests as netdata's ai-agent writes them, each a tool of its name: [`[restTools.NAME]`](#resttoolsname)."""
    toolbox: dict[Name, ToolboxSpec] = {}
    """Sets of tools that come with the daemon, for files, a shell, the web and more:
    [`[toolbox.NAME]`](#toolboxname)."""
    processes: dict[Name, ProcessSpec] = {}
    """Stream processes, of which tools and chains are made: [`[processes.NAME]`](#processesname). None of them is
    offered by itself."""
    plumb: tuple[SomeWord, ...] = ()
    """Files in the [plumb notation](#the-plumb-notation), which declare types, servers, processes and tools like the
    tables here."""
    mcp_json: tuple[SomeWord, ...] = ()
    """JSON, YAML or TOML files in which other MCP clients keep their servers; each server is
    [one more in `[mcp]`](#servers-of-other-clients), and each request under `restTools` one more tool."""
    agent_command: Secret[Argv] | None = None
    """The program that runs an agent process without a `command`: these words, and the path of the file with its
    spec."""
    http_auth: dict[Name, HttpAuthSpec] = {}
    """Authorization servers whose tokens open places for MCP clients: [`[http_auth.NAME]`](#http_authname)."""
    agents: dict[Name, ProfileSpec] = {}
    """Profiles: [`[agents.NAME]`](#agentsname). Without any there is one, `default`, that offers every tool and every
    server, but tools with `expose = "named"`."""

    def profile_spec(self, name: str) -> AgentSpec | None:
        """The table of a profile, which may be that of an agent process; None where no table is."""
        process = self.processes.get(name)
        return self.agents.get(name) or (process if process is not None and process.is_profile else None)

    def profile_path(self, spec: AgentSpec) -> tuple[str, str]:
        """Find the path of a profile's table; of one that stands in no table, a path with no name."""
        # For each tool of each profile: to build all tables anew would take 3 µs for each agent process.
        tables: tuple[tuple[str, Mapping[str, AgentSpec]], ...] = (
            ("agents", self.agents),
            ("processes", self.processes),
        )
        return next(
            ((section, name) for section, named in tables for name, each in named.items() if each is spec),
            ("agents", ""),
        )

    def profile_tables(self) -> dict[tuple[str, str], AgentSpec]:
        """The tables of all profiles by their paths, those of agent processes last."""
        own: dict[tuple[str, str], AgentSpec] = {("agents", name): spec for name, spec in self.agents.items()}
        return own | {("processes", name): spec for name, spec in self.processes.items() if spec.is_profile}
