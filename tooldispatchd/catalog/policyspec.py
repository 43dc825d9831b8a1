"""How calls wait for one another, and what is done where they fail: queues, and the keys that several tables share."""

from typing import Annotated, Final, Literal

from msgspec import Meta

from tooldispatchd.catalog.confinedspec import ConfinedSpec
from tooldispatchd.catalog.secrecy import Spec
from tooldispatchd.catalog.speckinds import (
    KIB,
    MIB,
    TIB,
    BreakerText,
    CacheTime,
    Count,
    ExclusiveName,
    QueueName,
    RateText,
)

PriorityWord = Literal["high", "normal", "low"]
Overflow = Literal["store", "truncate", "error"]


class QueueSpec(Spec, frozen=True, kw_only=True):
    """`[queues.NAME]`: where calls wait, of all agents together, so that not too many run at once, or not too often.

    It says at least one of `concurrent`, `per_agent` and `rate`.
    """

    concurrent: Count | None = None
    """How many calls run at once; by default as many as there are."""
    waiting: Annotated[int, Meta(ge=0, le=1_000_000)] = 1024
    """How many calls wait; more get `queue_full`, or `rate_limited` where it is the rate that holds them up. The last
    quarter is for agents of which none waits. By default as many as one agent may have waiting; with 0 none waits."""
    per_agent: Count | None = None
    """How many calls of one agent, with those of the agents that it calls, run at once."""
    rate: RateText | None = None
    """How often one begins: `"10/s"`, `"30/m"`, `"200/h"`. With `"10/s burst 20"` up to 20 may begin at once, and 10
    each second from then on. A call whose time would come after its deadline is `rate_limited` at once."""


class SizedSpec(ConfinedSpec, frozen=True, kw_only=True):
    """How much of an answer a model gets, and where the rest is.

    What a tool says comes before what its server says, and that before its profile.
    """

    max_output: Annotated[int, Meta(ge=KIB, le=TIB)] | None = None
    """How many bytes of an answer a model should get; of a longer one it gets what `overflow` says. By default what the
    agent's `hello` asks for, else 256 KiB: more than most models can read at once."""
    overflow: Overflow | None = None
    """`store`, the default: a longer answer is [kept](policy.md#long-answers), and the model gets its beginning and a
    handle with which it reads the rest. `truncate`: it gets the beginning alone. `error`: the call has failed."""


class BudgetSpec(Spec, frozen=True, kw_only=True):
    """`budget` and `turn_budget` of a profile: how much its agents may ask for, and be given."""

    calls: Count | None = None
    """Calls that run."""
    bytes: Annotated[int, Meta(ge=KIB, le=TIB)] | None = None
    """Bytes of their answers' content, as the model gets it."""
    tokens: Annotated[int, Meta(ge=256, le=TIB)] | None = None
    """Tokens of these, counted as a fourth of the bytes."""


class RuleSpec(Spec, frozen=True, kw_only=True):
    """One rule of `when`."""

    rule: str
    """An expression that is true of each call that may go on, see [Rules](policy.md#rules)."""
    reason: str | None = None
    """What the agent is told where it is not; by default the rule itself."""


class PolicySpec(SizedSpec, frozen=True, kw_only=True):
    """What holds for each call of a tool, of all tools of a toolbox, and of all tools of a server.

    What a tool and its server or its profile both say holds together: a call waits for all of it.
    """

    queue: QueueName | None = None
    """The [queue](#queuesname) in which its calls wait for their turn."""
    priority: PriorityWord | None = None
    """How soon they have it, in each queue: of 21 turns that calls of all three want, those of `high` have 16, of
    `normal` 4, of `low` one. What a tool says comes before what its server says, and that before its profile."""
    exclusive: ExclusiveName | None = None
    """What it touches, by a name: of all tools of that name only one runs at a time, for whichever agent; those that
    are `read_only` run together. `"workspace"` is the session's own [directory](#workspaces), and so nobody else's."""
    breaker: BreakerText | None = None
    """`"5 in 30s, rest 10s"`: after 5 failures in 30 s its calls are refused for 10 s, then one of them is tried, and
    all others are refused until it has ended. A failure is a fault of the category `unavailable`, or that its own limit
    passed. A toolbox's tools have one each, those of a server and of an API one together."""
    when: str | tuple[RuleSpec, ...] | None = None
    """Which calls go on: an [expression](policy.md#rules) over `input`, `agent`, `profile` and `tool`, or a list of
    `{ rule = "…", reason = "…" }`. Others are refused, with the reason."""
    approve: str | None = None
    """Which calls [somebody is asked about](policy.md#approval) first: `"always"`; `"destructive"`, those of tools that
    do not say that they destroy nothing; or those of which an expression, as in `when`, is true."""

    repair: bool | None = None
    """With `true` a text is taken for the array or the object whose JSON it holds, where the tool's schema admits that
    and no text. By default only for tools of MCP servers; without it `invalid_input` has a hint."""
    redact: bool = False
    """With `true` [known secrets](security.md#secrets) are masked in its answers and updates. An answer is masked when
    all else has been done to it."""
    cache: CacheTime | dict[str, CacheTime] | None = None
    """For how long an answer may be [given again](policy.md#the-cache) to an equal call: `"5m"`, `"off"`, or a number
    of milliseconds. Only of tools that are `read_only`, or of which a server (`readOnlyHint`) or `annotations` say so.
    In a server's table also by name or [pattern](agents.md#patterns), of which the first that fits counts:
    `{ "search_*" = "5m" }`. What a tool says comes before what its server says."""
    cache_scope: Literal["own", "shared"] | None = None
    """With `"shared"` an answer is given to whoever calls the tool; by default only under the same profile, for the
    same user and in the same workspace, and of a server that is not `shared` in the same session."""
    single_flight: bool | None = None
    """With `true` equal calls that come while one of them runs wait for [its answer](policy.md#the-cache). Only of
    tools that may be cached, or are `idempotent`."""


class CacheSpec(Spec, frozen=True, kw_only=True):
    """`[cache]`: how many answers are kept in memory, to be given again."""

    bytes: Annotated[int, Meta(ge=64 * KIB, le=TIB)] = 32 * MIB
    """How much all answers take together; those that were not asked for longest leave. It is
    a part of `limits.buffered_bytes`. One answer has an eighth at most, and never more than 4 MiB."""


POLICY_KEYS: Final = tuple(name for name in PolicySpec.__struct_fields__ if name not in ConfinedSpec.__struct_fields__)
# Those that say which answers may be given again.
CACHE_KEYS: Final = ("cache", "cache_scope", "single_flight")
