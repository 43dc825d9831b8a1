"""The official conformance suite at the daemon's face over HTTP: all that the released revisions require passes.

What does not pass stands in `expected_failures.toml`, each with its reason; what begins to pass has to leave it.
"""

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Final

import pytest

from tests.daemon.spawned import daemon_on
from tests.mcpface.real.clients import conforming, needs_clients, node, package, with_jobs
from tests.real.listening import free_port

SUITE: Final = package("@modelcontextprotocol/conformance") / "dist" / "index.js"
EXPECTED: Final = Path(__file__).with_name("expected_failures.toml")
# Its scenarios run one after the other, and each has 30 s; all of them take some 20 s, most of it in tasks.
LIMIT_S: Final = 150
SKILLS: Final = ("sep-2640-skills-directory", "sep-2640-skills-enumeration", "sep-2640-skills-manifest")


@needs_clients
@pytest.mark.parametrize(("revision", "scenarios"), [("2025-11-25", 33), ("2026-07-28", 50)])
def test_what_the_revision_requires_passes(tmp_path: Path, revision: str, scenarios: int) -> None:
    url = f"http://127.0.0.1:{free_port()}/mcp"
    with daemon_on(tmp_path, with_jobs("suite", revision), "--listen", f"{url}?profile=suite"):
        found = run(tmp_path / "found", url, "--requirements", revision)
    assert len(found) == scenarios
    failed = {f"{scenario} {check}" for scenario, checks in found.items() for check in checks}
    assert failed == set(tomllib.loads(EXPECTED.read_text())[revision])


@needs_clients
def test_skills_pass_which_no_revision_requires(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}/mcp"
    with daemon_on(tmp_path, conforming("suite", "2026-07-28"), "--listen", f"{url}?profile=suite"):
        for scenario in SKILLS:
            run(tmp_path / "found", url, "--scenario", scenario)
    checks = [each for file in (tmp_path / "found").glob("*/checks.json") for each in json.loads(file.read_text())]
    assert {each["id"] for each in checks if each["status"] != "SUCCESS"} == set()
    assert len(checks) == 45


def run(place: Path, url: str, *which: str) -> dict[str, list[str]]:
    """What the suite found, by scenario: the checks that failed, and those that warn."""
    words = [node(), str(SUITE), "server", "--url", url, *which, "--output-dir", str(place)]
    subprocess.run(words, stdout=subprocess.DEVNULL, timeout=LIMIT_S, check=False)
    return {scenario_of(file): wrong(json.loads(file.read_text())) for file in place.glob("*/checks.json")}


def scenario_of(file: Path) -> str:
    """Of `server-NAME-TIME`, the directory's name; a name may end in a year."""
    return re.sub(r"-\d+-\d+-\d+T[\d-]+Z$", "", file.parent.name).removeprefix("server-")


def wrong(checks: list[dict[str, str]]) -> list[str]:
    return [check["id"] for check in checks if check["status"] in {"FAILURE", "WARNING"}]
