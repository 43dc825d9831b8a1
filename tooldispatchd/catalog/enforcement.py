"""What of a confinement this machine can enforce, by which means, and what it lacks. Pure: it is told what was tried.

Confinement ──┐                      ┌─▶ Enforced    all that is asked for, or with `best-effort` what there is
              ├─▶ enforce ───────────┤
Enforceable ──┘                      └─▶ lacking     each key that cannot be had, with why
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from tooldispatchd.catalog.callgraph import PROCESS, TOOL, set_going
from tooldispatchd.catalog.confinedspec import ConfinedSpec
from tooldispatchd.catalog.confinement import NOTHING, Confinement, Means, asked_keys, confinement_of, merge
from tooldispatchd.catalog.hookspec import tools_of
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.profiles import Profile
from tooldispatchd.catalog.servers import Binding, path_of, server_tool
from tooldispatchd.catalog.specs import Config

MEANS: Final[tuple[Means, ...]] = ("landlock", "bubblewrap")
# A function is no program that could be started by another.
FOR_FUNCTIONS: Final[tuple[Means, ...]] = ("landlock",)


class Enforceable(msgspec.Struct, frozen=True):
    """What a machine can enforce: for each ability that it lacks, why; what is not among them works.

    Abilities are the keys `cpu_s`, `memory`, `processes` (counted without a cgroup, for other users than root),
    `files`, `file_size`, `nice` and `user`; `memory_cgroup` and `processes_cgroup`, which count a whole call; and for
    each means what it does, `landlock.network`, `landlock.read`, `landlock.write`, `bubblewrap.network` and so on.
    """

    lacking: Mapping[str, str] = MappingProxyType({})
    is_root: bool = False

    def why_not(self, ability: str) -> str | None:
        return self.lacking.get(ability)


class Enforced(msgspec.Struct, frozen=True):
    """What will be enforced, and by which means where it takes a sandbox; `lacking` is what was asked for beside it."""

    confinement: Confinement
    means: Means | None = None
    lacking: Mapping[str, str] = MappingProxyType({})


def enforce(asked: Confinement, by: Enforceable, means: tuple[Means, ...] = MEANS) -> Enforced:
    """What can be enforced of `asked`; whether it may run without what is lacking is for `wrong` to say."""
    lacking = dict(_lacking_bounds(asked, by))
    chosen, missing = _choose(asked, by, means)
    lacking |= missing
    if not lacking:
        return Enforced(asked, chosen)
    kept = {key: None for key in lacking if key != "network"}
    if "user" in lacking:
        kept["group"] = None
    network = asked.network or "network" in lacking
    left = msgspec.structs.replace(asked, network=network, **kept)
    return Enforced(left, chosen if left.is_sandboxed else None, lacking)


def _lacking_bounds(asked: Confinement, by: Enforceable) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for key in ("cpu_s", "files", "file_size", "nice", "user"):
        why = by.why_not(key)
        if why is not None and getattr(asked, key) is not None:
            found.append((key, why))
    if asked.group is not None and asked.user is None and (why := by.why_not("user")) is not None:
        found.append(("group", why))
    if asked.memory is not None and by.why_not("memory_cgroup") and (why := by.why_not("memory")) is not None:
        found.append(("memory", why))
    if asked.processes is not None and by.why_not("processes_cgroup"):
        why = by.why_not("processes")
        if by.is_root and not asked.user:
            # The kernel's count of a user's processes does not hold root back.
            why = f"the program would run as root, whose processes only a cgroup counts: give it a user, or {_CGROUP}"
        if why is not None:
            found.append(("processes", why))
    return found


_CGROUP: Final = "let the daemon manage cgroups (systemd: Delegate=yes)"


def _choose(asked: Confinement, by: Enforceable, order: tuple[Means, ...]) -> tuple[Means | None, dict[str, str]]:
    """The means for what takes a sandbox, None where nothing does; and each key that it cannot enforce, with why."""
    wanted = {"network": not asked.network, "read": asked.read is not None, "write": asked.write is not None}
    keys = [key for key, is_asked in wanted.items() if is_asked]
    if not keys:
        return None, {}
    named = [each for each in order if each == asked.sandbox]
    if asked.sandbox in MEANS:
        if not named:
            return None, dict.fromkeys(keys, f"{asked.sandbox}: it starts programs, and this is a function")
        order = tuple(named)
    missing = {each: {key: why for key in keys if (why := by.why_not(f"{each}.{key}")) is not None} for each in order}
    best = min(order, key=lambda each: len(missing[each]))
    return best, {
        key: "; ".join(f"{each}: {missing[each][key]}" for each in order if key in missing[each])
        for key in missing[best]
    }


_Tables = tuple[tuple[Path, ConfinedSpec], ...]


class ConfinedProgram(msgspec.Struct, frozen=True):
    """A program that a profile's agents may set going: `tables` lead to the keys that it keeps to, its own first.

    `means` are those by which it can be shut in.
    """

    name: str
    tables: _Tables
    means: tuple[Means, ...] = MEANS

    @property
    def asked(self) -> Confinement:
        return merge(confinement_of(spec) for _, spec in self.tables)

    def place_of(self, key: str) -> Path:
        """Where the key stands that is asked for; `read` where it implies a `write` that is not written."""
        path, spec = self._asking(key)[0]
        return (*path, key if key in asked_keys(spec) else "read")

    def is_optional(self, key: str) -> bool:
        """Whether every table that asks for the key is content with a best effort, and no other one is not."""
        return self.asked.sandbox == "best-effort" and all(
            spec.sandbox == "best-effort" for _, spec in self._asking(key)
        )

    def _asking(self, key: str) -> list[tuple[Path, ConfinedSpec]]:
        # A table with `read` also says that nothing may be changed but what its `write` names.
        keys = {key, "read"} if key == "write" else {key}
        return [(path, spec) for path, spec in self.tables if not keys.isdisjoint(asked_keys(spec))]


def programs(
    config: Config, profiles: Mapping[str, Profile], servers: Mapping[str, Binding]
) -> Iterator[ConfinedProgram]:
    """Every program of every profile that anything is asked of; those too that agents below the profile's own run."""
    tables: Iterable[ConfinedSpec] = (
        *(*config.tools.values(), *config.processes.values(), *config.agents.values()),
        *(binding.spec for binding in servers.values()),
    )
    if not any(map(asked_keys, tables)):
        # As in most configurations, of which some are large.
        return
    for name in tools_of(config.hooks):
        means = MEANS if config.tools[name].python is None else FOR_FUNCTIONS
        program = ConfinedProgram(name, ((("tools", name), config.tools[name]),), means)
        if program.asked != NOTHING:
            yield program
    for profile in profiles.values():
        outer = config.agents.get(profile.name)
        above: _Tables = () if outer is None else ((("agents", profile.name), outer),)
        waiting = [profile.name]
        # Each profile is told once, and by itself: only what bounds others goes on to them.
        seen: set[str] = set()
        while waiting:
            below = waiting.pop()
            if below in seen:
                continue
            seen.add(below)
            for program in _programs_of(profiles[below], above, config, servers):
                if program.asked != NOTHING:
                    yield program
                path = program.tables[0][0]
                if above and path[0] == "processes" and len(path) == 2 and path[1] in profiles:
                    waiting.append(str(path[1]))


def _programs_of(
    profile: Profile, above: _Tables, config: Config, servers: Mapping[str, Binding]
) -> Iterator[ConfinedProgram]:
    """The programs of a profile's tools, those of their chains too, and of its servers; `above` bounds them as well."""
    used = dict.fromkeys(use.server for use in profile.servers)
    for name in profile.tools:
        for kind, called in set_going(name, config):
            if kind == PROCESS and config.processes[called].kind == "agent":
                yield ConfinedProgram(name, ((("processes", called), config.processes[called]), *above))
            elif kind == TOOL:
                tool = config.tools[called]
                own: _Tables = ((("tools", called), tool),)
                meant = server_tool(called, tool, servers)
                if meant is not None:
                    used[meant.binding] = None
                elif tool.command is not None or tool.python is not None:
                    means = MEANS if tool.python is None else FOR_FUNCTIONS
                    yield ConfinedProgram(name, (*own, *above), means)
    for binding in used:
        spec = servers[binding].spec
        if spec.enabled and spec.command is not None:
            own = ((path_of(binding, config, servers), spec),)
            yield ConfinedProgram(binding, own if spec.shared else (*own, *above))


def wrong(
    config: Config, profiles: Mapping[str, Profile], servers: Mapping[str, Binding], by: Enforceable
) -> tuple[list[Problem], list[str]]:
    """A problem for each thing that is asked for and cannot be had, and a warning where a best effort is enough."""
    problems: dict[Path, Problem] = {}
    warnings: dict[str, None] = {}
    for program in programs(config, profiles, servers):
        for key, why in enforce(program.asked, by, program.means).lacking.items():
            place = program.place_of(key)
            if program.is_optional(key):
                warnings[f"{'.'.join(map(str, place))} is not enforced on this machine: {why}"] = None
            else:
                problems[place] = Problem(place, f"cannot be enforced on this machine: {why}", allowed=_BEST_EFFORT)
    return list(problems.values()), list(warnings)


_BEST_EFFORT: Final = 'sandbox = "best-effort", to go without'
