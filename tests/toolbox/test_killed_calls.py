"""Calls that are killed at any moment: what is there afterwards is the old or the new, and nothing else."""

import json
import subprocess
import sys

import pytest

from tests.daemon.spawned import ROOT
from tests.toolbox.killed_calls import CASES

Played = dict[str, dict[str, list[str]]]
each_case = pytest.mark.parametrize("name", [case[0] for case in CASES])


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """What was there after each call that was killed."""
    words = [sys.executable, "-m", "tests.toolbox.killed_calls", str(tmp_path_factory.mktemp("killed"))]
    found: Played = json.loads(subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)
    return found


@each_case
def test_a_call_that_is_killed_at_any_step_leaves_the_old_or_the_new(name: str, played: Played) -> None:
    *killed, whole = played[name]["steps"]
    assert set(killed) <= {"old", "new"}
    assert len(killed) >= 8
    assert whole == "new"


# As with any property, more examples are for `make soak`.
@pytest.mark.hypothesis
@each_case
def test_a_call_that_is_killed_at_any_time_leaves_the_old_or_the_new(name: str, played: Played) -> None:
    assert set(played[name]["times"]) <= {"old", "new"}
    assert played[name]["times"]
