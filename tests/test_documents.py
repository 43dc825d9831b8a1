"""The documents are true: the protocol's conversations are played against a daemon, and its files agree."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import jsonschema_rs
import msgspec
import pytest

from protocol.conformance.run import FIXTURES, SENDS, Step, bytes_of, read_transcript, transcripts
from tests.wire.conversations import THE_END, expected, hold, spoken
from tests.wire.toolbox import FORMS, spell
from tooldispatchd.config.configuration import load_catalog
from tooldispatchd.wire.decode import Refused, decode_line
from tooldispatchd.wire.faults import Code

# What the README's conversations are played with, too.
__all__ = ["PATIENCE_S", "play", "serving"]

ROOT: Final = Path(__file__).parent.parent
PROTOCOL: Final = ROOT / "protocol"
VIEWS: Final = PROTOCOL / "extensions" / "views.md"
DOCUMENTS: Final = (PROTOCOL / "core.md", *sorted((PROTOCOL / "extensions").glob("*.md")))
PORTS: Final = json.loads((PROTOCOL / "registry" / "ports.json").read_text(encoding="utf-8"))["ports"]
# A step takes milliseconds; on a machine that is busy with other tests, far more, and most to start a program.
PATIENCE_S: Final = 120.0
MIB: Final = 1024 * 1024


# Codes that no conversation can show yet, or ever.
NOT_SHOWN: Final = {
    "internal_error": "is a defect, which nobody can order; tests/agent/session/test_host.py makes one",
}

HEADING_OR_BLOCK: Final = re.compile(
    r"^#+ (?P<heading>[^\n]+)$|^```jsonl played\n(?P<block>.*?)^```$", re.MULTILINE | re.DOTALL
)

paths = transcripts()


def schema(name: str) -> Any:
    return jsonschema_rs.validator_for(json.loads((PROTOCOL / "schema" / "1" / name).read_text(encoding="utf-8")))


SCHEMA: Final = schema("daemon.schema.json")


# --- reading ---


def read_conversations() -> list[tuple[str, list[Step]]]:
    """Each conversation of the protocol by its heading: the fenced blocks marked `jsonl played`."""
    conversations = []
    for document in DOCUMENTS:
        heading = ""
        for match in HEADING_OR_BLOCK.finditer(document.read_text(encoding="utf-8")):
            if match["heading"] is not None:
                heading = f"{document.stem}: {match['heading']}"
            else:
                conversations.append((heading, [spoken(line) for line in match["block"].splitlines()]))
    return conversations


# --- playing ---


@contextmanager
def serving(directory: Path, config: Path, environ: Mapping[str, str] = os.environ) -> Iterator[Path]:
    """The socket of a daemon with `config` that lives as long as the block."""
    path = directory / "dispatch.sock"
    words = [sys.executable, "-m", "tooldispatchd", "serve", "--config", str(config), "--listen", f"unix:{path}"]
    with listening(path, words, environ):
        yield path


@contextmanager
def listening(path: Path, words: Sequence[str], environ: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Any daemon, once it listens at `path`; it is ended with the block."""
    said = path.with_suffix(".log")
    with (
        said.open("wb") as log,
        subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=log, env=environ) as daemon,
    ):
        try:
            until = time.monotonic() + PATIENCE_S
            while not path.exists():
                assert daemon.poll() is None, said.read_text()
                assert time.monotonic() < until, "the daemon does not listen"
                time.sleep(0.01)
            yield
        finally:
            daemon.terminate()
            daemon.wait(PATIENCE_S)


@pytest.fixture(scope="module")
def address_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path], Path]]:
    """From a configuration to the socket of a daemon that serves it, started when first asked for."""
    with ExitStack() as daemons:

        @cache
        def address_of(config: Path) -> Path:
            return daemons.enter_context(serving(tmp_path_factory.mktemp("documents"), config))

        yield address_of


def configurations() -> list[tuple[str, str, dict[str, str]]]:
    """Each fenced block of TOML with its place; one that is no whole file says so behind the word `toml`.

    A block of YAML with a name is a file that stands beside those of its document.
    """
    found = []
    for document in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = document.read_text(encoding="utf-8")
        beside = dict(re.findall(r"^```yaml (\S+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
        for block in re.finditer(r"^```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            line = text.count("\n", 0, block.start()) + 1
            found.append((f"{document.name}:{line}", block[1], beside))
    return found


@pytest.mark.parametrize(("place", "text", "beside"), configurations(), ids=[place for place, _, _ in configurations()])
def test_a_configuration_in_a_document_can_be_used_as_it_stands(
    place: str, text: str, beside: dict[str, str], tmp_path: Path
) -> None:
    for name, content in beside.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    file = tmp_path / "tooldispatchd.toml"
    file.write_text(text, encoding="utf-8")
    assert load_catalog(file, {}).warnings == (), place


def test_a_configuration_in_a_document_that_is_no_whole_file_says_of_what_it_is_a_part() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))]
    words = [word for text in texts for word in re.findall(r"^```toml(.+)$", text, re.MULTILINE)]
    assert words == [" excerpt of a configuration beside .mcp.json"]


def play(steps: list[Step], address: Path) -> None:
    """Play `steps` on a fresh channel; what is not as they say fails the test."""
    with closing(socket.socket(socket.AF_UNIX)) as channel:
        channel.settimeout(PATIENCE_S)
        channel.connect(str(address))
        with channel.makefile("rb") as answers:
            for step in (*steps, *THE_END):
                match step.verb:
                    case verb if verb in SENDS:
                        channel.sendall(bytes_of(step, {}))
                    case "daemon":
                        seen = [json.loads(answers.readline() or b'"the end"') for _ in expected(step)]
                        hold(step, seen, {})
                        assert all(map(SCHEMA.is_valid, seen))
                    case "agent_ends":
                        end_input(channel)
                    case "daemon_ends":
                        assert answers.readline() == b""


def end_input(channel: socket.socket) -> None:
    """End the requests; the daemon may have ended the channel already."""
    try:
        channel.shutdown(socket.SHUT_WR)
    except OSError:
        assert channel.recv(1) == b""


@pytest.mark.parametrize(("heading", "steps"), read_conversations())
def test_a_conversation_of_the_protocol_holds_against_a_daemon(
    heading: str, steps: list[Step], address_of: Callable[[Path], Path]
) -> None:
    play(steps, address_of(FIXTURES / "basic.toml"))


# --- what else the documents promise ---


@pytest.mark.parametrize("path", paths, ids=lambda path: path.stem)
def test_a_transcript_says_what_it_shows(path: Path) -> None:
    assert read_transcript(path).about.endswith(".")


@cache
def said(who: str) -> list[dict[str, object]]:
    """Every object that the `agent` or the `daemon` says in any transcript."""
    # Not `splitlines`, which also splits where JSON need not escape.
    lines = [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").strip("\n").split("\n")]
    objects = [line[who] for line in lines if who in line]
    return objects + [message for line in lines for message in line.get(f"{who}_any_order", [])]


def codes_in(value: object) -> set[str]:
    """The fault codes that stand anywhere in a line."""
    if isinstance(value, list):
        return {code for item in value for code in codes_in(item)}
    if not isinstance(value, dict):
        return set()
    own = {str(value["error"])} if "category" in value else set()
    return own | {code for item in value.values() for code in codes_in(item)}


def test_every_fault_code_stands_in_a_transcript() -> None:
    shown = {code for message in said("daemon") for code in codes_in(message)}
    assert shown == {code.value for code in Code} - set(NOT_SHOWN)


@pytest.mark.parametrize("who", ["agent", "daemon"])
def test_every_port_stands_in_a_transcript(who: str) -> None:
    # The short forms have no port.
    ports = {None, *(port["port"] for port in PORTS if port["from"] == who)}
    assert {message.get("__port") for message in said(who)} >= ports


def test_every_line_of_the_daemon_in_the_protocol_is_json() -> None:
    texts = [document.read_text(encoding="utf-8") for document in DOCUMENTS]
    blocks = [block for text in texts for block in re.findall(r"^```jsonl \w+\n(.*?)^```$", text, re.M | re.DOTALL)]
    lines = [line for block in blocks for line in block.splitlines()]
    assert all(line.startswith("→ ") or isinstance(json.loads(line.removeprefix("← ")), dict) for line in lines)


def test_every_spelling_in_the_protocol_is_the_one_that_is_shown() -> None:
    """[M129]."""
    text = VIEWS.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]+)` \| `(\w+)` \| `([^`]+)` \|$", text, re.MULTILINE)
    assert len(rows) > 5
    assert [(name, form, spell(name, form)) for name, form, _ in rows] == rows


def test_the_protocol_has_a_row_for_every_form() -> None:
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| (?=.*`name`)", VIEWS.read_text(encoding="utf-8"), re.MULTILINE)
    assert tuple(rows) == FORMS


def test_the_schema_of_an_agents_lines_takes_what_the_daemon_takes() -> None:
    lines_of_agents = schema("agent.schema.json")
    # A schema counts characters where the protocol counts bytes, so that it says nothing of other letters; nor can it
    # compare the agents in a nested request and beside it. What a spec holds is looked at when its session opens.
    said_by_agents = [line for line in said("agent") if not ("msg" in line and "agent" in line) and "spec" not in line]
    lines = [line for line in map(msgspec.json.encode, said_by_agents) if line.isascii()]
    wrong = [
        line
        for line in lines
        if lines_of_agents.is_valid(json.loads(line)) == isinstance(decode_line(line, MIB), Refused)
    ]
    assert wrong == []
