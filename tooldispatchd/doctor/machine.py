"""Examine the machine: versions, what the kernel bounds this user by, and what can be enforced on programs."""

import os
import platform
import re
import resource
from collections.abc import Iterator
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Final

from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.catalog.enforcement import MEANS
from tooldispatchd.catalog.speckinds import MIB
from tooldispatchd.children.abilities import AbilitiesError, read_abilities
from tooldispatchd.config.configuration import Loaded
from tooldispatchd.config.machine import BOUNDS, SHUT_IN, cgroup_lacks
from tooldispatchd.doctor.diagnosis import Diagnosis, Examiner, fine, warning, wrong
from tooldispatchd.installation import PACKAGE, install_words

OLDEST_LINUX: Final = (5, 4)
# Modules of the toolbox that need nothing but what every installation has (docs/toolbox.md).
WITHOUT_EXTRA: Final = frozenset({"clock", "scratchpad"})
# The daemon itself, its guardians and checkers; each server is one or two processes, with three pipes and a pidfd.
OWN_DESCRIPTORS: Final = 192
PER_SERVER: Final = 6
OWN_PROCESSES: Final = 8
PER_PROCESS: Final = 2
_TOOLBOX: Final = f"{PACKAGE}.toolbox."
_EXTRA: Final = re.compile(r"^([A-Za-z0-9._-]+).*extra == ['\"](\w+)['\"]")
# Linux's kernel.inotify: so few instances are used up by an editor.
LEAST_INOTIFY: Final = 16


def machine_examiners(loaded: Loaded) -> Iterator[Examiner]:
    """The checks of the machine, by what the configuration asks of it."""
    catalog = loaded.catalog
    yield Examiner("machine", "versions", _examine_versions)
    yield Examiner("machine", "extras", partial(_examine_extras, wanted_extras(loaded)))
    yield Examiner("machine", "descriptors", partial(_examine_descriptors, catalog))
    yield Examiner("machine", "processes", partial(_examine_processes, catalog))
    yield Examiner("machine", "memory", partial(_examine_memory, catalog))
    yield Examiner("machine", "inotify", _examine_inotify)
    yield Examiner("machine", "sandbox", partial(_examine_sandbox, catalog))


def machine_facts() -> dict[str, object]:
    """The part of a report about the machine: nothing that names it."""
    return {
        "tooldispatchd": metadata.version(PACKAGE),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "system": _system(),
        "cpus": os.cpu_count(),
        "is_root": os.geteuid() == 0,
        "packages": {name: _version(name) for name in sorted({*_required(None), *_required("any")})},
    }


def _examine_versions() -> Diagnosis:
    release = platform.release()
    numbers = tuple(int(each) for each in re.findall(r"\d+", release)[:2])
    said = f"{PACKAGE} {metadata.version(PACKAGE)}, Python {platform.python_version()}, Linux {release}"
    if numbers < OLDEST_LINUX:
        return wrong(said, "Linux 5.4 or newer is needed")
    lacking = [name for name in _required(None) if _version(name) is None]
    if lacking:
        return wrong(f"packages are missing: {', '.join(lacking)}", install_words(None))
    return fine(said)


def wanted_extras(loaded: Loaded) -> dict[str, str]:
    """The extras that a configuration needs, each with the table that needs it."""
    wanted: dict[str, str] = {}
    for name, spec in loaded.catalog.config.tools.items():
        module = (spec.python or "").partition(":")[0]
        if module.startswith(_TOOLBOX) and module.removeprefix(_TOOLBOX) not in WITHOUT_EXTRA:
            wanted.setdefault("toolbox", ".".join(map(str, loaded.origin(("tools", name)))))
    for name, binding in loaded.catalog.servers.items():
        if binding.spec.oauth is not None and binding.spec.oauth.grant == "private_key_jwt":
            wanted.setdefault("oauth", f"server {name}")
    for name in loaded.catalog.config.http_auth:
        wanted.setdefault("oauth", f"http_auth.{name}")
    if loaded.catalog.config.traces.endpoint is not None:
        wanted.setdefault("otel", "traces")
    return wanted


def _examine_extras(wanted: dict[str, str]) -> Diagnosis:
    for extra, table in wanted.items():
        lacking = [name for name in _required(extra) if _version(name) is None]
        if lacking:
            said = f"{table} needs the extra {extra}, of which these are missing: {', '.join(lacking)}"
            return wrong(said, install_words(extra))
    return fine(f"complete: {', '.join(wanted)}" if wanted else "none is needed")


def _required(extra: str | None) -> list[str]:
    """The packages that an extra brings, or the package itself for None; of all extras for `any`."""
    found: list[str] = []
    for line in metadata.requires(PACKAGE) or ():
        said = _EXTRA.match(line)
        own = None if said is None else said[2]
        if own == extra or (extra == "any" and own is not None):
            found.append(re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0])
    return found


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _examine_descriptors(catalog: Catalog) -> Diagnosis:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limits = catalog.config.limits
    for_one = OWN_DESCRIPTORS + PER_SERVER * len(catalog.servers) + PER_SERVER * (limits.processes or _cores() * 4)
    facts: dict[str, object] = {"soft": soft, "hard": hard}
    if hard < for_one:
        said = f"{hard:,} at most, and one agent with all servers and programs may take {for_one:,}"
        return wrong(said, "raise it: ulimit -Hn, LimitNOFILE= of the unit", **facts)
    if hard < limits.connections:
        said = f"{hard:,} at most, fewer than limits.connections ({limits.connections:,}): so many agents do not fit"
        return fine(said, "LimitNOFILE= of the unit raises it, should so many come", **facts)
    return fine(f"{hard:,} at most", None, **facts)


def _examine_processes(catalog: Catalog) -> Diagnosis:
    wanted = OWN_PROCESSES + PER_PROCESS * (len(catalog.servers) + (catalog.config.limits.processes or _cores() * 4))
    bounds = {
        "pid_max": _number(Path("/proc/sys/kernel/pid_max")),
        "cgroup": _left(_cgroup(), "pids"),
        # Root is not held back by it.
        "user": None if os.geteuid() == 0 else _finite(resource.getrlimit(resource.RLIMIT_NPROC)[1]),
    }
    known = {name: bound for name, bound in bounds.items() if bound is not None}
    facts: dict[str, object] = {**known}
    least = min(known, key=lambda name: known[name], default=None)
    if least is not None and known[least] < wanted:
        said = f"{known[least]:,} by {least}, and one agent with all servers and programs may take {wanted:,}"
        return wrong(said, "raise it: ulimit -u, TasksMax= of the unit", **facts)
    return fine(", ".join(f"{bound:,} by {name}" for name, bound in known.items()), None, **facts)


def _examine_memory(catalog: Catalog) -> Diagnosis:
    buffered = catalog.config.limits.buffered_bytes
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    most = min(filter(None, (total, _left(_cgroup(), "memory"))))
    facts: dict[str, object] = {"bytes": most, "buffered_bytes": buffered}
    said = f"{most // MIB:,} MiB"
    if most < 2 * buffered:
        advice = "lower limits.buffered_bytes, or give the daemon more"
        return warning(f"{said}, less than twice limits.buffered_bytes", advice, **facts)
    return fine(said, None, **facts)


def _examine_inotify() -> Diagnosis:
    most = _number(Path("/proc/sys/fs/inotify/max_user_instances"))
    if most is None:
        return fine("the kernel does not tell")
    if most < LEAST_INOTIFY:
        return warning(f"{most} instances", "sysctl fs.inotify.max_user_instances=128")
    return fine(f"{most} instances")


def _examine_sandbox(catalog: Catalog) -> Diagnosis:
    """Tell what can be enforced; whether programs are kept to what the configuration says, its warnings tell."""
    try:
        abilities = read_abilities()
    except AbilitiesError as error:
        return warning(str(error), "tooldispatchd check --sandbox")
    means = [f"{each} {getattr(abilities, each).version}" for each in MEANS if getattr(abilities, each).version]
    lacking = [key for key in SHUT_IN if abilities.by_any(key) is not None]
    lacking += [key for key in BOUNDS if getattr(abilities, key) is not None]
    cgroups = "no cgroups of its own" if all(cgroup_lacks().values()) else "cgroups"
    said = f"{', '.join(means) or 'neither Landlock nor bubblewrap'}; {cgroups}"
    facts: dict[str, object] = {"cannot": lacking, "lacking": dict(catalog.enforceable.lacking)}
    if lacking:
        said += f"; cannot enforce {', '.join(lacking)}"
        return fine(said, "tooldispatchd check --sandbox says why", **facts)
    return fine(said, None, **facts)


def _cores() -> int:
    return os.cpu_count() or 1


def _finite(bound: int) -> int | None:
    return None if bound == resource.RLIM_INFINITY else bound


def _cgroup() -> Path | None:
    """Our own cgroup (v2), as it is mounted usually."""
    try:
        own = Path("/proc/self/cgroup").read_text(encoding="utf-8").rpartition("0::")[2].strip()
    except OSError:
        return None
    return Path("/sys/fs/cgroup") / own.lstrip("/")


def _left(cgroup: Path | None, what: str) -> int | None:
    """The rest that a cgroup, and those around it, leave of processes or memory; None where nothing is bounded."""
    left: list[int] = []
    while cgroup is not None and cgroup.is_relative_to("/sys/fs/cgroup"):
        most, now = _number(cgroup / f"{what}.max"), _number(cgroup / f"{what}.current")
        left += [] if most is None else [max(0, most - (now or 0))]
        cgroup = cgroup.parent
    return min(left, default=None)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return ""
