"""What programs find when a daemon has started them: their home, their directory, their own files, and their bounds."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.daemon.spawned import Daemon, daemon_on
from tests.forked.sandbox.confined import abilities, lack_of
from tooldispatchd.client.blocking import connect
from tooldispatchd.client.errors import FaultError

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a program as another user")
LANDLOCK = pytest.mark.skipif(
    lack_of(abilities().landlock, "network", "read", "write") is not None,
    reason="this machine has no Landlock",
)
# The system's own: the tests' interpreter may lie where a program that is shut in cannot read.
SHOW = """["/bin/sh", "-c", "printf '[\\"%s\\",\\"%s\\",\\"%s\\"]' \\"$HOME\\" \\"$USER\\" \\"$TMPDIR\\""]"""
TELL = """["/bin/sh", "-c", "cat \\"$TOOLDISPATCHD_TOOLS\\""]"""

CONFIG = f"""
[tools.as_nobody]
command = {SHOW}
user = "nobody"
[tools.reader]
command = {SHOW}
read = []
[tools.reader_at_home]
command = {SHOW}
read = []
env = {{ HOME = "/mine" }}
[tools.writes]
command = ["/bin/sh", "-c", "printf '%0100d' 0"]
input_mode = "text"
output_mode = "text"
output_bytes = 100
[tools.writes_more]
command = ["/bin/sh", "-c", "printf '%0101d' 0"]
input_mode = "text"
output_mode = "text"
output_bytes = 100
[tools.words]
command = ["/usr/bin/printf", "<%s>"]
args = ["${{verbose?--verbose}}", "${{n?-n}}", "${{n}}", "--", "${{files...}}"]
input_mode = "args"
output_mode = "text"
type = "{{files: [string], verbose?: bool, n?: int}} -> string"
[tools.echo]
inline = "id"
[tools.lists]
process = "lists"
[processes.lists]
kind = "agent"
type = "!json -> !json"
command = {TELL}
tools = ["echo"]
read = []
user = "nobody"
[agents.default]
tools = ["as_nobody", "reader", "reader_at_home", "writes", "writes_more", "words", "echo", "lists"]
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_on(tmp_path_factory.mktemp("programs"), CONFIG) as daemon:
        yield daemon


def called(daemon: Daemon, name: str) -> str:
    """What a tool answers, as JSON."""
    with connect(str(daemon.path)) as client:
        return client.call(name, "").content


def texts(daemon: Daemon, name: str) -> list[str]:
    return msgspec.json.decode(called(daemon, name), type=list[str])


def test_lists_flags_and_options_become_arguments(daemon: Daemon) -> None:
    with connect(str(daemon.path)) as agent:
        contents = [
            json.loads(agent.call("words", value).content)
            for value in (
                {"files": ["a b", "-c"], "verbose": True, "n": 5},
                {"files": [], "verbose": False},
                {"files": ["x"], "verbose": None, "n": None},
            )
        ]
    assert contents == ["<--verbose><-n><5><--><a b><-c>", "<-->", "<--><x>"]


@ROOT
def test_a_program_of_another_user_finds_that_ones_home(daemon: Daemon) -> None:
    home, user, scratch = texts(daemon, "as_nobody")
    assert (home, user) == (os.path.expanduser("~nobody"), "nobody")  # noqa: PTH111  # of another user
    assert not Path(scratch).exists()


@LANDLOCK
def test_a_program_that_may_read_little_is_at_home_in_its_directory(daemon: Daemon) -> None:
    home, _, scratch = texts(daemon, "reader")
    assert home == scratch != ""
    assert texts(daemon, "reader_at_home")[0] == "/mine"


def test_what_a_program_may_write_is_counted_as_it_wrote_it(daemon: Daemon) -> None:
    assert json.loads(called(daemon, "writes")) == "0" * 100
    with pytest.raises(FaultError) as raised:
        called(daemon, "writes_more")
    assert raised.value.fields["limit"] == "output_bytes"


@ROOT
@LANDLOCK
def test_an_agent_that_is_shut_in_can_read_which_tools_it_has(daemon: Daemon) -> None:
    tools = [tool["name"] for tool in json.loads(called(daemon, "lists"))]
    assert [tool for tool in tools if not tool.startswith("job_")] == ["echo"]
