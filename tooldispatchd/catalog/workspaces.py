"""A session's own directory, as the configuration speaks of it: the word, the template, who needs one. Pure.

    workspace = "/srv/agents/${profile}/${agent}"     each variable a whole segment, escaped so that no value can climb,
                                                    or be another one's: "../x" is "%2E.%2Fx", no name at all is "_"
    workspaces = ["/srv/agents/*"]                    those that a hello may name: these directories and what is in them

Links are resolved where files may be looked at (`agent.session.workspace`).
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from tooldispatchd.catalog.callgraph import PROCESS, TOOL, set_going
from tooldispatchd.catalog.confinedspec import ConfinedSpec
from tooldispatchd.catalog.confinement import Confinement
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.profiles import DEFAULT_PROFILE, Profile
from tooldispatchd.catalog.servers import Binding, path_of
from tooldispatchd.catalog.speckinds import WORKSPACE
from tooldispatchd.catalog.specs import Config, McpSpec, ProcessSpec, ToolSpec

VARIABLES: Final = ("agent", "profile", "uid")
# The segment of an agent without a name; one that is named so is escaped.
NOBODY: Final = "_"
# The kernel takes 255 bytes of one name; a longer one ends in a digest of the whole.
MAX_SEGMENT: Final = 200

_VARIABLE: Final = re.compile(r"\$\{(\w+)\}")
_PLAIN: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")
_NO_WORKSPACE: Final = "it works in a workspace, and {} has none: say workspace or workspaces there"
_NO_PROFILE: Final = (
    "it works in a workspace, and the profile of all agents has none: declare [agents.default], with a workspace and"
    " with what it offers (tools, toolboxes, mcp)"
)


class Workspace(NamedTuple):
    """A session's directory: its path without links, and the device and inode that it had when the session opened."""

    path: str
    identity: tuple[int, int]


def escaped(name: str | None) -> str:
    """A name as one segment of a path, another one for each name; neither "." nor ".."."""
    if name is None:
        return NOBODY
    raw = name.encode("utf-8", "surrogatepass")
    # A dot at its beginning would hide it, or climb.
    first = {ord(".")} if name != NOBODY else {ord(NOBODY)}
    signs = [
        chr(byte) if byte in _PLAIN and not (place == 0 and byte in first) else f"%{byte:02X}"
        for place, byte in enumerate(raw)
    ]
    if sum(map(len, signs)) <= MAX_SEGMENT:
        return "".join(signs)
    # Of ordinary names none has a "%-".
    return f"{''.join(signs[: MAX_SEGMENT // 4])}%-{hashlib.sha256(raw).hexdigest()[:32]}"


def segments(template: str, values: Mapping[str, str | None]) -> tuple[str, list[str]]:
    """What of a template is there beforehand, and the segments below it, from the first variable on, else the last."""
    words = template.rstrip("/").split("/")
    first = next((place for place, word in enumerate(words) if _VARIABLE.fullmatch(word)), len(words) - 1)
    below = [escaped(values[found[1]]) if (found := _VARIABLE.fullmatch(word)) else word for word in words[first:]]
    return "/".join(words[:first]) or "/", below


def is_within(path: str, pattern: str) -> bool:
    """Whether an absolute path is one that the pattern means, or lies in one; `*` stands for a part of one segment."""
    wanted, words = pattern.rstrip("/").split("/"), path.split("/")
    return len(words) >= len(wanted) and all(
        re.fullmatch(_segment(want), word, re.DOTALL) is not None for want, word in zip(wanted, words, strict=False)
    )


def _segment(wanted: str) -> str:
    """What one segment has to fit. Each part is found once, where it first stands: the path is an agent's word."""
    first, *others = map(re.escape, wanted.split("*"))
    between = "".join(f"(?>.*?{part})" for part in others[:-1])
    return f"{first}{between}.*{others[-1]}" if others else first


def needs_workspace(spec: ToolSpec | ProcessSpec | McpSpec) -> bool:
    """Whether a program of this table cannot run without a workspace."""
    return spec.cwd == WORKSPACE or _names_it(spec)


def _names_it(bounds: ConfinedSpec | Confinement) -> bool:
    return WORKSPACE in (*(bounds.read or ()), *(bounds.write or ()))


def workspace_problems(
    config: Config, profiles: Mapping[str, Profile], servers: Mapping[str, Binding]
) -> list[Problem]:
    """What is wrong with templates, and with what needs a workspace where none can be."""
    problems = [
        Problem(
            path_of(binding.name, config, servers), f"a shared server has no {WORKSPACE}: it is no single session's"
        )
        for binding in servers.values()
        if binding.spec.shared and needs_workspace(binding.spec)
    ]
    for path, agent in config.profile_tables().items():
        if agent.workspace is not None:
            problems += _template_problems(agent.workspace, (*path, WORKSPACE))
    # An agent process has its caller's.
    for name in config.agents or (DEFAULT_PROFILE,):
        profile = profiles.get(name)
        if profile is None or profile.has_workspace:
            continue
        problems += _without(profile, config, servers)
    return problems


def _without(profile: Profile, config: Config, servers: Mapping[str, Binding]) -> Iterator[Problem]:
    why = _NO_WORKSPACE.format(f"agents.{profile.name}") if profile.name in config.agents else _NO_PROFILE
    if _names_it(profile.confinement):
        yield Problem(("agents", profile.name), why)
    for kind, name in dict.fromkeys(node for tool in profile.tools for node in set_going(tool, config)):
        spec = config.tools[name] if kind == TOOL else config.processes[name]
        if needs_workspace(spec):
            yield Problem(("processes" if kind == PROCESS else "tools", name), why)
    for use in profile.servers:
        if needs_workspace(servers[use.server].spec):
            yield Problem(path_of(use.server, config, servers), why)


def _template_problems(template: str, path: Path) -> Iterable[Problem]:
    allowed = ", ".join(f"${{{name}}}" for name in VARIABLES)
    for word in template.split("/"):
        names = _VARIABLE.findall(word)
        if names and (names[0] not in VARIABLES or _VARIABLE.fullmatch(word) is None):
            # Two in one segment could mean one directory for two agents.
            yield Problem(path, "a variable is a whole segment of the path", value=template, allowed=allowed)
