"""What a killed run leaves of its numbers says how many of its records are missing, and nothing where it is gone."""

import os
from pathlib import Path

import pytest

from tooldispatchd.audit.tally import RunTally, take_unsettled, tally_directory


def test_what_a_killed_run_has_left_is_taken_once(tmp_path: Path) -> None:
    tally = RunTally(tmp_path, "run")
    for _ in range(5):
        tally.give()
    tally.settle(3)
    assert tally.unsettled == 2
    assert take_unsettled(tmp_path, "run") == 2
    assert take_unsettled(tmp_path, "run") is None
    assert list(tmp_path.iterdir()) == []


def test_a_tally_that_somebody_truncates_ends_nothing(tmp_path: Path) -> None:
    tally = RunTally(tmp_path, "run")
    os.truncate(tmp_path / "tooldispatchd-audit-run", 0)
    for _ in range(3):
        tally.give()
    tally.settle(1)
    assert tally.unsettled == 2


def test_a_run_that_has_ended_leaves_nothing(tmp_path: Path) -> None:
    RunTally(tmp_path, "run").remove()
    assert list(tmp_path.iterdir()) == []


def test_without_a_place_a_run_counts_all_the_same(tmp_path: Path) -> None:
    tally = RunTally(tmp_path / "missing", "run")
    tally.give()
    assert tally.unsettled == 1
    assert take_unsettled(tmp_path / "missing", "run") is None


def test_only_an_own_file_of_numbers_is_believed(tmp_path: Path) -> None:
    (tmp_path / "tooldispatchd-audit-short").write_bytes(b"1")
    os.mkfifo(tmp_path / "tooldispatchd-audit-pipe")
    (tmp_path / "tooldispatchd-audit-link").symlink_to("/dev/zero")
    (tmp_path / "numbers").write_bytes(bytes(16))
    for run in ("short", "pipe", "link", "../numbers", "x/../../numbers"):
        assert take_unsettled(tmp_path, run) is None
    assert (tmp_path / "numbers").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_nobody_elses_numbers_are_believed(tmp_path: Path) -> None:
    RunTally(tmp_path, "run").give()
    os.chown(tmp_path / "tooldispatchd-audit-run", 65_534, -1)
    assert take_unsettled(tmp_path, "run") is None


def test_the_directory_of_the_service_comes_first() -> None:
    assert tally_directory({"RUNTIME_DIRECTORY": "/run/a:/run/b"}) == Path("/run/a")
    assert tally_directory({}) == Path("/dev/shm")
