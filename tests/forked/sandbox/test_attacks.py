"""Programs that are shut in try to get out: as root and as another user, by Landlock and by bubblewrap."""

import json
import os
import pty
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.forked.sandbox import attacker
from tests.forked.sandbox.confined import ROOT, abilities, lack_of
from tooldispatchd.forked.policy import Policy
from tooldispatchd.forked.sandbox import seccomp

ANOTHER = 54_321 if os.getuid() == 0 else os.getuid()
WAYS = [("landlock", 0), ("landlock", 1), ("bubblewrap", 0), ("bubblewrap", 1)]
ATTEMPTS = [name for name in attacker.attempts() if name.startswith("try_")]
LIBERTIES = [name for name in attacker.attempts() if name.startswith("may_")]

# Of these none comes from an attempt that was made wrongly.
REFUSALS = {f"refused {name}" for name in ("EPERM", "EACCES", "EROFS", "ENOENT", "ESRCH", "EXDEV")}
OTHERWISE = {
    "try_clone3": {"refused ENOSYS"},
    "try_io_uring": {"refused ENOSYS"},
    "try_x32": {"refused ENOSYS"},
    "try_shared_memory": {"refused ENOSYS"},
    # The user is none of the namespace's.
    "try_set_user": {"refused EPERM", "refused EINVAL"},
}

RUNNER = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from tooldispatchd.forked.sandbox import bubble, confine
from tooldispatchd.forked.policy import Policy
sys.path[0] = sys.argv[2]
from tests.forked.sandbox import attacker
policy, field = Policy.from_json(sys.argv[3]), json.loads(sys.argv[4])
python = sys.argv[5]
confine.become(policy)
prepared = confine.prepare(policy)
os.chdir(field["write"])
confine.confine(policy, program=None, scratch=field["scratch"], leaf=None)
if policy.means == "landlock":
    print(json.dumps(attacker.attack(field)))
else:
    code = bubble.filter_descriptor(prepared.code)
    argv = [python, "-I", "-S", "-B", "-c", sys.argv[7], sys.argv[2], json.dumps(field)]
    also = [sys.argv[2], *json.loads(sys.argv[6])]
    argv = bubble.wrap(policy, argv, cwd=None, scratch=field["scratch"], seccomp_fd=code, program=python, also=also)
    os.execv(argv[0], argv)
"""

# Where this process itself cannot be shut in, a new one is.
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from tests.forked.sandbox.attacker import main
main(sys.argv[2])
"""


class Field(NamedTuple):
    """What there is to attack, and what came of it."""

    directory: Path
    outcomes: dict[str, str]
    victim: "subprocess.Popen[bytes]"
    datagrams: socket.socket


def why_not(means: str, uid: int) -> str | None:
    """Why this cannot be tried on this machine."""
    if uid == 0 and os.getuid() != 0:
        return "only root can try what root can"
    able = abilities().landlock if means == "landlock" else abilities().bubblewrap
    return lack_of(able, "network", "read", "write") or (abilities().mount_namespaces if means == "landlock" else None)


@pytest.fixture(
    scope="module", params=[("landlock", 0), ("landlock", 1), ("bubblewrap", 0), ("bubblewrap", 1)], ids=str
)
def field(request: pytest.FixtureRequest) -> Iterator[Field]:
    means, other = request.param
    uid = ANOTHER if other else 0
    if (why := why_not(means, uid)) is not None:
        pytest.skip(why)
    with ExitStack() as stack:
        yield fight(stack, means, uid)


def fight(stack: ExitStack, means: str, uid: int) -> Field:
    directory = lay_out(stack, uid)
    owner = {"user": uid, "group": uid, "extra_groups": []} if os.getuid() == 0 else {}
    victim = subprocess.Popen(  # type: ignore[call-overload]  # of its many forms none takes a dictionary
        ["victim", "60"],
        executable="/bin/sleep",
        env={"SECRET": "victim"},
        cwd=directory,
        stdin=subprocess.PIPE,
        **owner,
    )
    stack.callback(end, victim)
    tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    stream, abstract, datagrams = (
        stack.enter_context(socket.socket(socket.AF_UNIX, kind))
        for kind in (socket.SOCK_STREAM, socket.SOCK_STREAM, socket.SOCK_DGRAM)
    )
    for one, address in ((stream, f"{directory}/stream"), (datagrams, f"{directory}/datagrams")):
        one.bind(address)
        Path(address).chmod(0o777)
    abstract.bind("")
    stream.listen()
    abstract.listen()
    ours, theirs = pty.openpty()
    stack.callback(os.close, ours)
    stack.callback(os.close, theirs)
    told = {
        "secret": f"{directory}/secret",
        "outside": f"{directory}/outside",
        "readable": f"{directory}/readable/file",
        "setuid": f"{directory}/readable/id",
        "write": f"{directory}/write",
        "scratch": f"{directory}/scratch",
        "calls": calls(),
        "victim": victim.pid,
        "daemon": os.getpid(),
        "port": tcp.getsockname()[1],
        "unix": f"{directory}/stream",
        "abstract": abstract.getsockname().decode("latin-1"),
        "datagrams": f"{directory}/datagrams",
        "terminal": theirs,
        "disk": "/dev/mem",
        # Any: it is not even looked for.
        "key": 1,
    }
    policy = Policy(
        uid=uid if os.getuid() == 0 else None,
        gid=uid if os.getuid() == 0 else None,
        network=False,
        read=(f"{directory}/readable",),
        write=(f"{directory}/write",),
        means=means,
    )
    return Field(directory, attack(policy, told, theirs), victim, datagrams)


def lay_out(stack: ExitStack, uid: int) -> Path:
    """All of it that user's, so that nothing but what shuts a program in keeps it away."""
    # Where another user gets to; pytest's own directories are for this one alone.
    directory = Path(tempfile.mkdtemp(prefix="attacks-"))
    stack.callback(shutil.rmtree, directory)
    for name in ("outside", "readable", "write", "scratch", "victims", "program/tests/forked/sandbox"):
        (directory / name).mkdir(parents=True)
    (directory / "secret").write_text("secret")
    (directory / "readable" / "file").write_text("readable")
    shutil.copy("/usr/bin/id", directory / "readable" / "id")
    for module in (attacker, *attacker.MODULES):
        shutil.copy(str(module.__file__), directory / "program" / "tests" / "forked" / "sandbox")
    if os.getuid() == 0:
        for path in (directory, *directory.rglob("*")):
            os.chown(path, uid, uid)
        os.chown(directory / "readable" / "id", 0, 0)
        (directory / "readable" / "id").chmod(0o4755)
    return directory


def attack(policy: Policy, told: dict[str, object], terminal: int) -> dict[str, str]:
    # The system's own is within reach of every user.
    python = next((path for path in ("/usr/bin/python3",) if Path(path).exists()), sys.executable)
    also = [] if python.startswith("/usr") else [sys.base_prefix, sys.prefix]
    program = f"{Path(str(told['secret'])).parent}/program"
    words = [ROOT, program, policy.to_json(), json.dumps(told), python, json.dumps(also), PROGRAM]
    argv = [sys.executable, "-I", "-S", "-B", "-c", RUNNER, *words]
    done = subprocess.run(argv, capture_output=True, text=True, pass_fds=[terminal], timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    outcomes: dict[str, str] = json.loads(done.stdout)
    return outcomes


def calls() -> dict[str, int | None]:
    column = seccomp.MACHINES[os.uname().machine].column
    tables = {**seccomp.REFUSED, **seccomp.MISSING, "clone": (56, 220)}
    return {name: numbers[column] for name, numbers in tables.items()}


def end(victim: "subprocess.Popen[bytes]") -> None:
    assert victim.stdin is not None
    victim.stdin.close()
    victim.kill()
    victim.wait()


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_an_attempt_to_get_out_is_refused(field: Field, attempt: str) -> None:
    assert field.outcomes[attempt] in OTHERWISE.get(attempt, REFUSALS)


@pytest.mark.parametrize("liberty", LIBERTIES)
def test_what_is_allowed_can_be_done(field: Field, liberty: str) -> None:
    assert field.outcomes[liberty].startswith("got")


def test_attempts_leave_everything_outside_as_it_was(field: Field) -> None:
    secret = field.directory / "secret"

    assert secret.read_text() == "secret"
    assert secret.stat().st_mode & 0o777 == 0o644
    assert secret.stat().st_mtime > 1
    assert list((field.directory / "outside").iterdir()) == []
    assert (field.directory / "readable" / "file").read_text() == "readable"


def test_attempts_reach_no_other_process(field: Field) -> None:
    field.datagrams.setblocking(False)

    assert field.victim.poll() is None
    with pytest.raises(BlockingIOError):
        field.datagrams.recv(1)


def test_attempts_leave_no_mount(field: Field) -> None:
    assert str(field.directory) not in Path("/proc/self/mountinfo").read_text()
