"""Examine the MCP servers of a configuration: each is started, or reached, as the daemon would do it."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import trio

from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.globs import is_glob
from tooldispatchd.catalog.servers import Binding
from tooldispatchd.config.machine import program_of
from tooldispatchd.doctor.advice import advice_for
from tooldispatchd.doctor.diagnosis import Diagnosis, Health
from tooldispatchd.doctor.examiner import Examiner
from tooldispatchd.doctor.programs import interpreter_facts
from tooldispatchd.doctor.trial import Line, Trial, TrialEndedError

# Beside its handshake: the daemon's own start, its place among those that start at once, and its last words.
BESIDE_S: Final = 20.0
MAX_NAMED: Final = 20


def server_examiners(catalog: Catalog, trial: Trial) -> Iterator[Examiner]:
    """A check for each server, with its own patience; those that are not enabled are only told."""
    for name, binding in catalog.servers.items():
        limit_s = (binding.spec.handshake_s or catalog.config.limits.handshake_s) + BESIDE_S
        yield Examiner("server", name, partial(_examine, catalog, binding, trial), limit_s)


async def _examine(catalog: Catalog, binding: Binding, trial: Trial) -> Sequence[Diagnosis]:
    name = binding.name
    if binding.left_out is not None:
        return [Diagnosis(part="server", name=name, health=Health.WRONG, said=f"left out: {binding.left_out}")]
    if not binding.spec.enabled:
        return [Diagnosis(part="server", name=name, said="not enabled, and not started")]
    try:
        await trial.start()
        began = trio.current_time()
        answer = await trial.open(name)
    except TrialEndedError as error:
        why = f"it was not started: the private daemon ended: {error}"
        return [Diagnosis(part="server", name=name, health=Health.WRONG, said=why)]
    took_ms = (trio.current_time() - began) * 1000
    failed = _failure(name, answer)
    if failed is not None:
        advice = advice_for(failed)
        facts = await interpreter_facts(program_of(binding.spec), binding.spec.env)
        if advice is not None and "interpreter" in facts and "exited with code" in failed:
            advice = f"is its interpreter ({facts['interpreter']}) what it wants? {advice}"
        found = Diagnosis(
            part="server", name=name, health=Health.WRONG, said=failed, advice=advice, took_ms=took_ms, facts=facts
        )
        return [found]
    return [_offering(catalog, binding, answer, took_ms)]


def _failure(name: str, answer: Line) -> str | None:
    """The reason why a server cannot be used, or None."""
    head = f"server {name} is not available: "
    if answer.get("__port") == "fault":
        # Where a tool of it is required.
        return str(answer.get("detail")).removeprefix(head)
    return next((each.removeprefix(head) for each in _warnings(answer) if each.startswith(head)), None)


def _warnings(answer: Line) -> list[str]:
    said = answer.get("warnings")
    return list(map(str, said)) if isinstance(said, list) else []


def _offering(catalog: Catalog, binding: Binding, answer: Line, took_ms: float) -> Diagnosis:
    """A server that is up: its tools, and which it lacks of those that the configuration names."""
    tools = _tools(answer)
    offered = {tool.rpartition(":")[2] if binding.prefix != "" else tool for tool in tools}
    missing = [each for each in _named(catalog, binding.name) if each not in offered]
    warnings = [each.removeprefix(f"server {binding.name}: ") for each in _warnings(answer)]
    health, advice = Health.FINE, None
    said = f"up, {len(tools)} {'tool' if len(tools) == 1 else 'tools'}"
    if missing:
        health, advice = Health.WRONG, "correct the names in tools and profiles, or update the server"
        said = f"up, and without tools that the configuration names: {', '.join(missing)}"
        said = "; ".join([said, *warnings])
    elif warnings:
        health, said = Health.WARNING, f"{said}; {'; '.join(warnings)}"
    elif not tools:
        health, advice = Health.WARNING, "look at tools, allow and deny of its table, and at what it needs to be told"
    facts: dict[str, object] = {"tools": tools[:MAX_NAMED], "tool_count": len(tools)}
    name = binding.name
    return Diagnosis(part="server", name=name, health=health, said=said, advice=advice, took_ms=took_ms, facts=facts)


def _tools(answer: Line) -> list[str]:
    tools = answer.get("tools")
    return [str(tool.get("name")) for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []


def _named(catalog: Catalog, server: str) -> Iterator[str]:
    """The tools of the server that profiles and declared tools name."""
    named = {tool.server.tool: None for tool in catalog.tools.values() if tool.server and tool.server.binding == server}
    for profile in catalog.profiles.values():
        for use in profile.servers:
            names = use.only if use.server == server else None
            named |= dict.fromkeys(name for name in names or () if not is_glob(name))
    yield from named
