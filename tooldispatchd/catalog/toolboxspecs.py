"""The toolbox in a configuration: `[toolbox.NAME]`, as `specs` has all other tables."""

from typing import Annotated, Literal

from msgspec import Meta

from tooldispatchd.catalog.policyspec import PolicySpec
from tooldispatchd.catalog.secrecy import Secret, SecretFile, SecretVariable, Spec
from tooldispatchd.catalog.speckinds import KIB, MIB, EnvName, Name, Seconds, SomeWord, Tags, Word


class SearchSpec(Spec, frozen=True, kw_only=True):
    """`search` of a toolbox: the engine that its tool asks."""

    engine: Literal["searxng", "brave", "tavily"]
    """What it speaks."""
    url: Secret[SomeWord] | None = None
    """Where it is; by default the engine's own service. SearXNG has none, and must be told."""
    token: Secret[str] | None = None
    """Its key, taken as it is written. At most one of `token`, `token_env` and `token_file`."""
    token_env: SecretVariable[SomeWord] | None = None
    """The variable of the daemon's environment that holds the key."""
    token_file: SecretFile[SomeWord] | None = None
    """The file that holds the key."""


class ToolboxSpec(PolicySpec, frozen=True, kw_only=True):
    """`[toolbox.NAME]`: a set of the tools that come with the daemon, run and shut in as this table says.

    The keys of a sandbox that are left out are those of the set.
    """

    set: Literal["files", "shell", "web", "clock", "look", "scratchpad"] | None = None
    """Which set it is; by default the one that the table is named for."""
    tools: tuple[str, ...] | None = None
    """Which of its tools are offered, by name or pattern; by default all."""
    deny: tuple[str, ...] = ()
    """Which are not."""
    prefix: Name | None = None
    """What stands before their names, with an underscore: with `docs` the tool `read` is `docs_read`. A second toolbox
    of a set needs one."""
    tags: Tags | None = None
    """Tags of each of its tools, see [tags](agents.md#tags-and-hints); by default the name of its set."""
    workspace: SomeWord = "workspace"
    """The directory in which its tools work; by default the session's [workspace](#workspaces)."""
    call_s: Seconds | None = None
    """The limit of each of its tools, in seconds, in the place of the tool's own."""
    env: dict[EnvName, Secret[Word]] = {}
    """Variables of its tools, and of the commands that they run, as of a tool."""
    guard: Literal["block", "warn", "off"] | None = None
    """For `files`: whether a file must have been read by the session, and not have changed since, before it is changed.
    `"block"`, the default, refuses; `"warn"` says so and goes on."""
    session: bool | None = None
    """For `shell`: with `true` exported variables and directory of `bash`, and what `python` has defined, live on
    between the calls of an agent."""
    hosts: tuple[SomeWord, ...] | None = None
    """For `web`: the only hosts that may be fetched from, by name or as `*.example.com`."""
    deny_hosts: tuple[SomeWord, ...] | None = None
    """For `web`: hosts that may not."""
    private: bool | None = None
    """For `web`: with `true` addresses of this machine and of private networks may be fetched from, too."""
    max_bytes: Annotated[int, Meta(ge=KIB, le=64 * MIB)] | None = None
    """For `web`: how much of a page is read, by default 8 MiB."""
    search: SearchSpec | None = None
    """For `web`: the engine of the tool `search`, which is offered only with one."""
    shared: SomeWord | None = None
    """For `scratchpad`: a directory in which the sessions of each profile share one; by default each session has its
    own."""
