"""Which processes descend from this one."""

import os
import subprocess
import sys
import time

from tooldispatchd.children.ancestry import is_descendant

# It starts one more, tells its number, and both live until their stdin ends.
PARENT = "import subprocess, sys; child = subprocess.Popen(['cat']); print(child.pid, flush=True); child.wait()"


def now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def test_children_and_theirs_descend_from_this_process_and_what_started_it_does_not() -> None:
    words = [sys.executable, "-I", "-S", "-c", PARENT]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        grandchild = int(child.stdout.readline())
        found = [is_descendant(pid, seen_at=now()) for pid in (os.getpid(), child.pid, grandchild, os.getppid(), 1)]
        assert child.stdin is not None
        child.stdin.close()
    assert found == [True, True, True, False, False]


def test_of_a_process_that_is_gone_or_has_the_number_of_another_one_nothing_is_known() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        assert is_descendant(child.pid, seen_at=now() - 60) is None
    assert is_descendant(child.pid, seen_at=now()) is None
