"""The keys of a profile that stand in an agent process too: what its agents may call, and who may open it."""

from types import MappingProxyType
from typing import Final, Literal

import msgspec

from tooldispatchd.catalog.confinedspec import ConfinedSpec
from tooldispatchd.catalog.policyspec import BudgetSpec, PriorityWord, RuleSpec, SizedSpec
from tooldispatchd.catalog.secrecy import Secret, SecretFile, SecretVariable
from tooldispatchd.catalog.speckinds import CallOrder, Name, Owners, QueueName, SomeWord


class AgentSpec(SizedSpec, frozen=True, kw_only=True):
    """What an agent may call and is bounded by, and who may come in as it: keys of profiles and of agent processes."""

    toolboxes: tuple[str, ...] = ()
    """Toolboxes that are offered whole, by the names of their tables."""
    openapi: tuple[str, ...] = ()
    """APIs of documents, by the names of their tables: `"github"` is all of its tools, `"github#issues"` those with
    that tag, which may be a [pattern](agents.md#patterns)."""
    allow: tuple[str, ...] | None = None
    """Of what `tools` and `mcp` give only these names and [patterns](agents.md#patterns), and what has these
    [tags and hints](agents.md#tags-and-hints) (`"#web"`, `"@read_only"`); where neither is given, of all tools and
    servers. A name that fits no tool is a warning."""
    deny: tuple[str, ...] = ()
    """Never these names, patterns, tags and hints (`"@destructive"`); it wins over all others. Where nothing else says
    what is offered, everything but these. A name is any under which the tool can be called: its own, an alias, what its
    server calls it, or a provider's spelling; one that fits no tool is an error, or a warning where only its server can
    tell."""
    separator: Literal[":", "_", "__"] = ":"
    """What stands between a server's prefix and its tool in the names that are shown: with `"_"` `github_search`.
    `github:search` is taken too. Where two tools would be shown by one name both keep their own."""
    resolve: Literal["spelled", "lenient"] = "spelled"
    """With `lenient` a tool may be called by the last part of its name alone (`search`), where no other tool of the
    agent ends so."""
    catalog: Literal["list", "search"] = "list"
    """With `search` lists do not show the tools, but three that [find and call them](agents.md#thousands-of-tools):
    `find_tools`, `describe_tool` and `call_tool`."""
    roots: tuple[SomeWord, ...] = ()
    """Directories that servers are told of, when they ask what they should work on: paths, or `file://` URIs;
    `"workspace"` is the session's [workspace](#workspaces)."""
    workspace: SomeWord | None = None
    """The directory of a session, by default none. `${agent}`, `${profile}` and `${uid}` (the user's number) each stand
    for a whole segment of the path. See [Workspaces](#workspaces)."""
    make: bool = False
    """With `true` a `workspace` that is missing is made when the session opens, for its user alone (mode 0700): what is
    missing of it from its first variable on."""
    workspaces: tuple[SomeWord, ...] = ()
    """What `hello.workspace` may name in the place of `workspace`: these directories and what is in them, `*` being any
    part of one name. Without it a `hello` may name none."""
    warm: bool = False
    """With `true` its servers, and the parents of its Python functions, start with the daemon, and not with the first
    agent. A server that each agent has for itself waits for the first."""
    mcp_resources: bool | None = None
    """With `true` resources and prompts are offered of every server that is offered whole, as with `mcp_resources` of
    `[mcp.NAME]`, and with `false` of none; what a server's own table says comes first."""
    order: CallOrder | None = None
    """How an agent's calls run, inline ones too: `"parallel"`, as they come; `"sequential"`, one at a time in the order
    they came; `"batched:N"`, in groups of N, each when the one before it has ended. Without it the agent's `hello` may
    say one; by default they are parallel."""
    queue: QueueName | None = None
    """The [queue](#queuesname) in which all calls of its agents wait, beside those of their tools and servers. Only the
    tools for jobs, and those that find others, do not."""
    priority: PriorityWord | None = None
    """How soon they have their turns, in each queue, where neither the tool nor its server says it."""
    redact: bool = False
    """With `true` known secrets are masked in the answers of all tools, as with `redact` of a tool."""
    budget: BudgetSpec | None = None
    """What each of its agents has in all, within an hour: `{ calls, bytes, tokens }`, each by default unbounded. See
    [Budgets](policy.md#budgets)."""
    turn_budget: BudgetSpec | None = None
    """What it has in each turn of its model, where its requests say which (`turn`)."""
    when: str | tuple[RuleSpec, ...] | None = None
    """Which calls of its agents go on, of any tool, as `when` of a tool."""
    approve: str | None = None
    """Which calls of its agents somebody is asked about first, as `approve` of a tool."""
    approver: bool | Name = False
    """Who is asked: by default the agent's own channel; with a profile's name an agent of that profile, which must have
    `approver = true`, should have a token, and says in its `hello` that it answers `approve`."""
    jobs: bool = True
    """With `false` nothing runs in the background, and `job_wait`, `job_read`, `job_list`, `job_stop` are not
    offered."""
    token: Secret[str] | None = None
    """What a `hello` must show; taken as it is written. At most one of `token`, `token_env` and `token_file`."""
    token_env: SecretVariable[SomeWord] | None = None
    """The variable of the daemon's environment that holds the token."""
    token_file: SecretFile[SomeWord] | None = None
    """The file that holds the token; a newline at its end does not count."""
    uid: Owners | None = None
    """Users who may open it: numbers, names, or a list of them. With `gid`, one of both is enough. A token is asked for
    beside them."""
    gid: Owners | None = None
    """Groups whose members may open it."""
    admin: bool = False
    """With `true` its agents [administer the daemon](operating.md#administrators): they see what it does, and may
    change it. Where no profile has it, the daemon's own user and root do."""


AGENT_KEYS: Final = MappingProxyType(
    {
        field.name: field.default
        for field in msgspec.structs.fields(AgentSpec)
        if field.name not in ConfinedSpec.__struct_fields__
    }
)
"""Each key of a profile that is one of an agent process too, and its default; bounds of an agent process are those of
its own program."""
