import os
import subprocess
from pathlib import Path

from tests.conftest import children
from tests.processes import is_running
from tooldispatchd.forked import libc
from tooldispatchd.toolbox.leftovers import PR_SET_CHILD_SUBREAPER, ended_leftovers


def running(script: Path) -> list[int]:
    """The processes with a script on their command line."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if is_running(pid) and str(script) in words_of(pid)]


def words_of(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


def test_one_that_goes_on_in_a_child_is_ended(tmp_path: Path) -> None:
    script = tmp_path / "going"
    # Each in a session of its own, and none for long.
    script.write_text('touch "$0.begun"; sleep 0.01; setsid sh "$0" &')
    with ended_leftovers():
        subprocess.run(["/bin/sh", str(script)], check=True)
    assert (tmp_path / "going.begun").exists()
    assert running(script) == []


def test_many_are_ended(tmp_path: Path) -> None:
    script = tmp_path / "many"
    script.write_text("sleep 1000 & wait")
    with ended_leftovers():
        subprocess.run(["/bin/sh", "-c", f"for i in 1 2 3 4 5 6 7 8 9; do setsid sh {script} & done"], check=True)
    assert running(script) == []


def test_orphans_of_later_programs_are_not_adopted() -> None:
    with ended_leftovers():
        pass
    before = children()
    subprocess.run(["/bin/sh", "-c", "sleep 1 &"], check=True)
    assert children() == before


def test_a_process_that_adopted_orphans_before_does_so_after() -> None:
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        with ended_leftovers():
            pass
        before = children()
        subprocess.run(["/bin/sh", "-c", "sleep 0.1 &"], check=True)
        [adopted] = children() - before
        os.waitpid(adopted, 0)
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0)
