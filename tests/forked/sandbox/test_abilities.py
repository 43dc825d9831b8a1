import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import children
from tests.forked.sandbox.confined import ROOT, run_python
from tooldispatchd.children.abilities import read_abilities
from tooldispatchd.forked.sandbox import abilities

READ = "from tooldispatchd.children.abilities import read_abilities; read_abilities()"
READ_ABLE = "from tooldispatchd.children.abilities import read_abilities; able = read_abilities()"


def test_what_this_machine_can_do_is_found_out_by_trying() -> None:
    able = read_abilities()

    # These need nothing but a Linux that is not ancient.
    assert (able.cpu_s, able.memory, able.files, able.file_size, able.nice) == (None,) * 5
    assert (able.user is None) is (os.getuid() == 0)


def test_a_probe_leaves_no_descriptor_and_no_child() -> None:
    before = sorted(path.name for path in Path("/proc/self/fd").iterdir())
    others = children()

    read_abilities()

    assert sorted(path.name for path in Path("/proc/self/fd").iterdir()) == before
    # Those of other tests in this process may end meanwhile.
    assert children() <= others


def test_what_is_tried_sees_none_of_the_daemons_secrets(tmp_path: Path) -> None:
    # In bubblewrap's place stands what writes down what it was given.
    (tmp_path / "bwrap").write_text(f"#!/bin/sh\nenv >>{tmp_path}/seen\nexit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TOKEN": "secret"}

    subprocess.run([sys.executable, "-c", READ], env=environ, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)

    seen = (tmp_path / "seen").read_text()
    assert "PATH=" in seen
    assert "secret" not in seen


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("no program", "bubblewrap cannot be run: Exec format error"),
        ("#!/bin/sh\nexec sleep 60\n", "bubblewrap cannot be run: it did not come to an end"),
        ("#!/bin/sh\nprintf '\\377'\nexit 1\n", "what it should hide can be seen"),
    ],
)
def test_a_bubblewrap_that_is_broken_leaves_all_other_abilities(tmp_path: Path, program: str, why: str) -> None:
    (tmp_path / "bwrap").write_text(program)
    (tmp_path / "bwrap").chmod(0o755)
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    code = f"{READ_ABLE}; print(able.cpu_s, able.bubblewrap.read, able.landlock.version != '')"

    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, cwd=ROOT, check=True, capture_output=True, text=True
    )

    assert done.stdout == f"None {why} {read_abilities().landlock.version != ''}\n"


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
from tooldispatchd.forked.sandbox import abilities
print(json.dumps(abilities.attempt(lambda: {trial})))
""")

    assert json.loads(said) == why


def test_a_trial_that_hangs_is_ended() -> None:
    said = run_python("""
import signal
from tooldispatchd.forked.sandbox import abilities
abilities.TRIAL_S = 0.1
print(abilities.attempt(signal.pause))
""")

    assert said == "it did not come to an end"


def test_a_trial_has_a_bound() -> None:
    assert abilities.TRIAL_S == 2.0
