"""The bounds that a process is put under before its program or function runs."""

import os

import pytest

from tests.forked.sandbox.confined import as_another, need, run_confined, run_python
from tooldispatchd.forked.policy import Policy

MIB = 1 << 20


def test_a_policy_that_asks_for_nothing_changes_nothing_but_core_dumps() -> None:
    said = run_confined(
        Policy(),
        "print(resource.getrlimit(resource.RLIMIT_CORE), os.access('/', os.W_OK) == before)",
        before="import resource\nbefore = os.access('/', os.W_OK)\n",
    )

    assert said == "(0, 0) True"


def test_limits_are_those_of_the_policy() -> None:
    policy = Policy(cpu_s=5, memory=256 * MIB, files=32, file_size=4096, nice=7)

    said = run_confined(
        policy,
        "print([resource.getrlimit(kind) for kind in kinds], os.nice(0))",
        before="""import resource
kinds = [getattr(resource, "RLIMIT_" + name) for name in ("CPU", "DATA", "NOFILE", "FSIZE")]
""",
    )

    assert said == f"[(5, 6), ({256 * MIB}, {256 * MIB}), (32, 32), (4096, 4096)] 7"


def test_limits_may_be_set_again_and_are_never_raised() -> None:
    said = run_python("""
import resource
confine.set_limits(Policy(file_size=4096, cpu_s=5))
confine.set_limits(Policy(file_size=4096, cpu_s=5))
confine.set_limits(Policy(file_size=1 << 30))
print(resource.getrlimit(resource.RLIMIT_FSIZE), resource.getrlimit(resource.RLIMIT_CPU))
""")

    # Root could raise what it had; that is given up with the first limit.
    assert said == "(4096, 4096) (5, 6)"


def test_root_cannot_raise_its_limits() -> None:
    if os.getuid() != 0:
        pytest.skip("only root could")

    said = run_python("""
import resource
confine.set_limits(Policy(file_size=4096))
os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", '''
import resource
try:
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
except ValueError as error:
    print(error)
'''])
""")

    assert said == "not allowed to raise maximum limit"


def test_more_processes_than_allowed_are_refused() -> None:
    need("processes")

    said = run_confined(
        as_another(Policy(processes=3)),
        """
pids = []
try:
    while len(pids) < 10:
        pid = os.fork()
        if pid == 0:
            signal.pause()
        pids.append(pid)
except BlockingIOError as error:
    print(len(pids), error.strerror)
for pid in pids:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
""",
        before="import signal\n",
    )

    assert said == "2 Resource temporarily unavailable"


def test_two_calls_of_one_user_count_their_processes_apart() -> None:
    need("processes")

    said = run_python(
        """
policy = Policy.from_json(sys.argv[2])
confine.become(policy)
confine.prepare(policy)
codes = []
for _ in range(2):
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writer)
        confine.confine(policy, program=None, scratch=None, leaf=None)
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            os.read(reader, 1)
        os._exit(0)
    codes.append((pid, writer))
for pid, writer in codes:
    os.close(writer)
print([os.waitpid(pid, 0)[1] for pid, _ in codes])
""",
        as_another(Policy(processes=2)).to_json(),
    )

    assert said == "[0, 0]"


def test_the_processes_of_root_cannot_be_counted() -> None:
    if os.getuid() != 0:
        pytest.skip("only for root")

    said = run_python("""
try:
    confine.confine(Policy(processes=3), program=None, scratch=None, leaf=None)
except confine.ConfineError as error:
    print(error)
""")

    assert said == "cannot count the processes of a call: root is exempt, which needs `user` or a cgroup"


def test_a_function_whose_processes_are_counted_has_none_of_its_namespaces_privileges() -> None:
    need("processes")

    said = run_confined(as_another(Policy(processes=3)), "print(open('/proc/self/status').read())")

    assert "CapPrm:\t0000000000000000\nCapEff:\t0000000000000000" in said


def test_a_forker_is_worn_by_its_own_processor_time() -> None:
    # Of so long a start half a second is not spent, and a part of one is.
    said = run_python("print([confine.is_worn(Policy(cpu_s=s)) for s in (1, 0, None)])")

    assert said == "[False, True, False]"
