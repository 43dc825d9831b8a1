"""One reading of a configuration, as a daemon makes them while it runs."""

from pathlib import Path
from typing import Final

from tests.agent.test_freed import nothing_for_the_collector
from tooldispatchd.config.configuration import ConfigError
from tooldispatchd.daemon.reload.source import ConfigurationSource

KINDS: Final = """
[tools.same]
type = "string -> string"
inline = "id"
[tools.twice]
type = "int -> int"
map = "x * 2"
[tools.words]
type = "string -> int"
command = ["wc", "-w"]
input_mode = "text"
[tools.make]
python = "posixpath:basename"
[tools.fetch]
rest = { url = "http://127.0.0.1:9/${parameters.id}" }
type = "{id: string} -> json"
[tools.chained]
process = "chain"
[mcp.server]
command = "true"
[tools.far]
mcp = "server"
name = "far"
[processes.chain]
kind = "plumb"
type = "!string -> !int"
chain = ["lift(words)", "lift(twice)"]
[agents.default]
tools = ["same", "twice"]
"""


def test_a_reading_leaves_nothing_for_the_collector(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(KINDS)
    source = ConfigurationSource(file, listen=(), standing="unix:/run/a.sock")
    # What is made once for all is made by the first.
    source.read()
    with nothing_for_the_collector():
        source.read()


def test_a_reading_that_fails_leaves_nothing_for_the_collector(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(KINDS.replace("lift(twice)", "lift(thrice)"))
    source = ConfigurationSource(file, listen=(), standing="unix:/run/a.sock")

    def read() -> None:
        try:
            source.read()
        except ConfigError:
            return
        raise AssertionError(KINDS)

    read()
    with nothing_for_the_collector():
        read()
