import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tooldispatchd.children import sweep as sweep_module
from tooldispatchd.children.sweep import is_marked, kill, kill_groups, sweep

MARK = b"SWEEP_TEST_ID=a1"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"], env={"SWEEP_TEST_ID": "a1"}, process_group=0) as sleeper:
        yield sleeper
        sleeper.kill()


def test_a_listed_group_is_killed(sleeper: subprocess.Popen[bytes]) -> None:
    kill_groups(bytes(8) + sleeper.pid.to_bytes(8, "little"))
    assert sleeper.wait(10) == -9


def test_free_places_and_numbers_with_another_meaning_are_passed_over() -> None:
    kill_groups(bytes(8) + (1).to_bytes(8, "little"))


def test_a_group_that_has_gone_is_passed_over() -> None:
    kill_groups((2**30).to_bytes(8, "little"))


def test_a_process_is_known_by_the_whole_variable(sleeper: subprocess.Popen[bytes]) -> None:
    assert is_marked(str(sleeper.pid), MARK)
    assert not is_marked(str(sleeper.pid), b"SWEEP_TEST_ID=a")
    assert not is_marked(str(sleeper.pid), b"TEST_ID=a1")


def test_a_process_that_has_gone_is_not_marked() -> None:
    assert not is_marked(str(2**30), MARK)


def test_a_process_without_the_mark_is_not_killed(sleeper: subprocess.Popen[bytes]) -> None:
    kill(sleeper.pid, b"SWEEP_TEST_ID=other")
    assert sleeper.poll() is None


def test_a_sweep_kills_what_is_marked_and_only_that(sleeper: subprocess.Popen[bytes]) -> None:
    with subprocess.Popen(["sleep", "1000"], env={"SWEEP_TEST_ID": "b2"}) as other:
        sweep(MARK)
        assert sleeper.wait(10) == -9
        assert other.poll() is None
        os.kill(other.pid, 9)


def swept(told: bytes) -> int:
    """Run the guardian's program for a daemon that has told it this and ended; what it exits with."""
    # Its second descriptor, the table, is empty.
    words = [sys.executable, "-I", "-S", sweep_module.__file__, "no such run"]
    with tempfile.TemporaryFile() as table:
        return subprocess.run(words, input=told, stdout=table, check=False, timeout=30).returncode


def test_what_the_daemon_has_told_of_is_removed(tmp_path: Path) -> None:
    (tmp_path / "one" / "a" / "b").mkdir(parents=True)
    other = tmp_path / os.fsdecode(b"\xff\nother")
    other.symlink_to("kept")
    (tmp_path / "kept").mkdir()
    assert swept(b"".join(b"d" + os.fsencode(path) + b"\0" for path in (tmp_path / "one", other, "/no/such"))) == 0
    assert list(tmp_path.iterdir()) == [tmp_path / "kept"]


def test_a_message_that_was_not_finished_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    assert swept(b"d" + os.fsencode(tmp_path / "one")) == 0
    assert swept(b"c" + os.fsencode(tmp_path / "none") + b"\0d" + os.fsencode(tmp_path)) == 0
    assert (tmp_path / "one").exists()


# It goes on in a child, in a session of its own, and ends: never there for longer than `life` seconds.
FLEEING = """
import os, sys, time
heart = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
while True:
    os.write(heart, b"x")
    time.sleep(float(sys.argv[2]))
    if os.fork():
        os._exit(0)
    os.setsid()
"""


@pytest.mark.parametrize("life_s", [0.05, 0.005, 0.002])
def test_a_sweep_catches_a_process_that_goes_on_in_a_child_without_end(tmp_path: Path, life_s: float) -> None:
    heart = tmp_path / "heart"
    heart.touch()
    words = [sys.executable, "-I", "-S", "-c", FLEEING, str(heart), str(life_s)]
    with subprocess.Popen(words, env={"SWEEP_TEST_ID": "a1"}) as fleeing:
        fleeing.wait(10)
        sweep(MARK)
        beats = heart.stat().st_size
        # Twenty lives of the longest: the beat of one that lives would be heard.
        time.sleep(0.2 + 20 * life_s)
        assert heart.stat().st_size == beats
