"""What this machine can enforce on a program, found out by trying, in a process of its own."""

import subprocess
import sys
from pathlib import Path

import msgspec

from tooldispatchd.children.inheritance import environment
from tooldispatchd.forked import policy

PROBE_S = 10.0
"""The trials take about 100 ms; a machine that is busy takes longer, one that hangs is not waited for."""

MAX_WORDS = 500
"""Of a probe's complaint, in an error."""


class AbilitiesError(Exception):
    """The probe came to no result; the message says why."""


class Means(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One way to shut a program in: for each key None, or why it cannot be enforced by it."""

    version: str
    """Landlock's ABI, or bubblewrap's version; empty where the machine lacks it."""
    network: str | None
    read: str | None
    write: str | None
    gaps: tuple[str, ...]
    """Gaps that it leaves on this machine though all keys are enforced."""


class Abilities(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """For each key of a tool, and each thing that enforces several: None, or why this machine cannot do it."""

    cpu_s: str | None
    memory: str | None
    """Of each process; of a whole call only by a cgroup, of which nothing is tried here."""
    processes: str | None
    """For a program that does not run as root, which is exempt from all but a cgroup's count."""
    files: str | None
    file_size: str | None
    nice: str | None
    user: str | None
    seccomp: str | None
    user_namespaces: str | None
    mount_namespaces: str | None
    """Where None, files outside `write` keep their attributes by mounts that are read-only; else by a filter that
    refuses to change any file's mode, owner or attributes, inside `write` too."""
    landlock: Means
    bubblewrap: Means

    def by_any(self, key: str) -> str | None:
        """Why no means can enforce `key` (`network`, `read`, `write`); None where one can."""
        by_landlock, by_bubblewrap = getattr(self.landlock, key), getattr(self.bubblewrap, key)
        if by_landlock is None or by_bubblewrap is None:
            return None
        return f"landlock: {by_landlock}; bubblewrap: {by_bubblewrap}"


def read_abilities() -> Abilities:
    """Try everything, which takes about 100 ms; raises AbilitiesError where that comes to no result."""
    start = str(Path(policy.__file__).with_name("start.py"))
    # The interpreter alone, as forkers have it: what is tried must not depend on what the daemon has imported.
    argv = [sys.executable, "-I", "-S", start, "abilities"]
    try:
        done = subprocess.run(  # noqa: S603  # our own
            argv,
            # As programs are started: no trial needs the daemon's secrets.
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_S,
            check=False,
        )
        return msgspec.json.decode(done.stdout, type=Abilities)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AbilitiesError(f"cannot find out what this machine can enforce: {error}") from error
    except msgspec.MsgspecError as error:
        said = done.stderr.decode(errors="replace").strip()[-MAX_WORDS:]
        raise AbilitiesError(f"cannot find out what this machine can enforce: {said or error}") from error
