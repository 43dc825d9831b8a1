"""`examples/coding_agent.py` mends a project with the tools that `init --coding-agent` gives it."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.daemon.spawned import ROOT, Daemon, until, without_places
from tests.seeds.model_api import Body, ModelApi, model_api, says, uses
from tests.seeds.seeded import seeded

CONFIG: Final = (ROOT / "tooldispatchd" / "cli" / "coding-agent.toml").read_text(encoding="utf-8")
AGENT: Final = (sys.executable, str(ROOT / "examples" / "coding_agent.py"))
PATIENCE_S: Final = 120.0
# A developer's PATH may begin with a Python in the home directory, which the sandbox does not show.
ENVIRON: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
WRONG: Final = "def mean(numbers):\n    return sum(numbers) / 2\n"
RIGHT: Final = "def mean(numbers):\n    return sum(numbers) / len(numbers)\n"
TESTS: Final = """\
import unittest

from mean import mean


class MeanTest(unittest.TestCase):
    def test_three_numbers(self):
        self.assertEqual(mean([1, 2, 6]), 3)
"""
RUN_TESTS: Final = {"command": "python3 -m unittest"}
EDIT: Final = {"path": "mean.py", "old": "/ 2", "new": "/ len(numbers)"}
SCRIPT: Final = (
    uses(("1", "tree", {})),
    uses(("2", "read", {"path": "test_mean.py"})),
    uses(("3", "bash", RUN_TESTS)),
    uses(("4", "edit", EDIT)),
    uses(("5", "read", {"path": "mean.py"})),
    uses(("6", "edit", EDIT), ("7", "bash", RUN_TESTS)),
    uses(("8", "current_date", {})),
    says("The mean was divided by 2; now it is divided by how many numbers there are."),
)


# One test changes it, and the others do not look at it.
@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = tmp_path_factory.mktemp("coding") / "project"
    project.mkdir()
    (project / "mean.py").write_text(WRONG)
    (project / "test_mean.py").write_text(TESTS)
    return project


@pytest.fixture(scope="module")
def daemon(project: Path) -> Iterator[Daemon]:
    with seeded(project.parent, CONFIG, environ=ENVIRON) as daemon:
        yield daemon


def environ_for(api: ModelApi, **environ: str) -> dict[str, str]:
    return without_places() | {"AGENT_URL": api.url, "AGENT_KEY": "a key", "AGENT_MODEL": "a model"} | environ


def work(api: ModelApi, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*words, *AGENT, "Make the tests pass."],
        env=environ_for(api, **environ),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def told(api: ModelApi) -> dict[str, Body]:
    """The results that the model was given, by the ids of its calls."""
    parts = [part for message in api.body(-1)["messages"] for part in message["content"] if isinstance(part, dict)]
    return {part["tool_use_id"]: part for part in parts if part["type"] == "tool_result"}


def test_it_reads_a_failure_mends_the_project_and_sees_the_tests_pass(daemon: Daemon, project: Path) -> None:
    with model_api(*SCRIPT) as api:
        ended = work(api, TOOLDISPATCHD_SOCKET=str(daemon.path))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (project / "mean.py").read_text() == RIGHT
    results = told(api)
    assert "test_mean.py" in results["1"]["content"]
    assert "AssertionError: 4.5 != 3" in results["3"]["content"]
    assert "mean.py was not read in this session. Read it first." in results["4"]["content"]
    assert "sum(numbers) / 2" in results["5"]["content"]
    assert "OK" in results["7"]["content"]
    assert [call_id for call_id, result in results.items() if result["is_error"]] == ["4"]


def test_the_model_is_told_the_tools_and_their_hints(daemon: Daemon) -> None:
    with model_api(says("Nothing is to be done.")) as api:
        work(api, TOOLDISPATCHD_SOCKET=str(daemon.path))
    path, headers, body = api.asked[0]
    assert (path, headers["x-api-key"], body["model"]) == ("/messages", "a key", "a model")
    assert {"tree", "read", "edit", "bash", "current_date"} <= {tool["name"] for tool in body["tools"]}
    assert "Begin with tree where you do not know a project." in body["system"]


def test_the_transcript_has_what_the_model_says_its_calls_and_their_results(daemon: Daemon) -> None:
    script = (uses(("1", "bash", {"command": "seq 20; exit 3"})), uses(("2", "read", {"path": "a"})), says("Done."))
    with model_api(*script) as api:
        ended = work(api, TOOLDISPATCHD_SOCKET=str(daemon.path))
    lines = ended.stdout.splitlines()
    assert lines[:3] == ["Let me look.", '> bash {"command": "seq 20; exit 3"}', "  | 1"]
    assert lines[9:17] == [
        "  | 8",
        "  | … 9 lines …",
        "  | 18",
        "  | 19",
        "  | 20",
        "  | exit code 3",
        "Let me look.",
        '> read {"path": "a"}',
    ]
    assert lines[17].startswith("  ! ")
    assert lines[18:] == ["Done."]


def test_it_works_under_run_too(daemon: Daemon) -> None:
    run = (sys.executable, "-m", "tooldispatchd", "run", "--socket", str(daemon.path), "--")
    with model_api(uses(("1", "bash", {"command": "echo hello"})), says("Done.")) as api:
        ended = work(api, *run)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert told(api)["1"]["content"] == "hello\nexit code 0"


def test_a_model_that_never_ends_is_left_after_fifty_turns(daemon: Daemon) -> None:
    with model_api(*[uses(("1", "current_date", {}))] * 50) as api:
        ended = work(api, TOOLDISPATCHD_SOCKET=str(daemon.path))
    assert (ended.returncode, ended.stderr) == (1, "no end after 50 turns\n")


def test_an_agent_that_is_interrupted_takes_its_command_with_it(daemon: Daemon) -> None:
    with model_api(uses(("1", "bash", {"command": "sleep 77"}))) as api:
        environ = environ_for(api, TOOLDISPATCHD_SOCKET=str(daemon.path))
        with subprocess.Popen([*AGENT, "Wait."], env=environ, stderr=subprocess.PIPE, text=True) as agent:
            until(lambda: daemon.running("77") != set())
            agent.send_signal(signal.SIGINT)
            _, stderr = agent.communicate(timeout=PATIENCE_S)
    assert (agent.returncode, stderr) == (130, "")
    until(lambda: daemon.running("77") == set())


def test_an_agent_without_a_daemon_says_so(tmp_path: Path) -> None:
    with model_api() as api:
        ended = work(api, TOOLDISPATCHD_SOCKET=str(tmp_path / "none.sock"))
    assert (ended.returncode, ended.stderr) == (
        1,
        f"cannot reach the daemon at {tmp_path}/none.sock: No such file or directory\n",
    )


def test_an_agent_without_a_model_says_so(daemon: Daemon) -> None:
    with model_api() as api:
        pass
    ended = work(api, TOOLDISPATCHD_SOCKET=str(daemon.path))
    assert (ended.returncode, ended.stderr) == (
        1,
        f"cannot reach the model's API at {api.url}: [Errno 111] Connection refused\n",
    )


def test_an_api_like_that_of_openai_will_do(daemon: Daemon) -> None:
    function = {"name": "bash", "arguments": '{"command": "echo hello"}'}
    asks = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": function}]}
    ends = {"role": "assistant", "content": "Done."}
    with model_api({"choices": [{"message": asks}]}, {"choices": [{"message": ends}]}) as api:
        ended = work(api, TOOLDISPATCHD_SOCKET=str(daemon.path), AGENT_API="openai")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert api.body(1)["messages"][-1] == {"role": "tool", "tool_call_id": "1", "content": "hello\nexit code 0"}
    assert ended.stdout == '> bash {"command": "echo hello"}\n  | hello\n  | exit code 0\nDone.\n'
