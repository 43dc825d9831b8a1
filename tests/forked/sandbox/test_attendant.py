"""All that a process starts is held together by its attendant, for root and for any other user."""

import os

import pytest

from tests.daemon.spawned import until
from tests.forked.sandbox.confined import as_another, need, run_python
from tests.processes import sleepers
from tooldispatchd.forked.policy import Policy

# No other process on the machine sleeps for so long.
LONG = 4_000_000 + os.getpid()
ATTENDED = f"""
import signal, subprocess
from tooldispatchd.forked.sandbox import attendant
policy = Policy.from_json(sys.argv[2])
confine.become(policy)
confine.confine(policy, program=None, scratch=None, leaf=None, attended=True)
hide = "(env -i setsid sh -c 'echo up; exec sleep {LONG} >&-' &)"
with subprocess.Popen(["sh", "-c", "kill -9 1; kill -STOP 1; echo $PPID; " + hide], stdout=-1, stderr=-3) as shell:
    print(shell.stdout.read().split())
try:
    print(os.wait())
except ChildProcessError:
    print("no child of its own")
"""


@pytest.mark.parametrize("policy", [Policy(write=()), as_another(Policy(write=(), processes=8))])
def test_what_it_starts_cannot_signal_it_and_ends_with_it(policy: Policy) -> None:
    need("seccomp", "user_namespaces")
    said = run_python(ATTENDED, policy.to_json())
    assert said == "[b'0', b'up']\nno child of its own"
    until(lambda: not sleepers(LONG))
