"""`[hooks.NAME]`: what is asked about each call before and after it, and about each update. Pure.

What a hook runs is a tool that nobody is offered, made with its table (`config.hooks`): `tool_of` names it.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final, Literal

from tooldispatchd.catalog.confinedspec import ConfinedSpec
from tooldispatchd.catalog.globs import NameList, is_glob
from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.secrecy import Secret
from tooldispatchd.catalog.speckinds import MIB, EnvName, Seconds, SomeWord, Word

# No `Meta` in such a union, as of owners (`speckinds`): `config.hooks` looks at what stands there.
HookRun = str | tuple[str, ...]
"""A Python function, as `package.module:function`, or a program and its arguments."""

# Of the names of the tools that hooks run.
HOOK_PREFIX: Final = "hook."
# What a hook is given, and what it answers. A decoder makes a value of that in a millisecond or two.
MAX_HOOK_BYTES: Final = 1 * MIB


class HookKind(StrEnum):
    """When a hook is asked; the key of its table that says what is run."""

    BEFORE = "before"
    AFTER = "after"
    UPDATE = "update"


class HookSpec(ConfinedSpec, frozen=True, kw_only=True):
    """`[hooks.NAME]`: a function or a program that is asked about calls; at least one of `before`, `after` and
    `update`. See [Hooks](policy.md#hooks).

    What it runs keeps to this table alone, whichever profile a call is of.
    """

    before: Secret[HookRun] | None = None
    """What is asked before the input is checked: `"package.module:function"`, or a program and its arguments."""
    after: Secret[HookRun] | None = None
    """What is asked once the tool has answered."""
    update: Secret[HookRun] | None = None
    """What is asked about each update of a call that runs."""
    tools: tuple[SomeWord, ...] = ("*",)
    """Which calls: names and [patterns](agents.md#patterns) of tools, those of servers with their prefix. By default
    all."""
    names: tuple[SomeWord, ...] = ()
    """Which tools `before` may have called in the place of the one that was asked for, by name or pattern; by default
    none. They must be among the agent's own."""
    call_s: Seconds = 10.0
    """The hook's own limit in seconds. By default more than a look at a value takes, and not yet a nuisance."""
    on_failure: Literal["refuse", "allow"] = "refuse"
    """What becomes of a call whose hook fails, passes its limit, or answers in no known shape."""
    env: dict[EnvName, Secret[Word]] = {}
    """Variables beside the [small environment](security.md#what-is-there) that every child gets."""
    cwd: SomeWord | None = None
    """Where it runs, as of a tool."""
    venv: SomeWord | None = None
    """The virtual environment, or the interpreter, that its functions run in; by default the daemon's own."""
    resident: bool = False
    """With `true` its functions run in workers that live on, as of a `python` tool: quicker, and one call can leave
    something behind for the next."""
    options: Secret[dict[str, object]] = {}
    """What its functions find as `ctx.options`."""

    def runs(self, kind: HookKind) -> HookRun | None:
        """What it runs then; None where it is not asked."""
        found: HookRun | None = getattr(self, kind.value)
        return found


def tool_of(hook: str, kind: HookKind) -> str:
    """The name of the tool that a hook runs."""
    return f"{HOOK_PREFIX}{hook}.{kind.value}"


def tools_of(hooks: Mapping[str, HookSpec]) -> list[str]:
    """The names of all tools that hooks run."""
    return [tool_of(name, kind) for name, hook in hooks.items() for kind in HookKind if hook.runs(kind) is not None]


def hook_problems(hooks: Mapping[str, HookSpec]) -> Iterator[Problem]:
    """A hook that is never asked."""
    for name, hook in hooks.items():
        if all(hook.runs(kind) is None for kind in HookKind):
            allowed = "before, after or update"
            yield Problem(("hooks", name), "this hook is asked about nothing", allowed=allowed)
        if hook.names and hook.before is None:
            yield Problem(("hooks", name, "names"), "only a hook with before may name another tool")


def idle_hooks(hooks: Mapping[str, HookSpec], tools: Iterable[str], prefixes: Iterable[str | None]) -> Iterator[str]:
    """A sentence for each name and pattern that no declared tool has, and no tool of a server could have."""
    own, servers = list(tools), list(prefixes)
    for name, hook in hooks.items():
        for entry in NameList(hook.tools).missing(own):
            # All there is may be nothing.
            if entry != "*" and not any(_may_be_of(entry, prefix) for prefix in servers):
                kind = "pattern stands for no tool" if is_glob(entry) else "name is no tool's"
                yield f'hooks.{name}: "{entry}" in tools: this {kind}'


def _may_be_of(entry: str, prefix: str | None) -> bool:
    """Whether a server with that prefix may have a tool of this entry; one without tells its prefix itself."""
    if not prefix:
        return prefix is None or ":" not in entry
    head = entry.partition("*")[0].partition("?")[0]
    return f"{prefix}:".startswith(head) or head.startswith(f"{prefix}:")
