"""A link that takes a directory's place at any moment of a call, where no kernel keeps the tools to their workspace."""

import subprocess
import sys

from tests.daemon.spawned import ROOT


def test_no_moment_is_one_in_which_a_link_leads_a_tool_away() -> None:
    words = [sys.executable, "-m", "tests.toolbox.swapped"]
    said = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=120, check=True).stdout
    assert said.strip().isdigit(), said
    assert int(said) > 200
