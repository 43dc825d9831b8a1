"""Examine the MCP servers of a configuration: each is started, or reached, as the daemon would do it."""

from collections.abc import Iterator
from functools import partial
from typing import Final

import msgspec
import trio

from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.globs import is_glob
from tooldispatchd.catalog.servers import Binding
from tooldispatchd.client.errors import ClientError, FaultError
from tooldispatchd.config.machine import program_of
from tooldispatchd.doctor.advice import advice_for
from tooldispatchd.doctor.diagnosis import Diagnosis, Examiner, Health, fine, wrong
from tooldispatchd.doctor.programs import interpreter_facts
from tooldispatchd.doctor.trial import Trial
from tooldispatchd.wire.messages import Ready

# Beside its handshake: the daemon's own start, its place among those that start at once, and its last words.
BESIDE_S: Final = 20.0
MAX_NAMED: Final = 20


def server_examiners(catalog: Catalog, trial: Trial) -> Iterator[Examiner]:
    """A check for each server, with its own patience; those that are not enabled are only told."""
    for name, binding in catalog.servers.items():
        limit_s = (binding.spec.handshake_s or catalog.config.limits.handshake_s) + BESIDE_S
        yield Examiner("server", name, partial(_examine, catalog, binding, trial), limit_s)


async def _examine(catalog: Catalog, binding: Binding, trial: Trial) -> Diagnosis:
    if binding.left_out is not None:
        return wrong(f"left out: {binding.left_out}")
    if not binding.spec.enabled:
        return fine("not enabled, and not started")
    try:
        await trial.client.ping()
        began = trio.current_time()
        ready = await trial.open(binding.name)
    except ClientError:
        return wrong(f"it was not started: the private daemon ended: {trial.last_words()}")
    except FaultError as error:
        # Where a tool of it is required.
        failed: str | None = error.detail
    else:
        failed = next((each for each in ready.warnings if each.startswith(_head(binding))), None)
    took_ms = (trio.current_time() - began) * 1000
    if failed is None:
        found = _offering(catalog, binding, ready)
    else:
        found = await _failed(binding, failed.removeprefix(_head(binding)))
    return msgspec.structs.replace(found, took_ms=took_ms)


def _head(binding: Binding) -> str:
    """The beginning of the sentence in which the daemon says why a server cannot be used."""
    return f"server {binding.name} is not available: "


async def _failed(binding: Binding, why: str) -> Diagnosis:
    advice = advice_for(why)
    facts = await interpreter_facts(program_of(binding.spec), binding.spec.env)
    if advice is not None and "interpreter" in facts and "exited with code" in why:
        advice = f"is its interpreter ({facts['interpreter']}) what it wants? {advice}"
    return wrong(why, advice, **facts)


def _offering(catalog: Catalog, binding: Binding, ready: Ready) -> Diagnosis:
    """A server that is up: its tools, and which it lacks of those that the configuration names."""
    tools = [tool.name for tool in ready.tools]
    offered = {tool.rpartition(":")[2] if binding.prefix != "" else tool for tool in tools}
    missing = [each for each in _named(catalog, binding.name) if each not in offered]
    warnings = [each.removeprefix(f"server {binding.name}: ") for each in ready.warnings]
    health, advice = Health.FINE, None
    said = f"up, {len(tools)} {'tool' if len(tools) == 1 else 'tools'}"
    if missing:
        health, advice = Health.WRONG, "correct the names in tools and profiles, or update the server"
        said = f"up, and without tools that the configuration names: {', '.join(missing)}"
    elif warnings:
        health = Health.WARNING
    elif not tools:
        health, advice = Health.WARNING, "look at tools, allow and deny of its table, and at what it needs to be told"
    facts: dict[str, object] = {"tools": tools[:MAX_NAMED], "tool_count": len(tools)}
    return Diagnosis(health=health, said="; ".join([said, *warnings]), advice=advice, facts=facts)


def _named(catalog: Catalog, server: str) -> Iterator[str]:
    """The tools of the server that profiles and declared tools name."""
    named = {tool.server.tool: None for tool in catalog.tools.values() if tool.server and tool.server.binding == server}
    for profile in catalog.profiles.values():
        for use in profile.servers:
            names = use.only if use.server == server else None
            named |= dict.fromkeys(name for name in names or () if not is_glob(name))
    yield from named
