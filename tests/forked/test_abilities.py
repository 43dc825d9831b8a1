import json
import os
from pathlib import Path

import pytest

from tests.forked.confined import run_python
from tooldispatchd.children.abilities import Means, read_abilities
from tooldispatchd.forked import abilities


def test_what_this_machine_can_do_is_found_out_by_trying() -> None:
    able = read_abilities()

    # These need nothing but a Linux that is not ancient.
    assert (able.cpu_s, able.memory, able.files, able.file_size, able.nice) == (None,) * 5
    assert (able.user is None) is (os.getuid() == 0)


def test_a_probe_leaves_no_descriptor_and_no_child() -> None:
    before = sorted(path.name for path in Path("/proc/self/fd").iterdir())

    read_abilities()

    assert sorted(path.name for path in Path("/proc/self/fd").iterdir()) == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@pytest.mark.parametrize(
    ("trial", "why"),
    [
        ("None", None),
        ("'it was not refused'", "it was not refused"),
        ("os.listdir('/is/not/there')", "No such file or directory"),
        ("os.kill(os.getpid(), 9)", "the attempt was killed"),
        ("[][0]", "it failed"),
    ],
)
def test_a_trial_says_in_words_why_something_cannot_be_had(trial: str, why: str | None) -> None:
    said = run_python(f"""
import json
from tooldispatchd.forked import abilities
print(json.dumps(abilities.attempt(lambda: {trial})))
""")

    assert json.loads(said) == why


def test_a_trial_that_hangs_is_ended() -> None:
    said = run_python("""
import signal
from tooldispatchd.forked import abilities
abilities.TRIAL_S = 0.1
print(abilities.attempt(signal.pause))
""")

    assert said == "it did not come to an end"


def test_a_trial_has_a_bound() -> None:
    assert abilities.TRIAL_S == 2.0


def test_a_means_cannot_do_what_one_of_its_keys_lacks() -> None:
    means = Means(version="2", network=None, read=None, write="it is too old", gaps=())

    assert means.why_not(network=True, read=True, write=False) is None
    assert means.why_not(network=True, read=True, write=True) == "it is too old"
