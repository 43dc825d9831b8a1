"""Which answers of a tool may be given again, for how long and to whom; and what of that is a mistake. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from tooldispatchd.catalog.callgraph import runs_agents
from tooldispatchd.catalog.globs import NameList
from tooldispatchd.catalog.policyspec import PolicySpec
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.restspecs import RestApiSpec
from tooldispatchd.catalog.speckinds import CACHE_PATTERN, DURATION_S
from tooldispatchd.catalog.specs import Config, McpSpec, ToolSpec
from tooldispatchd.catalog.tools import DeclaredTool

CacheTable = PolicySpec | RestApiSpec

OFF: Final = "off"
_TIMES: Final = '"5m" (ms, s, m, h or d), "off", or a number of milliseconds'
_CACHE: Final = re.compile(CACHE_PATTERN)
_TIME: Final = re.compile(r"(\d+)(\w+)")


class Caching(msgspec.Struct, frozen=True):
    """An answer may be given again for `keeps_s` seconds, 0 for never, to whoever `is_shared` says: all, or those that
    show what its caller showed. Equal calls in flight are one where they `is_joined`.
    """

    keeps_s: float = 0.0
    is_shared: bool = False
    is_joined: bool = False


def caching_of(tables: Iterable[tuple[CacheTable, str]], *, is_read_only: bool, is_idempotent: bool) -> Caching | None:
    """What the tables of one tool say together, the nearest first, each with what the tool is called there; None where
    nothing comes of it.
    """
    named = list(tables)
    specs = [spec for spec, _ in named]
    kept = next((given for spec, name in named if (given := _given(spec, name)) is not None), OFF)
    scope = next((spec.cache_scope for spec in specs if spec.cache_scope is not None), "own")
    joined = next((spec.single_flight for spec in specs if spec.single_flight is not None), False)
    caching = Caching(
        keeps_s_of(kept) if is_read_only else 0.0, scope == "shared", joined and (is_read_only or is_idempotent)
    )
    return caching if caching.keeps_s or caching.is_joined else None


def asks_for_caching(spec: CacheTable) -> bool:
    """Whether a table says anything of it."""
    return any(_says(spec, key) for key in ("cache", "single_flight"))


def _given(spec: CacheTable, name: str) -> int | str | None:
    if isinstance(spec.cache, dict):
        return next((kept for names, kept in spec.cache.items() if NameList([names]).admits(name)), None)
    return spec.cache


def keeps_s_of(kept: int | str) -> float:
    """The seconds that are meant by a value of `cache`."""
    if isinstance(kept, int):
        return kept / 1000
    found = _TIME.fullmatch(kept)
    return 0.0 if found is None else int(found[1]) * DURATION_S[found[2]]


def caching_problems(
    config: Config, tools: Mapping[str, DeclaredTool], placed: Iterable[tuple[Path, McpSpec]]
) -> Iterator[Problem]:
    """All that is wrong with what tools, servers and APIs say of it; `placed` are all tables of servers."""
    for name, tool in tools.items():
        path: Path = ("tools", name)
        yield from _form_problems(path, tool.spec)
        if isinstance(tool.spec.cache, dict):
            why = "a tool's answers are all kept for one time"
            yield Problem((*path, "cache"), why, allowed=f"{_TIMES}; a table of names is for servers and APIs")
        elif stated := [key for key in ("cache", "single_flight") if _says(tool.spec, key)]:
            why_not = _why_never(name, tool, config)
            yield from (Problem((*path, key), why_not) for key in stated if why_not is not None)
            if why_not is None and tool.server is None:
                yield from _read_only_problems(path, tool)
        elif tool.spec.cache_scope is not None and tool.server is None and not _api_asks(tool.spec, config):
            yield Problem((*path, "cache_scope"), "it means nothing without cache or single_flight")
    apis: list[tuple[Path, CacheTable]] = [(("rest", name), api) for name, api in config.rest.items()]
    for path, spec in (*placed, *apis):
        yield from _form_problems(path, spec)
        if spec.cache_scope is not None and not asks_for_caching(spec):
            yield Problem((*path, "cache_scope"), "it means nothing without cache or single_flight")


def caching_warnings(servers: Mapping[str, McpSpec]) -> list[str]:
    """A sentence for each server of which only some tools may be cached, and the table does not say which."""
    return [
        f"mcp.{name}: only tools are cached of which it says that they only read (readOnlyHint); read_only names more"
        for name, spec in servers.items()
        if spec.enabled and not spec.read_only and _says(spec, "cache")
    ]


def _api_asks(spec: ToolSpec, config: Config) -> bool:
    return spec.rest is not None and spec.rest.api in config.rest and asks_for_caching(config.rest[spec.rest.api])


def _says(spec: CacheTable, key: str) -> bool:
    value = getattr(spec, key)
    return bool(value) and value != OFF


def _form_problems(path: Path, spec: CacheTable) -> Iterator[Problem]:
    """Values that no time can be read from."""
    kept = spec.cache.items() if isinstance(spec.cache, dict) else [(None, spec.cache)]
    for name, value in kept:
        is_time = value is None or (value >= 0 if isinstance(value, int) else _CACHE.fullmatch(value) is not None)
        if not is_time:
            place = (*path, "cache") if name is None else (*path, "cache", name)
            yield Problem(place, "for how long is not to be read from this", value=value, allowed=_TIMES)


def _why_never(name: str, tool: DeclaredTool, config: Config) -> str | None:
    """Why no answer of the tool can stand for that to another call, whatever its table says."""
    spec = tool.spec
    if spec.inline is not None or spec.map is not None or (tool.program is not None and tool.program.is_now):
        return "its answer is computed sooner than it would be found"
    if spec.state:
        return "its answers depend on the state that it keeps"
    if spec.mode is not None:
        return "its calls are jobs, each with a result of its own"
    if runs_agents(name, config):
        return "it runs an agent, which answers anew each time"
    return None


def _read_only_problems(path: Path, tool: DeclaredTool) -> Iterator[Problem]:
    spec, hints = tool.spec, None if tool.rest is None else tool.rest.hints
    says = hints is not None and hints.read_only_hint is True
    is_read_only = says if spec.read_only is None else spec.read_only
    if _says(spec, "cache") and not is_read_only:
        why = "a tool that may change something has to be called"
        yield Problem((*path, "cache"), why, allowed="read_only = true beside it, if it changes nothing")
    if spec.single_flight and not (is_read_only or spec.idempotent):
        why = "calls of a tool that may change something are not one"
        yield Problem((*path, "single_flight"), why, allowed="read_only = true or idempotent = true beside it")
