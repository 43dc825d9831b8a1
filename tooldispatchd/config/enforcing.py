"""Whether this machine can enforce what a configuration asks of it: tried once, where anything is asked."""

import os
from typing import Final

from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.enforcement import Enforceable, programs
from tooldispatchd.children.abilities import Abilities, AbilitiesError, read_abilities

_BOUNDS: Final = ("cpu_s", "memory", "processes", "files", "file_size", "nice", "user")
_MEANS: Final = ("landlock", "bubblewrap")
_KEYS: Final = ("network", "read", "write")


def enforceable_for(catalog: Catalog) -> Enforceable:
    """What can be enforced, where any program of the catalog asks for something; nothing is tried else."""
    if not any(programs(catalog.config, catalog.profiles, catalog.servers)):
        return Enforceable()
    try:
        return enforceable_by(read_abilities())
    except AbilitiesError as error:
        return Enforceable(dict.fromkeys(_all_abilities(), str(error)))


def enforceable_by(abilities: Abilities) -> Enforceable:
    """The abilities by the names that `enforce` has for them, and what the daemon's cgroup adds."""
    lacking = {key: getattr(abilities, key) for key in _BOUNDS}
    for means in _MEANS:
        lacking |= {f"{means}.{key}": getattr(getattr(abilities, means), key) for key in _KEYS}
    lacking |= cgroup_lacks()
    return Enforceable({name: why for name, why in lacking.items() if why is not None}, is_root=os.geteuid() == 0)


def cgroup_lacks() -> dict[str, str | None]:
    """Why whole calls cannot be counted by a cgroup; None for what can."""
    # It needs trio, which those who only read a configuration have not.
    from tooldispatchd.children.leaves import LeavesError, delegated  # noqa: PLC0415  # as above

    try:
        there = (delegated() / "cgroup.controllers").read_text(encoding="ascii").split()
    except (LeavesError, OSError) as error:
        return dict.fromkeys(("memory_cgroup", "processes_cgroup"), str(error))
    named = {"memory_cgroup": "memory", "processes_cgroup": "pids"}
    return {name: None if each in there else f"the cgroup has no controller {each}" for name, each in named.items()}


def _all_abilities() -> tuple[str, ...]:
    of_means = (f"{means}.{key}" for means in _MEANS for key in _KEYS)
    return (*_BOUNDS, *of_means, "memory_cgroup", "processes_cgroup")
