"""What two configurations differ in: keys, and of values only those that can hold no secret."""

import marshal
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.hookspec import HOOK_PREFIX, tools_of
from tooldispatchd.catalog.tools import DeclaredTool
from tooldispatchd.config.config_report import MAX_SHOWN, printable, rest_of

# Below a table of a name: what a tool's input is, say. What differs within one is told as one difference.
MAX_DEPTH: Final = 3
# But of these tables each name is told of: no name is a secret, and one of many has changed.
NAMED: Final = frozenset({"env", "headers"})


def differences(before: Catalog, after: Catalog) -> list[str]:
    """A line for each key that was added, removed or changed: `limits.call_s: 60.0 → 30.0`, `tools.echo: new`.

    Texts and lists are not shown: the key alone says that they changed. What was read from elsewhere, such as a token
    in a file or the signature of a function, is told of by what it belongs to.
    """
    told = [*_in_tables(_tables(before), _tables(after), ()), *_read_elsewhere(before, after)]
    return [*told[:MAX_SHOWN], *rest_of(told)]


# Compiled from the others, which are compared; and the masker, which those who read know better.
COMPILED: Final = frozenset({"config", "tools", "processes", "rules", "masker"})
COMPILED_OF_TOOL: Final = frozenset({"input", "output", "expression", "program", "feed", "rest"})
# With this one equal values give equal bytes, whatever objects they are of; keys in another order do not.
MARSHAL_VERSION: Final = 2


def are_same(before: Catalog, after: Catalog) -> bool:
    """Whether nobody could tell one from the other, secrets apart that only their maskers know.

    More than `differences` it minds what shows nowhere, such as the order of tables: tools are offered in it.
    """
    return _stated(before) == _stated(after)


def _stated(catalog: Catalog) -> tuple[object, ...]:
    tools = {
        name: [getattr(tool, field) for field in DeclaredTool.__struct_fields__ if field not in COMPILED_OF_TOOL]
        for name, tool in catalog.tools.items()
    }
    others = [getattr(catalog, name) for name in Catalog.__struct_fields__ if name not in COMPILED]
    return marshal.dumps(_tables(catalog), MARSHAL_VERSION), tools, *others


def _tables(catalog: Catalog) -> dict[str, Any]:
    tables = msgspec.to_builtins(catalog.config, builtin_types=(bytes,))
    assert isinstance(tables, dict)
    return tables


def _in_tables(before: Mapping[str, object], after: Mapping[str, object], above: tuple[str, ...]) -> Iterator[str]:
    for key in dict.fromkeys((*before, *after)):
        path = (*above, key)
        where = printable(".".join(path))
        if key not in before:
            yield f"{where}: new"
        elif key not in after:
            yield f"{where}: gone"
        else:
            old, new = before[key], after[key]
            if old == new:
                continue
            is_told_apart = len(path) < MAX_DEPTH or (len(path) == MAX_DEPTH and key in NAMED)
            if isinstance(old, dict) and isinstance(new, dict) and is_told_apart:
                yield from _in_tables(old, new, path)
            elif isinstance(old, bool | int | float) and isinstance(new, bool | int | float):
                yield f"{where}: {msgspec.json.encode(old).decode()} → {msgspec.json.encode(new).decode()}"
            else:
                yield f"{where}: changed"


def _read_elsewhere(before: Catalog, after: Catalog) -> Iterator[str]:
    for name in before.profiles.keys() & after.profiles.keys():
        if before.tokens.get(name) != after.tokens.get(name):
            yield f"agents.{name}: its token"
    for name, server in after.servers.items():
        old = before.servers.get(name)
        if old is not None and old.credentials != server.credentials:
            yield printable(f"mcp.{name}: its credentials")
    for name, api in after.apis.items():
        known = before.apis.get(name)
        if known is not None and known.credentials != api.credentials:
            yield printable(f"{name}: the credentials of an API")
    for name, tool in after.tools.items():
        same = before.tools.get(name)
        if same is None:
            continue
        if same.spec == tool.spec and same.input_schema != tool.input_schema:
            yield printable(f"tools.{name}: what it takes")
        if same.signature is not None and tool.signature is not None and same.signature.code != tool.signature.code:
            where = (
                f"hooks.{name.removeprefix(HOOK_PREFIX)}" if name in tools_of(after.config.hooks) else f"tools.{name}"
            )
            yield printable(f"{where}: code")
