import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.daemon.spawned import PATIENCE_S, ROOT
from tests.real.installed import SERVERS, needs_npm, needs_sdk1, needs_sdk2, python_of

DOCUMENT: Final = ROOT / "docs" / "clients" / "sdks.md"
CONFIG: Final = """
[tools.echo]
type = "json -> json"
inline = "id"
[agents.default]
tools = ["echo"]
jobs = false
"""


def run(directory: Path, *words: str) -> str:
    """What a program prints that was started beside a configuration."""
    (directory / "tooldispatchd.toml").write_text(CONFIG)
    environ = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    ended = subprocess.run(
        words, cwd=directory, env=environ, capture_output=True, text=True, timeout=3 * PATIENCE_S, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def program(kind: str, holds: str) -> str:
    blocks = re.findall(rf"^```{kind}\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    (found,) = (block for block in blocks if holds in block)
    assert isinstance(found, str)
    return found


@pytest.mark.parametrize(
    ("sdk", "holds"),
    [pytest.param("sdk1", "ClientSession", marks=needs_sdk1), pytest.param("sdk2", "Client(SERVER)", marks=needs_sdk2)],
)
def test_the_python_client_in_the_document_runs_as_it_stands(sdk: str, holds: str, tmp_path: Path) -> None:
    assert run(tmp_path, python_of(sdk), "-c", program("python", holds)) == "['echo']\n"


@needs_npm
def test_the_typescript_client_in_the_document_runs_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(SERVERS / "npm" / "node_modules")
    (tmp_path / "client.mjs").write_text(program("ts", "StdioClientTransport"))
    assert run(tmp_path, "node", "client.mjs") == "[ 'echo' ]\n"
