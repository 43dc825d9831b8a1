"""Make tables of `[rest]` and `[tools]` of the APIs that documents of OpenAPI describe, in the configuration's table.

From here on they are like any others: nothing that runs a tool knows of OpenAPI.
"""

from collections.abc import Iterator, Mapping
from typing import Final, cast

import msgspec

from tooldispatchd.catalog.catalog import DescribedApi
from tooldispatchd.catalog.globs import NameList
from tooldispatchd.catalog.names import nearest
from tooldispatchd.catalog.openapi.adapter import AdaptedApi, adapt
from tooldispatchd.catalog.openapispec import OpenApiSpec
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.restspecs import RestApiSpec
from tooldispatchd.config.api_documents import UnusableApiError, read_source
from tooldispatchd.config.key_patterns import Table, profile_tables
from tooldispatchd.config.made_tools import MadeTools
from tooldispatchd.forked.libc import load

# Its tags choose operations, which have their own.
_SHARED: Final = frozenset(field.name for field in msgspec.structs.fields(RestApiSpec)) - {"tags"}
# What `OpenApiSpec` says otherwise than a table of `[rest]`: it promises less than who writes a type by hand.
_DEFAULTS: Final[Table] = {"output_check": "warn"}
_NO_SUCH: Final = "there is no such API in [openapi]"


def take_openapis(table: Table, environ: Mapping[str, str]) -> MadeTools:
    """Write out the APIs of a table that is well formed, in place."""
    problems: list[Problem] = []
    warnings: list[str] = []
    places: dict[Path, Path] = {}
    described: dict[str, DescribedApi] = {}
    made: dict[str, dict[str, tuple[str, ...]]] = {}
    tools = cast("Table", table.setdefault("tools", {}))
    apis = cast("Table", table.setdefault("rest", {}))
    for name, own in cast("dict[str, Table]", table.pop("openapi", {})).items():
        path: Path = ("openapi", name)
        adapted = _adapted(name, own, environ)
        problems += [msgspec.structs.replace(each, path=(*path, *each.path)) for each in adapted.problems]
        problems += _clashes(path, name, adapted, apis=apis, tools=tools)
        apis[name] = _DEFAULTS | {key: value for key, value in own.items() if key in _SHARED} | adapted.api
        places["rest", name] = path
        for key in own:
            places["rest", name, key] = (*path, key)
        for tool in adapted.tools:
            tools[tool], places["tools", tool] = adapted.table_of(tool), path
        made[name] = adapted.tags
        left_out = [f"{each.operation}: {each.why}" for each in adapted.left_out]
        described[name] = DescribedApi(adapted.operations, (*left_out, *_notes(adapted)))
        warnings += _warnings(name, adapted)
    problems += _offer(table, made)
    # What documents took while they were read goes back to the system: twice of what is kept.
    load().malloc_trim(0)
    return MadeTools(places, tuple(problems), tuple(warnings), described)


def _adapted(name: str, own: Table, environ: Mapping[str, str]) -> AdaptedApi:
    """What the table of an API makes of its document."""
    spec = msgspec.convert(own, OpenApiSpec)
    try:
        source = read_source(spec.spec, name, environ)
    except UnusableApiError as error:
        what = error.allowed and f"{error.allowed}, which fetches it"
        return AdaptedApi(problems=(Problem(("spec",), error.why, allowed=what),))
    return adapt(source, name, spec)


def _clashes(path: Path, name: str, adapted: AdaptedApi, *, apis: Table, tools: Table) -> Iterator[Problem]:
    if name in apis:
        yield Problem(path, f"[rest.{name}] is declared already, and this is one more", allowed="another name")
    taken = [tool for tool in adapted.tools if tool in tools]
    if taken:
        more = f", and {len(taken) - 1} more of its tools" if len(taken) > 1 else ""
        why = f"its tool {taken[0]} is declared already{more}"
        yield Problem(path, why, allowed='another prefix: prefix = "…"')


def _notes(adapted: AdaptedApi) -> Iterator[str]:
    """What the tools leave out of their operations."""
    for name, notes in adapted.notes.items():
        yield from (f"{adapted.operations[name]}, in part: {note}" for note in notes)


def _warnings(name: str, adapted: AdaptedApi) -> Iterator[str]:
    """A sentence of how much is left out, but what is deprecated."""
    count = sum(not each.is_deprecated for each in adapted.left_out)
    if count:
        what = "an operation of its document is" if count == 1 else f"{count} operations of its document are"
        yield f"openapi.{name}: {what} left out; check --explain says which, and why"
    if not adapted.tools and not adapted.problems:
        yield f"openapi.{name}: it offers no tool"


def _offer(table: Table, made: Mapping[str, Mapping[str, tuple[str, ...]]]) -> Iterator[Problem]:
    """Name the tools of its APIs in each profile, in place; `made` are the tags of each API's tools."""
    for section, name, profile in profile_tables(table):
        entries = cast("list[str]", profile.pop("openapi", []))
        tools = list(cast("list[str]", profile.get("tools", [])))
        for place, entry in enumerate(entries):
            api, sign, tag = entry.partition("#")
            tags = made.get(api, {})
            found = [tool for tool, own in tags.items() if not sign or any(map(NameList([tag]).admits, own))]
            if api not in made or (sign and not found):
                yield _no_such((section, name, "openapi", place), entry, made)
            tools += found
        if entries:
            profile["tools"] = list(dict.fromkeys(tools))


def _no_such(path: Path, entry: str, made: Mapping[str, Mapping[str, tuple[str, ...]]]) -> Problem:
    api, _, tag = entry.partition("#")
    if api not in made:
        return Problem(path, _NO_SUCH, value=entry, nearest=nearest(api, made))
    close = nearest(tag, dict.fromkeys(each for own in made[api].values() for each in own))
    return Problem(path, "no tool of this API has such a tag", value=entry, nearest=close and f"{api}#{close}")
