"""What the demo shows of the daemon's processes."""

import subprocess
import sys
from pathlib import Path

import pytest

from tooldispatchd.cli.demo import show_processes

# It starts a child that ends at once, says so, and never reaps it.
PARENT = """
import os, sys
child = os.fork()
if child == 0:
    os._exit(0)
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
print(child, flush=True)
sys.stdin.read()
"""


def test_a_process_that_has_ended_and_is_not_reaped_yet_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert Path(f"/proc/{child}").exists()
        show_processes("Left of it", parent.pid)
        assert parent.stdin is not None
        parent.stdin.close()
    assert capsys.readouterr().out == "  Left of it: nothing\n"
