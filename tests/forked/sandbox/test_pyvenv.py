"""What belongs to a program in a Python virtual environment."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked.sandbox.confined import ROOT, need_means
from tooldispatchd.forked.policy import Policy
from tooldispatchd.forked.sandbox.pyvenv import environment_of

RUN = """
import os, sys
sys.path.insert(0, sys.argv[1])
from tooldispatchd.forked.sandbox import bubble, confine
from tooldispatchd.forked.policy import Policy
policy, argv = Policy.from_json(sys.argv[2]), sys.argv[3:]
if policy.means == "bubblewrap":
    argv = bubble.wrap(policy, argv, cwd="/", scratch=None, seccomp_fd=None, program=argv[0])
else:
    confine.prepare(policy)
    confine.confine(policy, program=argv[0], scratch=None, leaf=None)
os.execv(argv[0], argv)
"""


def environment(place: Path, home: str) -> Path:
    (place / "bin").mkdir(parents=True)
    (place / "pyvenv.cfg").write_text(f"include-system-site-packages = false\nHome= {home}\n")
    return place / "bin" / "python"


def installation(place: Path) -> Path:
    for name in ("bin", "lib/python3.99"):
        (place / name).mkdir(parents=True)
    (place / "lib" / "python3.99" / "os.py").touch()
    return place


def test_an_environment_and_what_it_was_made_of_are_its_programs(tmp_path: Path) -> None:
    place = tmp_path.resolve()
    prefix = installation(place / "prefix")
    (place / "link").symlink_to("prefix")
    python = environment(place / "env", f"{place}/link/bin")

    assert environment_of(str(python)) == [f"{place}/env", f"{prefix}/bin", f"{prefix}/lib"]


def test_a_home_that_is_no_installation_gives_nothing(tmp_path: Path) -> None:
    place = tmp_path.resolve()
    (place / "other" / "lib").mkdir(parents=True)
    linked = installation(place / "linked")
    (linked / "lib64").symlink_to(place / "other")

    for number, home in enumerate([f"{place}/other/bin", "/bin", "relative/bin", "", "/"]):
        found = environment_of(str(environment(place / str(number), home)))
        assert [path for path in found if path not in ("/usr/bin", "/usr/lib", "/usr/lib64")] == [
            f"{place}/{number}"
        ] or (home in ("relative/bin", "") and found == [])
    assert f"{linked}/lib64" not in environment_of(str(environment(place / "env", f"{linked}/bin")))


def test_a_program_in_no_environment_has_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pyvenv.cfg")

    for program in ("/bin/sh", "sh", "/sh", str(tmp_path / "bin" / "sh")):
        assert environment_of(program) == []


@pytest.mark.parametrize("means", ["landlock", "bubblewrap"])
def test_the_python_of_an_environment_starts_where_little_may_be_read(tmp_path: Path, means: str) -> None:
    need_means(means, "read")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    (tmp_path / "secret").write_text("secret")
    code = f"import json, os; print(os.path.exists('{tmp_path}/secret') and open('{tmp_path}/secret').read())"
    policy = Policy(read=(), means=means)

    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", RUN, ROOT, policy.to_json(), str(tmp_path / "env/bin/python"), "-c", code],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )

    assert "encodings" not in done.stderr
    assert done.stdout == "False\n" or "PermissionError" in done.stderr
