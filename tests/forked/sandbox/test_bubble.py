import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked.sandbox.confined import as_another, need, need_means, run_python
from tooldispatchd.forked.policy import Policy
from tooldispatchd.forked.sandbox import bubble, confine, seccomp


@pytest.fixture
def _bubblewrap() -> None:
    need_means("bubblewrap", "network", "read", "write")


def run(
    policy: Policy, *argv: str, scratch: Path | None = None, cwd: str | None = "/"
) -> "subprocess.CompletedProcess[str]":
    code = bubble.filter_descriptor(seccomp.build(network=policy.network, attributes=True))
    try:
        wrapped = bubble.wrap(
            policy, argv, cwd=cwd, scratch=str(scratch) if scratch else None, seccomp_fd=code, program=argv[0]
        )
        return subprocess.run(wrapped, capture_output=True, text=True, timeout=20, check=False, pass_fds=[code])
    finally:
        os.close(code)


@pytest.mark.usefixtures("_bubblewrap")
def test_what_may_not_be_read_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "seen").mkdir()
    (tmp_path / "hidden").mkdir()
    policy = Policy(read=(str(tmp_path / "seen"),), write=())

    assert run(policy, "/bin/ls", str(tmp_path)).stdout == "seen\n"


@pytest.mark.usefixtures("_bubblewrap")
def test_with_write_alone_everything_is_seen_and_read_only(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "file").write_text("text")
    policy = Policy(write=(str(tmp_path / "mine"),))

    done = run(policy, "/bin/sh", "-c", f"cat {tmp_path}/file; echo a > {tmp_path}/mine/made; echo b > {tmp_path}/made")

    assert done.stdout == "text"
    assert done.stderr.endswith("Read-only file system\n")
    assert (tmp_path / "mine" / "made").read_text() == "a\n"


@pytest.mark.usefixtures("_bubblewrap")
def test_without_network_alone_files_are_as_free_as_before(tmp_path: Path) -> None:
    done = run(Policy(network=False), "/bin/sh", "-c", f"echo a > {tmp_path}/made; grep -c : /proc/net/dev")

    assert done.stdout == "1\n"
    assert (tmp_path / "made").read_text() == "a\n"


@pytest.mark.usefixtures("_bubblewrap")
def test_a_scratch_directory_can_be_written_and_be_where_the_program_starts(tmp_path: Path) -> None:
    done = run(Policy(read=(), write=()), "/bin/sh", "-c", "echo a > made; pwd", scratch=tmp_path, cwd=str(tmp_path))

    assert done.stdout == f"{tmp_path}\n"
    assert (tmp_path / "made").read_text() == "a\n"


@pytest.mark.usefixtures("_bubblewrap")
def test_an_exit_code_is_passed_on_and_a_signal_told_as_128_and_more() -> None:
    policy = Policy(read=(), write=())

    assert run(policy, "/bin/sh", "-c", "exit 7").returncode == 7
    assert run(policy, "/bin/sh", "-c", "kill -XFSZ $$").returncode == 128 + 25


@pytest.mark.usefixtures("_bubblewrap")
def test_a_script_and_its_interpreter_are_shown_and_what_stands_beside_them_is_not(tmp_path: Path) -> None:
    (tmp_path / "interpreter").write_bytes(Path("/bin/sh").read_bytes())
    (tmp_path / "interpreter").chmod(0o755)
    (tmp_path / "script").write_text(f"#!{tmp_path}/interpreter\nls {tmp_path}\n")
    (tmp_path / "script").chmod(0o755)
    (tmp_path / "beside").touch()

    assert run(Policy(read=(), write=()), str(tmp_path / "script")).stdout == "interpreter\nscript\n"


@pytest.mark.usefixtures("_bubblewrap")
def test_a_program_that_is_a_link_into_a_directory_that_is_shown_is_found(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/bin/echo")

    assert run(Policy(read=(), write=()), str(tmp_path / "link"), "ran").stdout == "ran\n"


@pytest.mark.usefixtures("_bubblewrap")
def test_further_descriptors_are_passed_on() -> None:
    reading, writing = os.pipe()
    code = bubble.filter_descriptor(confine.prepare(Policy(network=False, means="bubblewrap")).code)
    argv = bubble.wrap(
        Policy(network=False),
        ["/bin/sh", "-c", f"echo told > /proc/self/fd/{writing}; ls /proc/self/fd | wc -l"],
        cwd=None,
        scratch=None,
        seccomp_fd=code,
    )
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, pass_fds=[writing, code]
    )
    os.close(writing)

    with os.fdopen(reading) as told:
        assert told.read() == "told\n"
    # 0, 1, 2, the pipe, and the directory that `ls` reads; the filter is closed.
    assert done.stdout == "5\n"
    os.close(code)


@pytest.mark.usefixtures("_bubblewrap")
def test_the_environment_is_passed_on_as_it_is() -> None:
    argv = bubble.wrap(Policy(read=(), write=()), ["env"], cwd="/", scratch=None, seccomp_fd=None)

    done = subprocess.run(argv, env={"PATH": "/usr/bin", "A": "b"}, capture_output=True, text=True, check=True)

    assert sorted(done.stdout.split()) == ["A=b", "PATH=/usr/bin", "PWD=/"]


@pytest.mark.usefixtures("_bubblewrap")
def test_the_program_ends_with_bubblewrap() -> None:
    reading, writing = os.pipe()
    argv = bubble.wrap(Policy(read=(), write=()), ["/bin/cat"], cwd="/", scratch=None, seccomp_fd=None)
    child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=writing, pass_fds=[])
    os.close(writing)
    assert child.stdin is not None
    child.stdin.write(b"x")
    child.stdin.flush()
    with os.fdopen(reading, "rb") as output:
        output.read(1)

        child.kill()

        # Nobody is left who could write.
        assert output.read() == b""
    child.wait()
    child.stdin.close()


def test_without_bubblewrap_nothing_is_wrapped() -> None:
    code = "from tooldispatchd.forked.sandbox import bubble\nfrom tooldispatchd.forked.policy import Policy\n"
    code += "bubble.wrap(Policy(read=()), ['true'], cwd=None, scratch=None, seccomp_fd=None)"

    argv = [sys.executable, "-c", code]

    done = subprocess.run(argv, env={"PATH": "/nowhere"}, capture_output=True, text=True, check=False)

    assert "ConfineError: cannot shut a program in: bubblewrap is not installed" in done.stderr


@pytest.mark.usefixtures("_bubblewrap")
def test_the_processes_of_a_call_are_counted_without_those_of_bubblewrap() -> None:
    need("processes")
    policy = as_another(Policy(processes=3, read=(), write=(), means="bubblewrap"))
    # Each is one more beside the shell; all of them end with it, since it is the first that bubblewrap waits for.
    script = "sleep 9 & sleep 9 & echo two; sleep 9 & echo three"

    said = run_python(
        """
from tooldispatchd.forked.sandbox import bubble
policy = Policy.from_json(sys.argv[2])
confine.become(policy)
prepared = confine.prepare(policy)
pid = os.fork()
if pid == 0:
    confine.confine(policy, program="/bin/sh", scratch=None, leaf=None)
    os.dup2(1, 2)
    code = bubble.filter_descriptor(prepared.code)
    argv = bubble.wrap(policy, ["/bin/sh", "-c", sys.argv[3]], cwd="/", scratch=None, seccomp_fd=code)
    os.execv(argv[0], argv)
os.waitpid(pid, 0)
""",
        policy.to_json(),
        script,
    )

    assert said.splitlines()[0] == "two"
    assert said.endswith("Cannot fork")
