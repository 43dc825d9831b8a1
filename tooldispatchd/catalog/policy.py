"""What a call of one tool waits for, and what is done where it fails: all that its tables say together. Pure."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from tooldispatchd.catalog.agentspec import AgentSpec
from tooldispatchd.catalog.caching import Caching, asks_for_caching, caching_of
from tooldispatchd.catalog.globs import NameList
from tooldispatchd.catalog.names import nearest
from tooldispatchd.catalog.policyspec import Overflow, PriorityWord, SizedSpec
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.restspecs import RestApiSpec
from tooldispatchd.catalog.rules import Approving, CallRule, Owner, approving_of, rules_of
from tooldispatchd.catalog.servers import Binding
from tooldispatchd.catalog.speckinds import DURATION_S
from tooldispatchd.catalog.specs import Config, McpSpec, ToolSpec

# A table that says how calls of its tools wait, and what is done where they fail.
PolicyTable = ToolSpec | McpSpec | RestApiSpec

# Where calls wait that are in no queue of the configuration, as faults name it.
OWN_QUEUES: Final = frozenset({"agent", "job", "jobs", "opening", "programs", "agents"})

_RATE: Final = re.compile(r"(\d+)/(\w+)(?: burst (\d+))?")
_BREAKER: Final = re.compile(r"(\d+) in (\d+)(\w+), rest (\d+)(\w+)")


class Breaking(msgspec.Struct, frozen=True):
    """The breaker of a table: after so many failures in what time it rests how long."""

    owner: Owner
    failures: int
    within_s: float
    rest_s: float


class CallPolicy(msgspec.Struct, frozen=True):
    """`queues` are in the order of the file, the names in `exclusive` in that of the alphabet: calls come to them so.

    A call `is_reader` of these, or has each for itself. With `retried_by` it may be tried again, as that table says,
    and with `caching` its answer may be another call's.
    """

    queues: tuple[str, ...] = ()
    priority: PriorityWord = "normal"
    exclusive: tuple[str, ...] = ()
    is_reader: bool = False
    retried_by: Owner | None = None
    breakers: tuple[Breaking, ...] = ()
    rules: tuple[CallRule, ...] = ()
    approvings: tuple[Approving, ...] = ()
    redacts: bool = False
    caching: Caching | None = None
    max_output: int | None = None
    overflow: Overflow | None = None
    has_budget: bool = False


def policy_of(
    config: Config,
    profile: AgentSpec | None,
    *,
    tool: str | None = None,
    server: Binding | None = None,
    server_tool: str = "",
    says_read_only: bool = False,
    says_idempotent: bool = False,
    says_harmless: bool = False,
) -> CallPolicy:
    """The policy of the declared `tool`, of the `server_tool`, or of both where they are one.

    What it says is what its server says of it, or its annotations, or of a request its method; one that `says_harmless`
    destroys nothing.
    """
    tables = _tables_of(config, tool, server)
    # Of an API's tools each has its own rules and sizes.
    own_tables = {owner: table for owner, table in tables.items() if not isinstance(table, RestApiSpec)}
    ruling: dict[Owner, ToolSpec | McpSpec | AgentSpec] = {**own_tables}
    if profile is not None:
        ruling[config.profile_path(profile)] = profile
    stated: list[PolicyTable | AgentSpec] = [*tables.values(), *([] if profile is None else [profile])]
    queues = {spec.queue for spec in stated}
    own = None if tool is None else config.tools[tool].read_only
    listed = server is not None and NameList(server.spec.read_only).admits(server_tool)
    is_reader = (says_read_only or listed) if own is None else own
    asked = (approving_of(each, spec, is_destructive=not (is_reader or says_harmless)) for each, spec in ruling.items())
    retried_by = next(
        (owner for owner, table in tables.items() if _is_idempotent(table, server_tool, says=says_idempotent)), None
    )
    sized: list[SizedSpec] = [*own_tables.values(), *([] if profile is None else [profile])]
    return CallPolicy(
        queues=tuple(name for name in config.queues if name in queues),
        priority=next((spec.priority for spec in stated if spec.priority is not None), "normal"),
        exclusive=tuple(sorted({spec.exclusive for spec in tables.values() if spec.exclusive is not None})),
        is_reader=is_reader,
        retried_by=retried_by,
        breakers=tuple(breaking_of(owner, spec.breaker) for owner, spec in tables.items() if spec.breaker is not None),
        rules=tuple(rule for owner, spec in ruling.items() for rule in rules_of(owner, spec)),
        approvings=tuple(each for each in asked if each is not None),
        redacts=any(spec.redact for spec in stated),
        caching=caching_of(
            ((table, server_tool if owner[0] == "mcp" else tool or "") for owner, table in tables.items()),
            is_read_only=is_reader,
            is_idempotent=retried_by is not None,
        ),
        max_output=next((spec.max_output for spec in sized if spec.max_output is not None), None),
        overflow=next((spec.overflow for spec in sized if spec.overflow is not None), None),
        has_budget=profile is not None and has_budget(profile),
    )


def _tables_of(config: Config, tool: str | None, server: Binding | None) -> dict[Owner, PolicyTable]:
    """The tables of a tool, the nearest first."""
    tables: dict[Owner, PolicyTable] = {}
    if tool is not None:
        spec = tables["tools", tool] = config.tools[tool]
        if spec.rest is not None and spec.rest.api in config.rest:
            tables["rest", spec.rest.api] = config.rest[spec.rest.api]
    if server is not None:
        tables["mcp", server.name] = server.spec
    return tables


def has_budget(profile: AgentSpec) -> bool:
    """Whether its agents have a budget."""
    return profile.budget is not None or profile.turn_budget is not None


def asks_for_steps(spec: ToolSpec | McpSpec | AgentSpec | None) -> bool:
    """Whether a table says anything for which a call takes a step."""
    if spec is None:
        return False
    if spec.queue or spec.max_output or spec.overflow or spec.redact or spec.when or spec.approve:
        return True
    if isinstance(spec, AgentSpec):
        return has_budget(spec)
    return bool(spec.exclusive or spec.breaker or spec.idempotent or asks_for_caching(spec))


def says_store(config: Config, profile: AgentSpec | None, *, tools: Iterable[str], servers: Iterable[McpSpec]) -> bool:
    """Whether a table of a profile, or of its tools and servers, says that long answers are kept.

    It says so by itself, or with a bound and no other word.
    """
    tables = [*(config.tools[name] for name in tools), *servers, *([] if profile is None else [profile])]
    return any(spec.overflow == "store" or (spec.overflow is None and spec.max_output is not None) for spec in tables)


def _is_idempotent(table: PolicyTable, server_tool: str, *, says: bool) -> bool:
    if isinstance(table, McpSpec):
        return NameList(table.idempotent).admits(server_tool)
    # An API has tools that may be sent twice and others.
    return table.idempotent and (says or isinstance(table, ToolSpec))


def rate_of(text: str) -> tuple[float, int]:
    """How many a second, and how many at once, of a text like `10/s burst 20`."""
    found = _RATE.fullmatch(text)
    assert found is not None
    return int(found[1]) / DURATION_S[found[2]], int(found[3] or 1)


def breaking_of(owner: Owner, text: str) -> Breaking:
    """The breaker that a text like `5 in 30s, rest 10s` says."""
    found = _BREAKER.fullmatch(text)
    assert found is not None
    within_s, rest_s = int(found[2]) * DURATION_S[found[3]], int(found[4]) * DURATION_S[found[5]]
    return Breaking(owner, int(found[1]), within_s, rest_s)


def queue_problems(config: Config, placed: Iterable[tuple[Path, McpSpec]]) -> Iterator[Problem]:
    """A queue that bounds nothing, and each that is named and not declared; `placed` are all tables of servers."""
    for name, queue in config.queues.items():
        if name in OWN_QUEUES:
            yield Problem(("queues", name), "faults call one of the daemon's own queues so", value=name)
        if queue.concurrent is None and queue.per_agent is None and queue.rate is None:
            yield Problem(("queues", name), "this queue bounds nothing", allowed="concurrent, per_agent or rate")
    naming: list[tuple[Path, PolicyTable | AgentSpec]] = [
        *((("tools", name), tool) for name, tool in config.tools.items()),
        *((("rest", name), api) for name, api in config.rest.items()),
        *placed,
        *config.profile_tables().items(),
    ]
    for path, spec in naming:
        if spec.queue is not None and spec.queue not in config.queues:
            close = nearest(spec.queue, config.queues)
            yield Problem((*path, "queue"), "no such queue in [queues]", value=spec.queue, nearest=close)
