import os
import subprocess
from collections.abc import Iterator

import pytest

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
