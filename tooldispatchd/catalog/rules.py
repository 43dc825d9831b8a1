"""Rules about calls, as the tables say them: which go on (`when`), and which somebody is asked about (`approve`). Pure.

Each is an expression, compiled with the configuration for what its table's tools take.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal

import msgspec

from tooldispatchd.catalog.agentspec import AgentSpec
from tooldispatchd.catalog.expressions.door import Expression, ExpressionError, compile_rule
from tooldispatchd.catalog.fromschema import outline_of
from tooldispatchd.catalog.globs import NameList
from tooldispatchd.catalog.policyspec import PolicySpec
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.specs import Config, McpSpec
from tooldispatchd.catalog.types import JSON

# A table: its section, and its name there, or a server's where it has no table of its own.
Owner = tuple[str, str]
Rules = Mapping[tuple[Owner, str], Expression]
"""The compiled expressions, by table and source."""

ALWAYS: Final = "always"
DESTRUCTIVE: Final = "destructive"
_WORDS: Final = frozenset({ALWAYS, DESTRUCTIVE})


class CallRule(msgspec.Struct, frozen=True):
    """One that calls must keep to, of a table, and what is told of a call that does not."""

    owner: Owner
    source: str
    reason: str


class Approving(msgspec.Struct, frozen=True):
    """That somebody is asked: about each call, or with a `source` about those of which that is true."""

    owner: Owner
    reason: str
    source: str | None = None


def rules_of(owner: Owner, spec: PolicySpec | AgentSpec) -> tuple[CallRule, ...]:
    """Those of one table."""
    if spec.when is None:
        return ()
    if isinstance(spec.when, str):
        return (CallRule(owner, spec.when, f"only where {spec.when}"),)
    return tuple(CallRule(owner, each.rule, each.reason or f"only where {each.rule}") for each in spec.when)


def approving_of(owner: Owner, spec: PolicySpec | AgentSpec, *, is_destructive: bool) -> Approving | None:
    """When somebody is asked about calls of a tool, as one table says."""
    if spec.approve is None or (spec.approve == DESTRUCTIVE and not is_destructive):
        return None
    if spec.approve in _WORDS:
        says: Literal["each time", "about what may destroy"] = (
            "each time" if spec.approve == ALWAYS else "about what may destroy"
        )
        return Approving(owner, f"{owner[1]} asks {says}")
    return Approving(owner, f"{owner[1]} asks where {spec.approve}", spec.approve)


def is_asked_about(tool: str, config: Config) -> bool:
    """Whether rules or hooks look at calls of a declared tool: as a stage it is a call of its own then."""
    # Of processes the profiles alone have rules.
    tables: tuple[PolicySpec | AgentSpec, ...] = (
        config.tools[tool],
        *config.agents.values(),
        *config.processes.values(),
    )
    if any(spec.when is not None or spec.approve is not None for spec in tables):
        return True
    return any(NameList(hook.tools).admits(tool) for hook in config.hooks.values())


def compile_rules(
    config: Config, schemas: Mapping[str, object], placed: Iterable[tuple[Path, Owner, McpSpec]]
) -> tuple[Rules, list[Problem]]:
    """The rules of all tables, and what is wrong with them; `schemas` are those of declared tools' inputs.

    `placed` are all tables of servers, of whose tools nothing is known yet.
    """
    compiled: dict[tuple[Owner, str], Expression] = {}
    problems: list[Problem] = []
    tables: list[tuple[Path, Owner, PolicySpec | AgentSpec]] = [
        *((("tools", name), ("tools", name), tool) for name, tool in config.tools.items()),
        *placed,
        *((path, path, profile) for path, profile in config.profile_tables().items()),
    ]
    for path, owner, spec in tables:
        for place, source in _sources(path, spec):
            given = outline_of(schemas.get(owner[1], {})) if owner[0] == "tools" else JSON
            try:
                compiled[owner, source] = compile_rule(source, input_type=given)
            except ExpressionError as error:
                problems.append(Problem(place, str(error), value=source))
    return compiled, problems


def _sources(path: Path, spec: PolicySpec | AgentSpec) -> Iterator[tuple[Path, str]]:
    if isinstance(spec.when, str):
        yield (*path, "when"), spec.when
    elif spec.when is not None:
        yield from (((*path, "when", place, "rule"), each.rule) for place, each in enumerate(spec.when))
    if spec.approve is not None and spec.approve not in _WORDS:
        yield (*path, "approve"), spec.approve


def approver_problems(config: Config) -> Iterator[Problem]:
    """Each approver that is none."""
    tables = config.profile_tables()
    for path, profile in tables.items():
        asked = config.profile_spec(profile.approver) if isinstance(profile.approver, str) else None
        if isinstance(profile.approver, str) and (asked is None or asked.approver is not True):
            able = ", ".join(each for (_, each), spec in tables.items() if spec.approver is True)
            why = "no such profile has approver = true"
            yield Problem((*path, "approver"), why, value=profile.approver, allowed=able or None)
