"""How it is with the MCP servers of a configuration: each is started, or reached, as the daemon would do it."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import trio

from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.globs import is_glob
from tooldispatchd.catalog.servers import Binding
from tooldispatchd.config.machine import program_of
from tooldispatchd.doctor.diagnosis import Diagnosis, Health
from tooldispatchd.doctor.examiner import Examiner
from tooldispatchd.doctor.programs import interpreter_facts
from tooldispatchd.doctor.trial import Line, Trial, TrialEndedError

# Beside its handshake: the daemon's own start, its place among those that start at once, and its last words.
BESIDE_S: Final = 20.0
MAX_NAMED: Final = 20
# The daemon's own words for what failed, and what to do about it; the first that fits.
_ADVICE: Final = (
    ("does not offer", "correct the names in tools of its table, or update the server"),
    ("No such file or directory", "install the program, or correct command (and cwd); PATH is that of this command"),
    ("Permission denied", "the user of the daemon may not execute it: chmod +x, or correct its owner"),
    ("Exec format error", "it is no program for this machine, or a script without a first line #!"),
    ("tooldispatchd login", "a person has to log in once, as it says"),
    ("HTTP 401", "correct its token, token_env, token_file or headers; is it another environment's?"),
    ("HTTP 403", "correct its token, or ask for what that may do there"),
    ("HTTP 404", "correct the path of its url"),
    ("HTTP 405", 'correct the path of its url; an older server wants transport = "sse"'),
    ("not known", "correct its url, or the name server of this machine (/etc/resolv.conf)"),
    ("No address associated", "correct its url, or the name server of this machine (/etc/resolv.conf)"),
    ("Temporary failure in name", "no name server answers: look at the network and /etc/resolv.conf"),
    ("Connection refused", "nobody listens there: start the server, or correct the port"),
    ("ertificate", "the authority that signed its certificate goes into ca"),
    ("is it http", "correct the scheme of its url"),
    ("did not answer", "a slow start has handshake_s; does it speak MCP, and does it wait for something on its stdin?"),
    ("exited with code", "run its command by hand: what is missing is an argument, or a variable of env"),
    ("ended by signal", "run its command by hand; with bounds of memory or cpu_s in its table, raise them"),
)


def server_examiners(catalog: Catalog, trial: Trial) -> Iterator[Examiner]:
    """A check for each server, with its own patience; those that are not enabled are only told."""
    for name, binding in catalog.servers.items():
        limit_s = (binding.spec.handshake_s or catalog.config.limits.handshake_s) + BESIDE_S
        yield Examiner("server", name, partial(_examine, catalog, binding, trial), limit_s)


async def _examine(catalog: Catalog, binding: Binding, trial: Trial) -> Sequence[Diagnosis]:
    name = binding.name
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
        advice = next((advice for words, advice in _ADVICE if words in failed), None)
        facts = await interpreter_facts(program_of(binding.spec), binding.spec.env)
        if advice is not None and "interpreter" in facts and "exited with code" in failed:
            advice = f"is its interpreter ({facts['interpreter']}) what it wants? {advice}"
        found = Diagnosis(
            part="server", name=name, health=Health.WRONG, said=failed, advice=advice, took_ms=took_ms, facts=facts
        )
        return [found]
    return [_offering(catalog, binding, answer, took_ms)]


def _failure(name: str, answer: Line) -> str | None:
    """Why a server cannot be used, or None."""
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
    warnings = _warnings(answer)
    health, advice = Health.FINE, None
    said = f"up, {len(tools)} {'tool' if len(tools) == 1 else 'tools'}"
    if missing:
        health, advice = Health.WRONG, "correct the names in tools and profiles, or update the server"
        said = f"up, and without tools that the configuration names: {', '.join(missing)}"
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
