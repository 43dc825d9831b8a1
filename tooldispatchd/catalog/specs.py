"""The configuration as values: what each table and key means, its type and its default.

`daemon.configuration` parses a TOML file into `Config`; past that, values are typed and trusted. Every limit states
where its number comes from.

`${VAR}`, `${VAR:-default}` and `$$` (a dollar) are expanded in `daemon.listen`, in `command`, `args`, `env` (its
values) and `cwd` of servers and tools and in `token_file` of profiles, and nowhere else. In the same keys a relative
path (a socket's, a `cwd`, a command with a slash in it, a token's file) starts at the directory of the configuration
file: a service has no other directory that its author would expect. Past `daemon.configuration` all of them are
absolute, users and groups are numbers, and no token is left. A `~` means nothing.
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

KIB: Final = 1024
MIB: Final = 1024 * KIB
TIB: Final = 1024 * 1024 * MIB

# A declared name may be spelt `prefix__name` for a model's provider, so that two underscores stay free for it.
NAME_PATTERN: Final = r"^(?!.*__)[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z][A-Za-z0-9_-]*)*$"
# A binding's name is its prefix unless it states another one.
BINDING_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$"
PREFIX_PATTERN: Final = r"^([A-Za-z0-9][A-Za-z0-9._-]{0,31})?$"
ENV_PATTERN: Final = r"^[^=\x00]+$"
WORD_PATTERN: Final = r"^[^\x00]*$"
SOME_WORD_PATTERN: Final = r"^[^\x00]+$"

# Upper bounds catch a slip of the hand (one zero too many in seconds, bytes for kilobytes), not a policy.
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Name = Annotated[str, Meta(pattern=NAME_PATTERN, max_length=128)]
Binding = Annotated[str, Meta(pattern=BINDING_PATTERN)]
EnvName = Annotated[str, Meta(pattern=ENV_PATTERN)]
# The kernel ends an argument at a NUL.
Word = Annotated[str, Meta(pattern=WORD_PATTERN)]
SomeWord = Annotated[str, Meta(pattern=SOME_WORD_PATTERN)]
Argv = Annotated[tuple[Word, ...], Meta(min_length=1)]
# Users or groups: by number, or by name on this machine. No `Meta` here, whose bounds are checked where names are
# looked up: a union of three kinds with it crashes the interpreter at its end, now and then (msgspec 0.22).
Owner = int | str
Owners = int | str | tuple[Owner, ...]


class Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the configuration: immutable, and an unknown key is an error."""


class DaemonSpec(Spec, frozen=True):
    """`[daemon]`: where agents come in, and how long running calls have at the end."""

    listen: tuple[SomeWord, ...] = ()
    """Ways in, as `daemon.listen_values` writes them; `serve --listen` stands in its place."""
    grace_s: Annotated[float, Meta(ge=0, le=3600)] = 10.0
    """What running calls have after SIGTERM; with the teardown it stays well under systemd's 90 s."""


class LimitsSpec(Spec, frozen=True):
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
    """Children of `command` tools at once in the whole daemon, and as many of agent processes, since these may wait for
    the others; by default four a core: more only wait."""
    mcp_opening: Count = 16
    """MCP servers that start at once in the whole daemon; each is a burst of CPU."""
    out_buffer_bytes: Annotated[int, Meta(ge=4 * KIB, le=TIB)] = 1 * MIB
    """Answers that lie unread in one channel before its reading stops; many times what a socket holds."""
    stalled_s: Seconds = 120.0
    """How long a channel over that bound may take nothing before it is dropped; who is alive reads long before."""
    buffered_bytes: Annotated[int, Meta(ge=1 * MIB, le=TIB)] = 256 * MIB
    """Answers that lie unread in all channels together, more get `too_many`; what a small machine can spare."""
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


class McpSpec(Spec, frozen=True):
    """`[mcp.NAME]`: an MCP server of its own for each agent that uses it; exactly one of `command` and `url`.

    Where a tool or an agent uses a server, such a table may also stand in the place of a binding's name.
    """

    command: SomeWord | None = None
    """The program: a name looked for in `PATH`, or a path."""
    url: SomeWord | None = None
    """Where a server is that runs already. It is understood, and cannot be reached yet."""
    token_env: SomeWord | None = None
    """The variable of the daemon's environment that holds the token for `url`."""
    args: tuple[Word, ...] = ()
    env: dict[EnvName, Word] = {}
    """Added to the small environment that every child gets."""
    cwd: SomeWord | None = None
    """Where it runs; by default where the daemon does."""
    tools: tuple[str, ...] | None = None
    """Whitelist; a tool that it names and the server lacks refuses the session."""
    deny: tuple[str, ...] = ()
    """Tools that are never offered; it wins over `tools`."""
    prefix: Annotated[str, Meta(pattern=PREFIX_PATTERN)] | None = None
    """What stands before the colon in its tools' names; by default the binding's name, and "" offers raw names."""
    handshake_s: Seconds | None = None
    """This server's own limit, in the place of `limits.handshake_s`."""
    call_s: Seconds | None = None
    """This server's own limit, in the place of `limits.call_s`."""
    enabled: bool = True
    """A server that is not enabled is never started; profiles that name it go without, with a warning."""


Server = str | McpSpec
"""A server that is used: a binding's name, a URL, or a table as in `[mcp]`."""

Kind = Literal["agent", "plumb", "map", "filter", "merge", "barrier", "project", "id", "copy", "discard"]


class ProcessSpec(Spec, frozen=True):
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
    command: Argv | None = None
    """The program of an `agent`: one message on stdin, one JSON value on stdout; by default `agent_command`."""
    args: tuple[Word, ...] = ()
    env: dict[EnvName, Word] = {}
    cwd: SomeWord | None = None
    prompt: str | None = None
    """What an `agent` is told to do; it reads it in its spec."""
    model: str | None = None
    """The model that an `agent` is asked to use; it reads it in its spec."""
    tools: tuple[str, ...] | None = None
    """What an `agent` may call, as in a profile; an agent that names `tools` or `mcp` is a profile of its name."""
    mcp: tuple[Server, ...] | None = None
    """Servers that an `agent` is offered whole."""
    options: dict[str, object] = {}
    """Anything else that the agent's program reads in its spec."""


class ToolSpec(Spec, frozen=True):
    """`[tools.NAME]`: one declared tool; exactly one of `process`, `mcp`, `inline`, `map` and `command` runs it."""

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
    command: Argv | None = None
    """The program and its first arguments, never a shell's line."""
    args: tuple[Word, ...] = ()
    """Further arguments, after those of `command`."""
    env: dict[EnvName, Word] = {}
    """Added to the small environment that every child gets."""
    cwd: SomeWord | None = None
    """Where it runs; by default where the daemon does."""


class ProfileSpec(Spec, frozen=True):
    """`[agents.NAME]`: what an agent under this profile may call; what is left out is not offered."""

    tools: tuple[str, ...] = ()
    """Declared tools, and single tools of servers as `PREFIX:NAME`."""
    mcp: tuple[str, ...] = ()
    """Servers that are offered whole, by the names of their bindings."""
    jobs: bool = True
    """Whether `job_wait`, `job_read`, `job_list` and `job_stop` are offered."""
    token: str | None = None
    """What a `hello` must show; taken as it is written. At most one of `token`, `token_env` and `token_file`."""
    token_env: SomeWord | None = None
    """The variable of the daemon's environment that holds the token."""
    token_file: SomeWord | None = None
    """The file that holds the token; a newline at its end does not count."""
    uid: Owners | None = None
    """Users who may open it; with `gid`, one of both is enough. A token is asked for beside them."""
    gid: Owners | None = None
    """Groups whose members may open it."""

    def __repr__(self) -> str:
        """The table without its token: what is shown ends up in logs."""
        masked = None if self.token is None else "…"
        return msgspec.Struct.__repr__(msgspec.structs.replace(self, token=masked))


class Config(Spec, frozen=True):
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
    agent_command: Argv | None = None
    """What runs an agent that has no `command`: these words, and the path of the file with its spec."""
    agents: dict[Name, ProfileSpec] = {}
    """Without any there is one, `default`, that offers every tool and every server."""
