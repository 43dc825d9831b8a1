"""A daemon keeps the secrets that it was told: out of logs, faults, the audit, and of every other process."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.spawned import Daemon, children_of, daemon_on, until
from tooldispatchd.audit.door import AuditFilter, open_reader

SECRETS = {"from-a-credential", "from-a-command", "from-a-variable", "written-down-here", "from-the-environment"}
CONFIG = """
[audit]
store = "sqlite:audit.db"
payloads = true
[tools.leak]
command = ["sh", "-c", '''
echo "a $A $B $C $D_TOKEN"
echo "b $A $B $C $D_TOKEN" >&2
exit 3''']
[tools.leak.env]
A = "${credential:a}"
B = "${command:printf %s from-a-command}"
C = "${MY_TOKEN}"
D_TOKEN = "written-down-here"
[tools.told]
command = ["cat"]
[tools.variables]
command = ["env"]
output_mode = "text"
[tools.large]
type = "json -> json"
inline = "id"
[mcp.docs]
url = "http://127.0.0.1:9/mcp"
token_env = "DOCS_TOKEN"
[agents.default]
tools = ["leak", "told", "variables", "large"]
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    directory = tmp_path_factory.mktemp("secrets")
    (directory / "a").write_text("from-a-credential\n")
    given = {
        "CREDENTIALS_DIRECTORY": str(directory),
        "MY_TOKEN": "from-a-variable",
        "DOCS_TOKEN": "from-the-environment",
    }
    os.environ.update(given)
    try:
        with daemon_on(directory, CONFIG, "--log-level", "debug") as daemon:
            yield daemon
    finally:
        for name in given:
            del os.environ[name]


def test_what_a_program_says_of_its_failure_holds_none(daemon: Daemon) -> None:
    with daemon.agent() as agent:
        fault = json.loads(agent.ask("leak", None)["content"])
    assert fault["stdout_tail"] == "a … … … …\n"
    assert fault["stderr_tail"] == "b … … … …\n"


def test_neither_the_log_nor_the_audit_holds_one(daemon: Daemon) -> None:
    with daemon.agent() as agent:
        assert agent.ask("told", "is it from-a-command?")["content"] == '"is it from-a-command?"'
    store = daemon.path.parent / "audit.db"
    reader = open_reader(f"sqlite:{store}")
    until(lambda: len(reader.latest(AuditFilter(tool="told"), 0)) == 1)
    (record,) = reader.latest(AuditFilter(tool="told"), 0)
    reader.close()
    assert (record.input, record.output) == ('"is it …?"', '"is it …?"')
    for file in (*store.parent.glob("audit.db*"), daemon.log):
        kept = file.read_bytes()
        assert [secret for secret in SECRETS if secret.encode() in kept] == []


def test_no_other_process_has_one_in_its_environment(daemon: Daemon) -> None:
    with daemon.agent() as agent:
        variables = agent.ask("variables", None)["content"]
        # Heavy enough for a checker, so that one is there too.
        agent.ask("large", [[]] * 100_000)
    assert [secret for secret in SECRETS if secret in variables] == []
    helpers = children_of(daemon.process.pid)
    assert len(helpers) >= 3
    for pid in helpers:
        environment = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        assert [secret for secret in SECRETS if secret in environment + words] == []
