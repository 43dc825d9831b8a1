"""What a program may use and see, put together of what its tool, its process and the caller's profile say. Pure.

    tool ──┐
    process┼─▶ tightened: the least of each bound, what each of them lets be read ─▶ Confinement
    profile┘

None asks for nothing. What a machine can do of it is `enforcement`'s business.
"""

import re
from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from tooldispatchd.catalog.confinedspec import ConfinedSpec, Sandbox
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.speckinds import TIB, OwnerId, Size

# --- sizes: a number of bytes, or a number with a binary unit, as "512M" ---

SIZE_ALLOWED: Final = 'bytes, as a number or with K, M, G or T: "512M"'
_TEXT: Final = re.compile(r"(?P<number>[0-9]{1,15}) ?(?P<unit>[KMGT]?)(?:i?B)?", re.ASCII)
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class SizeError(ValueError):
    """No size; the message says why."""


def size_of(size: Size, *, least: int = 1) -> int:
    """The bytes that `size` means, from `least` to `TIB`. Raises `SizeError`."""
    found = _TEXT.fullmatch(size) if isinstance(size, str) else None
    if isinstance(size, str):
        if found is None:
            raise SizeError("not a size")
        size = int(found["number"]) * _UNITS[found["unit"]]
    if not least <= size <= TIB:
        raise SizeError(f"out of range: at least {least} bytes, at most {TIB}")
    return size


# --- confinements ---

# Below it not even the process that starts the program has room.
LEAST_MEMORY: Final = 16 * 1024 * 1024
LEAST_SIZES: Final = {"memory": LEAST_MEMORY, "file_size": 0, "output_bytes": 1}
KEYS: Final = ConfinedSpec.__struct_fields__

_BOUNDS: Final = ("cpu_s", "memory", "processes", "files", "file_size", "output_bytes")

# A means that is asked for by name leaves less choice than any of them, and that less than as far as can be.
_STRICTEST: Final[tuple[Sandbox, ...]] = ("bubblewrap", "landlock", "required", "best-effort")

Means = Literal["landlock", "bubblewrap"]


class Confinement(msgspec.Struct, frozen=True):
    """Bounds and a sandbox. Sizes are bytes, users and groups numbers, paths absolute and without symbolic links."""

    cpu_s: int | None = None
    memory: int | None = None
    processes: int | None = None
    files: int | None = None
    file_size: int | None = None
    output_bytes: int | None = None
    nice: int | None = None
    user: int | None = None
    group: int | None = None
    network: bool = True
    read: tuple[str, ...] | None = None
    write: tuple[str, ...] | None = None
    sandbox: Sandbox | None = None

    @property
    def is_sandboxed(self) -> bool:
        """Whether it asks for anything that a sandbox enforces."""
        return not self.network or self.read is not None or self.write is not None

    def tightened(self, by: "Confinement") -> "Confinement":
        """What both allow; where they name different users, those of `by`."""
        bounds: dict[str, int | None] = {}
        for key in _BOUNDS:
            stated = [bound for bound in (getattr(self, key), getattr(by, key)) if bound is not None]
            bounds[key] = min(stated, default=None)
        sandboxes = {self.sandbox, by.sandbox}
        owner = self if by.user is None else by
        return Confinement(
            **bounds,
            nice=max((each.nice for each in (self, by) if each.nice is not None), default=None),
            user=owner.user,
            group=owner.group if by.group is None else by.group,
            network=self.network and by.network,
            read=_both(self.read, by.read),
            write=_both(self.write, by.write),
            sandbox=next((each for each in _STRICTEST if each in sandboxes), None),
        )


NOTHING: Final = Confinement()


def is_counted(bounds: ConfinedSpec | Confinement) -> bool:
    """Whether it is counted what each call uses by itself, so that no worker may serve several."""
    return bounds.memory is not None or bounds.processes is not None


def confinement_of(spec: ConfinedSpec) -> Confinement:
    """What one table asks for; `problems_of` has found nothing wrong with it."""
    read, write = spec.read, spec.write
    if read is not None:
        # A place that may be changed may be read; and a program that may read little must not write everywhere.
        write = write or ()
        read = tuple(dict.fromkeys((*read, *write)))
    return Confinement(
        cpu_s=spec.cpu_s,
        memory=_bytes(spec.memory),
        processes=spec.processes,
        files=spec.files,
        file_size=_bytes(spec.file_size),
        output_bytes=_bytes(spec.output_bytes),
        nice=spec.nice,
        user=_number(spec.user),
        group=_number(spec.group),
        network=spec.network,
        read=read,
        write=write,
        sandbox=spec.sandbox,
    )


def asked_keys(spec: ConfinedSpec) -> tuple[str, ...]:
    return tuple(key for key in KEYS if getattr(spec, key) is not None and not (key == "network" and spec.network))


def problems_of(spec: ConfinedSpec, path: Path) -> list[Problem]:
    """What is wrong with the keys of one table."""
    problems: list[Problem] = []
    for key, least in LEAST_SIZES.items():
        size: Size | None = getattr(spec, key)
        try:
            if size is not None:
                size_of(size, least=least)
        except SizeError as error:
            problems.append(Problem((*path, key), str(error), value=size, allowed=SIZE_ALLOWED))
    # A name that was not looked up would leave the program with the daemon's own rights.
    owners = {"user": spec.user, "group": spec.group}
    unknown = {key: owner for key, owner in owners.items() if isinstance(owner, str)}
    why = "this name has not been looked up"
    return problems + [Problem((*path, key), why, value=owner) for key, owner in unknown.items()]


def merge(each: Iterable[Confinement]) -> Confinement:
    """What all of them allow."""
    whole = NOTHING
    for one in each:
        whole = whole.tightened(one)
    return whole


def _bytes(size: Size | None) -> int | None:
    return None if size is None else size_of(size, least=0)


def _number(owner: OwnerId | None) -> int | None:
    return owner if isinstance(owner, int) else None


def _both(one: tuple[str, ...] | None, other: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The places that lie in one of each."""
    if one is None or other is None:
        return other if one is None else one
    inner = [a if is_below(a, b) else b for a in one for b in other if is_below(a, b) or is_below(b, a)]
    return tuple(dict.fromkeys(inner))


def is_below(path: str, place: str) -> bool:
    """Whether an absolute path is `place` or lies in it."""
    return path == place or path.startswith(place.rstrip("/") + "/")
