"""Which files, processes and sockets a process that is shut in reaches."""

import json
import os
from pathlib import Path

import pytest

from tests.forked.sandbox.confined import need, need_means, run_confined, run_python
from tooldispatchd.forked.policy import Policy
from tooldispatchd.forked.sandbox import landlock

REFUSED = """
def tried(action):
    try:
        return repr(action())
    except OSError as error:
        import errno
        return errno.errorcode[error.errno]
"""


def test_a_leaf_that_cannot_be_entered_is_refused() -> None:
    said = run_python("""
leaf = os.open(os.devnull, os.O_RDONLY)
try:
    confine.confine(Policy(), program=None, scratch=None, leaf=leaf)
except confine.ConfineError as error:
    print(error.strerror)
""")

    assert said == "cannot enter the call's cgroup: Bad file descriptor"


def test_a_leaf_is_entered_through_a_descriptor_of_its_list(tmp_path: Path) -> None:
    processes = tmp_path / "cgroup.procs"

    run_python(
        """
leaf = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)
confine.confine(Policy(), program=None, scratch=None, leaf=leaf)
""",
        str(processes),
    )

    assert processes.read_text() == "0"


def test_another_user_is_become_with_its_groups() -> None:
    need("user")

    said = run_python("""
confine.become(Policy(uid=54321, gid=54322, groups=(54323,)))
print(os.getresuid(), os.getresgid(), os.getgroups())
""")

    assert said == "(54321, 54321, 54321) (54322, 54322, 54322) [54323]"


@pytest.mark.parametrize("field", ["read", "write"])
def test_a_path_that_is_not_there_is_refused_beforehand(field: str) -> None:
    need_means("landlock", "read", "write")

    said = run_python(
        """
try:
    confine.prepare(Policy(**{sys.argv[2]: ("/is/not/there",)}))
except confine.ConfineError as error:
    print(error.strerror)
""",
        field,
    )

    assert said == "cannot let a program use '/is/not/there': No such file or directory"


def test_what_a_parent_has_prepared_is_closed_in_a_process_that_is_shut_in(tmp_path: Path) -> None:
    need_means("landlock", "read", "write")
    policy = Policy(read=(), write=(str(tmp_path),))

    said = run_confined(
        policy,
        "print(all(closed(fd) for fd in range(3, 300)))",
        before="""
def closed(fd):
    try:
        os.fstat(fd)
    except OSError:
        return True
    return False
""",
    )

    assert said == "True"


def test_a_scratch_directory_is_its_calls_own(tmp_path: Path) -> None:
    need_means("landlock", "read", "write")
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()

    said = run_confined(
        Policy(read=(), write=()),
        """
print(tried(lambda: os.close(os.open(sys.argv[3] + "/file", os.O_CREAT | os.O_RDWR))))
print(tried(lambda: os.listdir(sys.argv[3] + "/../other")))
print(tried(lambda: os.mkdir(sys.argv[3] + "/../other/made")) in ("EACCES", "EROFS"))
""",
        before=REFUSED + "import errno\n",
        scratch=tmp_path / "one",
    )

    assert said.split() == ["None", "EACCES", "True"]


def test_where_no_mounts_can_be_had_no_files_attributes_can_be_changed(tmp_path: Path) -> None:
    need_means("landlock", "write")
    need("seccomp")
    (tmp_path / "mine").mkdir()
    (tmp_path / "file").write_text("text")

    said = run_confined(
        Policy(write=(str(tmp_path / "mine"),)),
        """
file = sys.argv[3] + "/made"
print(tried(lambda: os.close(os.open(file, os.O_CREAT | os.O_RDWR))))
print(tried(lambda: os.chmod(file, 0o700)))
print(tried(lambda: os.utime(file, (1, 1))))
print(tried(lambda: os.utime(os.open(file, os.O_RDWR), (1, 1))))
print(tried(lambda: os.chmod(sys.argv[3] + "/../file", 0)))
print(tried(lambda: os.unlink(sys.argv[3] + "/../file")))
""",
        # What refuses namespaces, as a machine may.
        before=REFUSED
        + """
import errno
libc.forbid_privileges()
seccomp.install(seccomp.build(network=True, attributes=True))
""",
        scratch=tmp_path / "mine",
    )

    assert said.split() == ["None", "EPERM", "EPERM", "None", "EPERM", "EACCES"]


def test_reading_restricted_alone_lets_files_be_moved_but_not_to_where_they_could_be_read(tmp_path: Path) -> None:
    need_means("landlock", "read")
    need_abi(2)
    for name in ("seen", "one", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "one" / "file").write_text("text")

    said = run_confined(
        Policy(read=(str(tmp_path / "seen"),)),
        """
here = os.path.dirname(sys.argv[3])
print(tried(lambda: os.rename(here + "/one/file", here + "/other/file")))
print(tried(lambda: os.rename(here + "/other/file", here + "/seen/file")))
""",
        before=REFUSED + "import errno\n",
        scratch=tmp_path / "seen",
    )

    assert said.split() == ["None", "EXDEV"]


def test_with_write_alone_everything_can_be_read_and_only_that_changed(tmp_path: Path) -> None:
    need("mount_namespaces")
    need_means("landlock", "write")
    (tmp_path / "mine").mkdir()
    (tmp_path / "file").write_text("text")

    said = run_confined(
        Policy(write=(str(tmp_path / "mine"),)),
        """
print(tried(lambda: open(sys.argv[3] + "/../file").read()))
print(tried(lambda: os.mkdir(sys.argv[3] + "/made")))
print(tried(lambda: os.chmod(sys.argv[3] + "/made", 0o700)))
print(tried(lambda: os.truncate(sys.argv[3] + "/../file", 0)) in ("EACCES", "EROFS"))
print(tried(lambda: os.chmod(sys.argv[3] + "/../file", 0)) in ("EPERM", "EROFS"))
""",
        before=REFUSED + "import errno\n",
        scratch=tmp_path / "mine",
    )

    assert said.split() == ["'text'", "None", "None", "True", "True"]


def test_without_network_alone_files_are_as_free_as_before(tmp_path: Path) -> None:
    need_means("landlock", "network")
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "one" / "file").write_text("text")

    said = run_confined(
        Policy(network=False),
        """
print(tried(lambda: os.rename(sys.argv[3] + "/one/file", sys.argv[3] + "/other/file")))
print(tried(lambda: os.chmod(sys.argv[3] + "/other/file", 0o600)))
print(tried(lambda: socket.socket()))
""",
        before=REFUSED + "import errno, socket\n",
        scratch=tmp_path,
    )

    assert said.split() == ["None", "None", "EACCES"]


# Nothing is written: who may open such a file could.
OPEN_KERNELS = """
import errno
places = ["/proc/sys/kernel/core_pattern", f"/proc/{os.getppid()}/oom_score_adj", f"/proc/{os.getpid()}/oom_score_adj"]
with open("/proc/mounts") as mounts:
    places += [f"{line.split()[1]}/cgroup.procs" for line in mounts if line.split()[2] == "cgroup2"]
for place in places:
    try:
        os.open(place, os.O_WRONLY)
        print("open", place)
    except OSError as error:
        print(errno.errorcode[error.errno])
"""


@pytest.mark.skipif(os.getuid() != 0, reason="to any other user they are closed anyway")
def test_without_network_root_can_write_to_none_of_the_kernels_files(tmp_path: Path) -> None:
    need("mount_namespaces")
    need_means("landlock", "network")
    said = run_confined(Policy(network=False), OPEN_KERNELS, scratch=tmp_path).splitlines()
    assert len(said) >= 3
    assert set(said) == {"EROFS"}


def test_with_a_network_abstract_sockets_and_signals_stay_within_the_call() -> None:
    need_means("landlock", "read", "write")
    need_abi(6)

    said = run_confined(
        Policy(read=(), write=()),
        """
client = socket.socket(socket.AF_UNIX)
print(tried(lambda: client.connect(listener.getsockname())))
print(tried(lambda: os.kill(os.getppid(), 0)))
print(tried(lambda: socket.socket().close()))
""",
        before=REFUSED
        + """
import errno, socket
listener = socket.socket(socket.AF_UNIX)
listener.bind("")
listener.listen()
""",
    )

    assert said.split() == ["EPERM", "EPERM", "None"]


def test_two_calls_of_one_policy_cannot_reach_each_other() -> None:
    need_means("landlock", "read", "write")
    need_abi(6)

    said = run_python(
        REFUSED
        + """
import errno, signal
policy = Policy(read=(), write=(), network=False)
confine.prepare(policy)
reader, writer = os.pipe()
sibling = os.fork()
if sibling == 0:
    confine.confine(policy, program=None, scratch=None, leaf=None)
    os.write(writer, b"x")
    signal.pause()
os.read(reader, 1)
pid = os.fork()
if pid == 0:
    confine.confine(policy, program=None, scratch=None, leaf=None)
    print(tried(lambda: os.kill(sibling, signal.SIGKILL)))
    print(tried(lambda: open(f"/proc/{sibling}/environ").read()), flush=True)
    os._exit(0)
os.waitpid(pid, 0)
os.kill(sibling, signal.SIGKILL)
os.waitpid(sibling, 0)
"""
    )

    assert said.split() == ["EPERM", "EACCES"]


@pytest.mark.parametrize(
    "argv",
    [
        ["/bin/sh", "-c", "echo $(ls /usr) | wc -l"],
        ["/usr/bin/python3", "-c", "import json, ssl, subprocess; print(1)"],
        ["/usr/bin/node", "-e", "console.log(1)"],
        ["/usr/bin/git", "init", "."],
        ["/usr/bin/java", "-Xshare:auto", "-version"],
    ],
    ids=lambda argv: Path(argv[0]).name,
)
def test_what_is_installed_runs_where_nothing_may_be_read(argv: list[str], tmp_path: Path) -> None:
    need_means("landlock", "network", "read", "write")
    need("mount_namespaces")
    if not Path(argv[0]).exists():
        pytest.skip("it is not installed")

    said = run_confined(
        Policy(read=(), write=(), network=False),
        f"""
os.chdir(sys.argv[3])
print(subprocess.run({json.dumps(argv)}, capture_output=True, env={{"PATH": "/usr/bin:/bin"}}).returncode)
""",
        before="import subprocess\n",
        scratch=tmp_path,
    )

    assert said == "0"


def test_a_program_that_is_a_script_may_run_with_its_interpreter_and_not_with_its_directory(tmp_path: Path) -> None:
    need_means("landlock", "read", "write")
    script = tmp_path / "script"
    script.write_text(f"#!{tmp_path}/interpreter\necho ran; cat {tmp_path}/beside 2>&1\n")
    (tmp_path / "interpreter").write_bytes(Path("/bin/sh").read_bytes())
    (tmp_path / "beside").write_text("beside")
    script.chmod(0o755)
    (tmp_path / "interpreter").chmod(0o755)

    said = run_script(script)

    assert said.splitlines()[0] == "ran"
    assert said.endswith("Permission denied")


def run_script(script: Path) -> str:
    return run_python(
        """
program = sys.argv[2]
if os.fork() == 0:
    confine.confine(Policy(read=(), write=()), program=program, scratch=None, leaf=None)
    os.execv(program, [program])
os.wait()
""",
        str(script),
    )


def need_abi(least: int) -> None:
    if landlock.abi() < least:
        pytest.skip(f"the kernel's Landlock is older than ABI {least}")
