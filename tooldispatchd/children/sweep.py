"""A guardian's program: wait for the daemon's end, then kill every process that it left behind, then what they made.

It runs as a script of its own (`python -I -S sweep.py RUN_ID`), so it imports the standard library only. Descriptor 0
is a pipe whose other end only the daemon holds, and from which it reads what is to go away beside processes;
descriptor 1 is the table of process groups that `guardian` describes, by whose lock one guardian sweeps at a time.
It writes no log: nothing would read it.
"""

import contextlib
import fcntl
import os
import signal
import sys
import time
from pathlib import Path

SLOT_BYTES = 8
# Bounds a sweep against a program that forks faster than it is killed.
SWEEP_S = 2.0
# A child that was being started when the daemon died shows its run id only after exec, so one empty round proves
# nothing; the second comes this much later.
ROUND_S = 0.02
QUIET_ROUNDS = 2
# A busy machine may let us look but once in that time. So many take a third of it where we are let.
LOOKS = 100
# The kernel gives no more of an environment at once.
READ_BYTES = 4096
# A number is given out a moment before its process can be seen.
UNSEEN = 8
# More than any machine starts between two looks; a list finds the others.
MAX_BORN = 1000
# A killed process leaves its cgroup a moment later.
DISSOLVE_S = 0.5

# The kinds of the daemon's messages: a directory, or a tree of cgroups; a path follows, and a NUL, which no path holds.
DIRECTORY = b"d"
CGROUPS = b"c"
END = b"\0"

# The parts of a tree of cgroups: the calls' one each, in one of their own, and beside it the daemon's.
CALLS = "calls"
DAEMON = "daemon"
# Far more than any program needs that divides what it was given.
MAX_CGROUPS = 10_000


def main(run_id: str) -> None:
    """Wait for end of input, then end what the daemon left; does not return where directories are to be removed."""
    told = b"".join(iter(lambda: os.read(0, 4096), b""))
    # Until this process ends, though it go on as another program.
    fcntl.lockf(1, fcntl.LOCK_EX)
    # The last piece is empty, or of a message that its sender did not live to finish.
    messages = told.split(END)[:-1]
    trees = [os.fsdecode(message[1:]) for message in messages if message[:1] == CGROUPS]
    for tree in trees:
        kill_cgroup(f"{tree}/{CALLS}")
    size = os.fstat(1).st_size
    kill_groups(os.pread(1, size, 0))
    # Their numbers may soon be others', and the next guardian kills by this table too.
    os.pwrite(1, bytes(size), 0)
    sweep(f"TOOLDISPATCHD_RUN_ID={run_id}".encode())
    until = time.monotonic() + DISSOLVE_S
    for tree in trees:
        while not dissolve(tree) and time.monotonic() < until:
            time.sleep(ROUND_S)
    directories = [os.fsdecode(message[1:]) for message in messages if message[:1] == DIRECTORY]
    if any(os.path.lexists(directory) for directory in directories):
        removal = Path(__file__).with_name("removal.py")
        os.execv(sys.executable, [sys.executable, "-I", "-S", str(removal), *directories])  # noqa: S606  # no shell is wanted


def kill_groups(table: bytes) -> None:
    """KILL each process group that has a slot in `table`, and what descends from its leader."""
    groups = []
    for at in range(0, len(table), SLOT_BYTES):
        group = int.from_bytes(table[at : at + SLOT_BYTES], "little")
        # 0 is a free slot; killpg(0) and killpg(1) mean our own group and everybody.
        if group > 1:
            groups.append(group)
    # Before their parents end, by whom they are known whatever else they have changed.
    descendants = descendants_of(groups)
    for group in groups:
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)
    for pid in descendants:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def descendants_of(pids: list[int]) -> list[int]:
    """All processes that descend from one of these, by the kernel's account of parents."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc") if pids else ():  # noqa: PTH208  # names are wanted
        if entry.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                # proc_pid_stat(5): the fourth field, the second behind the program's name.
                parent = int(Path(f"/proc/{entry}/stat").read_bytes().rpartition(b")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry))
    found: list[int] = []
    waiting = list(pids)
    while waiting:
        below = children.pop(waiting.pop(), [])
        found += below
        waiting += below
    return found


def sweep(mark: bytes) -> None:
    """KILL every process with `mark` in its environment, until none is found or SWEEP_S has passed."""
    until = time.monotonic() + SWEEP_S
    quiet = 0
    while quiet < QUIET_ROUNDS and time.monotonic() < until:
        newest = newest_pid()
        # Each at once when it is seen: one that goes on in a child and ends is not there any more when all are known.
        listed = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]  # noqa: PTH208  # as below
        found = [pid for pid in listed if kill(pid, mark)]
        if found:
            # Killed processes must have their turn to die.
            time.sleep(ROUND_S)
        quiet = 0 if found or chase(mark, newest) else quiet + 1


def chase(mark: bytes, newest: int) -> bool:
    """KILL what has `mark` and was started after the process `newest`; whether there was any.

    For ROUND_S, and in LOOKS looks at least. A process that does nothing but go on in a child is gone from those listed
    when they are looked at; but it is always one of the few newest. Nothing sleeps here: it must be faster than a fork.
    """
    is_found = False
    until = time.monotonic() + ROUND_S
    looks = 0
    while looks < LOOKS or time.monotonic() < until:
        looks += 1
        last = newest_pid()
        # Where the numbers have begun anew there is nothing to look at until the next list.
        for pid in range(max(newest - UNSEEN, last - MAX_BORN, 1) + 1, last + 1):
            is_found |= kill(pid, mark)
        newest = last
    return is_found


def newest_pid() -> int:
    """The number that was given to a process last; 0 where the kernel does not tell."""
    try:
        # proc(5), loadavg, the fifth field.
        fd = os.open("/proc/loadavg", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        return int(os.read(fd, 128).split()[4])
    finally:
        os.close(fd)


def is_marked(pid: str, mark: bytes) -> bool:
    """Whether the environment that `pid` was started with holds `mark`; false where we may not look."""
    try:
        # Nothing that Path adds: how fast this is decides whether a process that forks for ever is caught.
        fd = os.open(f"/proc/{pid}/environ", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        environment = b"".join(iter(lambda: os.read(fd, READ_BYTES), b""))
    except OSError:
        return False
    finally:
        os.close(fd)
    return mark in environment.split(b"\0")


def kill(pid: int, mark: bytes) -> bool:
    """KILL `pid` if it has `mark` and, once it is held by a descriptor and cannot be another any more, still has it.

    Whether it was killed.
    """
    if not is_marked(str(pid), mark):
        return False
    with contextlib.suppress(OSError):
        held = os.pidfd_open(pid)
        try:
            if is_marked(str(pid), mark):
                signal.pidfd_send_signal(held, signal.SIGKILL)
                return True
        finally:
            os.close(held)
    return False


def kill_cgroup(path: str) -> None:
    """KILL every process in a cgroup and below it."""
    try:
        # All at once, so that nothing can fork its way out.
        write(f"{path}/cgroup.kill", "1")
    except FileNotFoundError:
        # A kernel before 5.14. What is frozen cannot fork, but can be killed.
        with contextlib.suppress(OSError):
            write(f"{path}/cgroup.freeze", "1")
        kill_listed(path)
        with contextlib.suppress(OSError):
            write(f"{path}/cgroup.freeze", "0")
    except OSError:
        pass


def kill_listed(path: str) -> None:
    """KILL each process that is listed in a cgroup or below it, one by one."""
    for cgroup in cgroups_of(path):
        for pid in processes_of(cgroup):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def remove_cgroup(path: str) -> bool:
    """Remove a cgroup and what is below it, as far as no process is left there; whether nothing is left."""
    try:
        os.rmdir(path)  # noqa: PTH106  # for every call; half the cost of Path
    except FileNotFoundError:
        return True
    except OSError:
        pass
    else:
        return True
    for cgroup in reversed(cgroups_of(path)):
        with contextlib.suppress(OSError):
            Path(cgroup).rmdir()
    return not Path(path).exists()


def dissolve(tree: str) -> bool:
    """Kill what runs in the calls' cgroups of a daemon's tree and remove it; whether nothing is left.

    Where the daemon made room for controllers, they are disabled again, and the processes in its own cgroup, this one
    among them, go back to where the tree is. That cannot be while another daemon's tree beside it uses them.
    """
    above = Path(tree).parent
    kill_cgroup(f"{tree}/{CALLS}")
    if remove_cgroup(f"{tree}/{CALLS}") and Path(tree, DAEMON).exists():
        for cgroup in (tree, above):
            for controller in ("memory", "pids"):
                # Not where another cgroup beneath it uses one.
                with contextlib.suppress(OSError):
                    write(f"{cgroup}/cgroup.subtree_control", f"-{controller}")
        for pid in processes_of(f"{tree}/{DAEMON}"):
            with contextlib.suppress(OSError):
                write(f"{above}/cgroup.procs", str(pid))
    return remove_cgroup(tree)


def cgroups_of(path: str) -> list[str]:
    """A cgroup and those below it, each before what is below it; MAX_CGROUPS at most."""
    found = [path]
    for cgroup in found:
        with contextlib.suppress(OSError), os.scandir(cgroup) as entries:
            found += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        if len(found) >= MAX_CGROUPS:
            break
    return found


def processes_of(cgroup: str) -> list[int]:
    """The processes in a cgroup, without those below it; none where that cannot be read."""
    try:
        return [int(pid) for pid in Path(cgroup, "cgroup.procs").read_bytes().split()]
    except OSError:
        return []


def write(path: str, word: str) -> None:
    """Write to a file of a cgroup, which does what it says at once; raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, word.encode())
    finally:
        os.close(fd)


if __name__ == "__main__":
    main(sys.argv[1])
