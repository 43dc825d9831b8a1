import os
import subprocess
import sys

from tooldispatchd.children.descriptors import close_all, lift, open_pipe

# With its standard descriptors closed the next pipes get their numbers.
CLOSED = """
import os
from tooldispatchd.children.descriptors import open_pipe
os.close(0), os.close(2)
fds = []
open_pipe(fds)
open_pipe(fds)
print(min(fds) >= 3, any(map(os.get_inheritable, fds)), [fd for fd in (0, 2) if os.path.exists(f"/proc/self/fd/{fd}")])
"""


def test_a_pipe_never_takes_a_standard_descriptor() -> None:
    done = subprocess.run([sys.executable, "-c", CLOSED], stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"True False []\n"


def test_a_high_descriptor_is_left_as_it_is(nothing_left: None) -> None:
    fds: list[int] = []
    open_pipe(fds)
    assert [lift(fd) for fd in fds] == fds
    close_all(fds)


def test_the_ends_are_closed_on_exec(nothing_left: None) -> None:
    fds: list[int] = []
    open_pipe(fds)
    assert not any(os.get_inheritable(fd) for fd in fds)
    close_all(fds)
