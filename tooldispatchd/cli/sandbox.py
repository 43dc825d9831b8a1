"""What `check --sandbox` prints: what this machine can enforce on programs, found out by trying."""

from collections.abc import Iterator, Mapping
from typing import Final

from tooldispatchd.children.abilities import Abilities, Means

BOUNDS: Final = ("cpu_s", "memory", "processes", "files", "file_size", "nice", "user")
KEYS: Final = ("network", "read", "write")
WIDTH: Final = 12


def report(abilities: Abilities, cgroup: Mapping[str, str | None]) -> Iterator[str]:
    """Lines for a terminal. `cgroup` says of `memory_cgroup` and `processes_cgroup` why they are not to be had."""
    yield "bounds"
    for key in BOUNDS:
        yield _line(key, getattr(abilities, key), _counted(key, cgroup))
    for name in ("landlock", "bubblewrap"):
        means: Means = getattr(abilities, name)
        yield f"{name} {means.version}".rstrip()
        for key in KEYS:
            yield _line(key, getattr(means, key))
        for gap in means.gaps:
            yield f"    {'but':{WIDTH}}{gap}"
    yield "sandbox"
    for key in KEYS:
        yield _line(key, abilities.by_any(key))


def _line(key: str, why_not: str | None, more: str = "") -> str:
    return f"    {key:{WIDTH}}{'yes' if why_not is None else 'no: ' + why_not}{more}"


def _counted(key: str, cgroup: Mapping[str, str | None]) -> str:
    """What a bound counts, where a cgroup may count it."""
    if f"{key}_cgroup" not in cgroup:
        return ""
    why_not = cgroup[f"{key}_cgroup"]
    if why_not is None:
        return ", of a whole call"
    # A user's processes are counted anew for each call, root's only by a cgroup.
    whose = "of each process" if key == "memory" else "of other users than root"
    return f", {whose} ({why_not})"
