"""What `check --sandbox` prints of a machine, whichever it is."""

import subprocess
import sys
from typing import Final

import msgspec

from tooldispatchd.children.abilities import Abilities, Means
from tooldispatchd.cli.sandbox import report

NOTHING: Final = Means(version="", network="it is off", read="it is off", write="it is off", gaps=())
ALL: Final = Abilities(
    cpu_s=None,
    memory=None,
    processes=None,
    files=None,
    file_size=None,
    nice=None,
    user=None,
    seccomp=None,
    user_namespaces=None,
    mount_namespaces=None,
    landlock=Means(version="7", network=None, read=None, write=None, gaps=("sockets in the file system",)),
    bubblewrap=NOTHING,
)
NO_CGROUP: Final = dict.fromkeys(("memory_cgroup", "processes_cgroup"), "there is none")


def test_a_machine_is_told_line_by_line() -> None:
    assert list(report(ALL, NO_CGROUP)) == [
        "bounds",
        "    cpu_s       yes",
        "    memory      yes, of each process (there is none)",
        "    processes   yes, of other users than root (there is none)",
        "    files       yes",
        "    file_size   yes",
        "    nice        yes",
        "    user        yes",
        "landlock 7",
        "    network     yes",
        "    read        yes",
        "    write       yes",
        "    but         sockets in the file system",
        "bubblewrap",
        "    network     no: it is off",
        "    read        no: it is off",
        "    write       no: it is off",
        "sandbox",
        "    network     yes",
        "    read        yes",
        "    write       yes",
    ]


def test_a_cgroup_counts_a_whole_call() -> None:
    lines = list(report(ALL, dict.fromkeys(NO_CGROUP)))
    assert lines[2:4] == ["    memory      yes, of a whole call", "    processes   yes, of a whole call"]


def test_what_no_means_can_do_is_said_with_each_reason() -> None:
    lines = list(report(msgspec.structs.replace(ALL, landlock=NOTHING), NO_CGROUP))
    assert lines[-1] == "    write       no: landlock: it is off; bubblewrap: it is off"


def test_this_machine_is_tried_without_any_configuration() -> None:
    words = [sys.executable, "-m", "tooldispatchd", "check", "--sandbox"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("bounds\n    cpu_s       yes\n")
