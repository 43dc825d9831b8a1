"""What tools are chosen by beside their names: tags (`#files`), and hints at what they do (`@read_only`). Pure.

No tool's name begins so, and how an entry of a list begins says what it is matched against. A hint is there where a
tool, its server or its request says so; a tool that says nothing has none.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Raw

from tooldispatchd.catalog.globs import NameList, is_glob
from tooldispatchd.catalog.names import nearest
from tooldispatchd.catalog.offered import annotations_in
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.restspecs import AnnotationsSpec
from tooldispatchd.catalog.servers import Binding, server_tool
from tooldispatchd.catalog.specs import Config, McpSpec, ToolSpec

# The traits of each tool, by its name.
Traits = Mapping[str, tuple[str, ...]]

TAG: Final = "#"
HINT: Final = "@"
READ_ONLY: Final = "@read_only"
IDEMPOTENT: Final = "@idempotent"
# Each hint, and what it is called among the annotations of an MCP server's tool.
HINTS: Final = {
    READ_ONLY: "readOnlyHint",
    "@destructive": "destructiveHint",
    IDEMPOTENT: "idempotentHint",
    "@open_world": "openWorldHint",
}


def is_trait(entry: str) -> bool:
    """Whether an entry of a list is of tags or of hints."""
    return entry.startswith((TAG, HINT))


class Choice:
    """The tools that the entries of a list stand for: names, tags, hints, and patterns of each."""

    __slots__ = ("_names", "_traits")

    def __init__(self, entries: Iterable[str]) -> None:
        entries = tuple(entries)
        self._names = NameList(entry for entry in entries if not is_trait(entry))
        self._traits = NameList(entry for entry in entries if is_trait(entry))

    def admits(self, name: str, traits: Iterable[str]) -> bool:
        """Whether an entry stands for the tool."""
        return self._names.admits(name) or any(map(self._traits.admits, traits))


def tags_of(tool: ToolSpec | None, server: McpSpec | None = None) -> tuple[str, ...]:
    """The tags of a declared tool, of a server's, or of one that is both."""
    tags = (*(() if tool is None else tool.tags), *(() if server is None else server.tags))
    return tuple(dict.fromkeys(tags))


def tagged_by_apis(config: Config) -> Config:
    """The configuration with the tags of each API at its tools."""
    of_apis = {name: api.tags for name, api in config.rest.items() if api.tags}
    tools = {
        name: msgspec.structs.replace(tool, tags=tuple(dict.fromkeys((*tool.tags, *of_apis[tool.rest.api]))))
        for name, tool in config.tools.items()
        if tool.rest is not None and tool.rest.api in of_apis
    }
    return msgspec.structs.replace(config, tools={**config.tools, **tools}) if tools else config


def hints_in(annotations: Raw | None) -> tuple[str, ...]:
    """The hints that a server gives of its tool."""
    said = annotations_in(annotations)
    return tuple(hint for hint, key in HINTS.items() if said.get(key) is True)


def traits_of(
    tool: ToolSpec | None, server: McpSpec | None = None, *, server_tool: str = "", hints: Iterable[str] = ()
) -> tuple[str, ...]:
    """The traits of a declared tool, of a server's, or of one that is both; `hints` are those of its annotations.

    What the tables say of a tool comes before its annotations.
    """
    found = set(hints)
    if server is not None:
        listed = ((READ_ONLY, server.read_only), (IDEMPOTENT, server.idempotent))
        found |= {hint for hint, names in listed if NameList(names).admits(server_tool)}
    if tool is not None:
        found |= {IDEMPOTENT} if tool.idempotent else set()
        found = found if tool.read_only is None else found - {READ_ONLY} | ({READ_ONLY} if tool.read_only else set())
    return (*(TAG + tag for tag in tags_of(tool, server)), *sorted(found))


def hints_said(said: AnnotationsSpec) -> tuple[str, ...]:
    """The hints in the annotations of a declared tool."""
    return tuple(hint for hint in HINTS if getattr(said, f"{hint[1:]}_hint"))


def trait_problems(config: Config, servers: Mapping[str, Binding]) -> Iterator[Problem]:
    """A problem for each tag and hint in a profile that no tool can have: what it should keep away would stay."""
    known: dict[str, None] | None = None
    for table, profile in config.profile_tables().items():
        for key, entries in (("allow", profile.allow or ()), ("deny", profile.deny)):
            for place, entry in enumerate(entries):
                if is_trait(entry) and not is_glob(entry):
                    known = known or _all_traits(config, servers)
                    if entry not in known:
                        why = "no tool has this tag" if entry.startswith(TAG) else "there is no such hint"
                        path: Path = (*table, key, place)
                        yield Problem(path, why, value=entry, nearest=nearest(entry, known))


def _all_traits(config: Config, servers: Mapping[str, Binding]) -> dict[str, None]:
    tags = [tag for tool in config.tools.values() for tag in tool.tags]
    tags += [tag for server in servers.values() for tag in server.spec.tags]
    return dict.fromkeys([*HINTS, *(TAG + tag for tag in tags)])


def declared_traits(config: Config, servers: Mapping[str, Binding], said: Mapping[str, AnnotationsSpec]) -> Traits:
    """The traits of each declared tool, as far as the configuration tells; `said` are the hints of requests."""
    found: dict[str, tuple[str, ...]] = {}
    for name, spec in config.tools.items():
        at = server_tool(name, spec, servers)
        server = None if at is None or at.binding not in servers else servers[at.binding].spec
        hints = hints_said(said[name]) if name in said else ()
        found[name] = traits_of(spec, server, server_tool="" if at is None else at.tool, hints=hints)
    return found
