"""A daemon that cannot have the descriptors that it needs says so in one sentence, whatever it would open first."""

import itertools
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Final

from tests.daemon.spawned import SERVE

# Python tools are looked at before anything is listened on, and files of agents are written.
CONFIG: Final = """
[tools.up]
command = ["cat"]
files = 500
[tools.function]
python = "raising:up"
[processes.leader]
kind = "agent"
type = "!json -> !json"
command = ["true"]
tools = ["up"]
[tools.lead]
process = "leader"
"""
LIMITED: Final = ["sh", "-c", 'ulimit -n "$0"; exec "$@"']
# With fewer the interpreter itself does not start.
FEWEST: Final = 8
# Of those that leave fewer than it asks for, `make attack` tries each; and here the border, one by one.
FIRST: Final = 64
STEP: Final = 1 if "ATTACK_S" in os.environ else 7
TOLD: Final = re.compile(
    r"tooldispatchd: cannot serve: Too many open files: 64 must be free, the limit is (\d+) \(ulimit -n\)\n"
)


def test_each_limit_is_told_or_enough(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(CONFIG)
    (tmp_path / "raising.py").write_text("def up(text: str) -> str:\n    return text.upper()\n")
    limits = itertools.chain(range(FEWEST, FIRST, STEP), itertools.count(FIRST))
    for limit in limits:
        words = [*LIMITED, str(limit), *SERVE, "--config", str(file), "--listen", "stdio"]
        # At the end of its input it ends.
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            break
        told = TOLD.fullmatch(done.stderr)
        assert (done.returncode, told and int(told[1])) == (3, limit), done.stderr
    assert FIRST < limit < 100
    assert [json.loads(line)["event"] for line in done.stderr.splitlines()][-1] == "daemon stopped"
