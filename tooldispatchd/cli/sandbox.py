"""What `check --sandbox` prints: what this machine can enforce on programs, found out by trying."""

from collections.abc import Iterator, Mapping
from typing import Final

from tooldispatchd.catalog.enforcement import MEANS
from tooldispatchd.children.abilities import Abilities, Means
from tooldispatchd.config.machine import BOUNDS, SHUT_IN

WIDTH: Final = 12


def report(abilities: Abilities, cgroup: Mapping[str, str | None]) -> Iterator[str]:
    """Lines for a terminal. `cgroup` says of `memory_cgroup` and `processes_cgroup` why they are not to be had."""
    yield "bounds"
    for key in BOUNDS:
        counted = ""
        if f"{key}_cgroup" in cgroup:
            why_not = cgroup[f"{key}_cgroup"]
            # A user's processes are counted anew for each call, root's only by a cgroup.
            whose = "of each process" if key == "memory" else "of other users than root"
            counted = ", of a whole call" if why_not is None else f", {whose} ({why_not})"
        yield _line(key, getattr(abilities, key), counted)
    for name in MEANS:
        means: Means = getattr(abilities, name)
        yield f"{name} {means.version}".rstrip()
        for key in SHUT_IN:
            yield _line(key, getattr(means, key))
        for gap in means.gaps:
            yield f"    {'but':{WIDTH}}{gap}"
    yield "sandbox"
    for key in SHUT_IN:
        yield _line(key, abilities.by_any(key))


def _line(key: str, why_not: str | None, more: str = "") -> str:
    return f"    {key:{WIDTH}}{'yes' if why_not is None else 'no: ' + why_not}{more}"
