"""The README and the documents are true: conversations are played, files are read, tables leave nothing out."""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from docs.settings import DOCUMENT, STRUCTS, descriptions, with_tables
from protocol.conformance.run import Step
from tests.test_documents import PATIENCE_S, play, serving
from tests.wire.conversations import spoken
from tooldispatchd.__main__ import COMMANDS
from tooldispatchd.agent.programs.programs import TRACEPARENT
from tooldispatchd.catalog.agentspec import AgentSpec
from tooldispatchd.catalog.answerspec import ServerAnswersSpec
from tooldispatchd.catalog.confinedspec import ConfinedSpec
from tooldispatchd.catalog.expressions.door import compile_expression
from tooldispatchd.catalog.meanings import check_names
from tooldispatchd.catalog.policyspec import PolicySpec, SizedSpec
from tooldispatchd.catalog.specs import Config
from tooldispatchd.catalog.types import parse_arrow, parse_type
from tooldispatchd.children.inheritance import PASSED_ON, RUN_ID, UPDATES_FD
from tooldispatchd.config.configuration import load_catalog

ROOT: Final = Path(__file__).parent.parent
DOCUMENTS: Final = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))
PROTOCOL: Final = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "protocol").rglob("*.md"))
# With the documents that continue it.
CONTINUED: Final = ("README.md", *(f"docs/{name}.md" for name in ("agents", "configuration", "security", "glossary")))
README: Final = "\n".join((ROOT / name).read_text(encoding="utf-8") for name in CONTINUED)
EXAMPLE: Final = ROOT / "tooldispatchd" / "cli" / "example.toml"
# The words that the code, the logs and the documents share.
WORDS: Final = {
    *("agent", "session", "line", "request", "response", "call", "job", "profile", "tool", "catalog", "route"),
    "provider",
    *("connection", "answer", "fault", "outcome", "grace"),
}


# --- reading ---


def section(heading: str) -> str:
    """The text under a heading, up to the next one."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", README, re.MULTILINE | re.DOTALL)
    assert found, heading
    return found[1]


def rows(text: str) -> list[list[str]]:
    """The cells of every row of the tables in `text`, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    heads = {line for line, below in zip(text.splitlines(), text.splitlines()[1:], strict=False) if below[:4] == "|---"}
    cells = [re.split(r"(?<!\\)\|", line.strip("|")) for line in lines if line not in heads]
    return [[cell.strip().replace("\\|", "|") for cell in row] for row in cells]


def ticked(text: str) -> list[str]:
    """What stands in backticks."""
    return re.findall(r"`([^`]+)`", text)


def blocks(kind: str) -> list[str]:
    """The fenced blocks of a kind."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def steps_of(block: str) -> list[Step]:
    """A conversation as steps."""
    return [spoken(line) for line in block.splitlines()]


# --- playing ---


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket of a daemon with the example configuration.

    Its server takes seconds to start: here all agents share it, and one that stays keeps it.
    """
    directory = tmp_path_factory.mktemp("readme")
    before, table, behind = EXAMPLE.read_text(encoding="utf-8").partition("[mcp.time]\n")
    (directory / "config.toml").write_text(f"{before}{table}shared = true\n{behind}", encoding="utf-8")
    # The example names its programs as a user has them; here they lie beside the interpreter.
    environ = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"}
    with serving(directory, directory / "config.toml", environ) as path, socket.socket(socket.AF_UNIX) as staying:
        staying.connect(str(path))
        staying.sendall(b'{"__port":"hello"}\n')
        yield path


@pytest.mark.parametrize("block", blocks("jsonl played"), ids=["whole", "short", "many", "jobs", "switched", "text"])
def test_a_conversation_of_the_readme_holds_against_a_daemon(block: str, address: Path) -> None:
    play(steps_of(block), address)


@pytest.mark.parametrize(
    ("holds", "printed"),
    [
        ("as_completed", '"Hello, Ada!" False\ninvalid_input invalid False\n'),
        ("client.parse", "Hello, Ada!\n"),
    ],
)
def test_a_client_in_the_documents_runs_as_it_stands(address: Path, holds: str, printed: str) -> None:
    program = next(block for block in blocks("python") if holds in block)
    environ = os.environ | {"TOOLDISPATCHD_SOCKET": str(address)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.stderr == ""
    assert printed in done.stdout


def test_the_first_tool_of_the_readme_answers(tmp_path: Path) -> None:
    configuration = next(block for block in blocks("toml") if "[tools.wordcount]" in block)
    (tmp_path / "tooldispatchd.toml").write_text(configuration, encoding="utf-8")
    words = re.findall(r"^    tooldispatchd (call wordcount .*--config.*)$", README, re.MULTILINE)
    assert len(words) == 1
    done = subprocess.run(
        [sys.executable, "-m", "tooldispatchd", *shlex.split(words[0])],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("3\n", 0)


# --- configuration ---


def test_the_function_in_the_readme_is_a_tool_where_it_is_named_as_there(tmp_path: Path) -> None:
    named = 'python = "thumbs:make"'
    assert f"`{named}`" in README
    file = tmp_path / "tooldispatchd.toml"
    file.write_text(f"[tools.thumbnail]\n{named}\n", encoding="utf-8")
    module = next(block for block in blocks("python") if "def make" in block)
    (tmp_path / "thumbs.py").write_text(module, encoding="utf-8")
    assert load_catalog(file, {}).tools["thumbnail"].description == "Make a small picture of a large one."


def test_the_tables_of_settings_are_as_the_structs_say() -> None:
    written = DOCUMENT.read_text(encoding="utf-8")
    assert with_tables(written) == written


@pytest.mark.parametrize("name", STRUCTS)
def test_every_setting_is_described_and_has_its_row(name: str) -> None:
    assert "" not in descriptions(STRUCTS[name]).values()
    assert f"<!-- settings of {name}, " in DOCUMENT.read_text(encoding="utf-8")


def test_no_table_of_the_configuration_is_without_its_settings() -> None:
    assert tables_below(Config) | {AgentSpec, ConfinedSpec, PolicySpec, ServerAnswersSpec, SizedSpec} == set(
        STRUCTS.values()
    )


def tables_below(spec: type[msgspec.Struct]) -> set[type[msgspec.Struct]]:
    """A Struct, and all that stand in its fields."""
    kinds = [msgspec.inspect.type_info(field.type) for field in msgspec.structs.fields(spec)]
    inner = [kind.value_type if isinstance(kind, msgspec.inspect.DictType) else kind for kind in kinds]
    choices = [one for kind in inner for one in (kind.types if isinstance(kind, msgspec.inspect.UnionType) else [kind])]
    below = [tables_below(kind.cls) for kind in choices if isinstance(kind, msgspec.inspect.StructType)]
    return {spec}.union(*below)


def test_every_type_in_the_readme_is_one() -> None:
    declared = {name: parse_type("json") for name in ("A", "B", "T", "U", "Query")}
    texts = [text for row in rows(section("`[types]`")) for text in ticked(row[0])]
    assert len(texts) == 11
    for text in texts:
        check_names(parse_type(text), declared)


def test_every_expression_in_the_readme_gives_what_it_says() -> None:
    examples = [[ticked(cell)[0] for cell in row] for row in rows(section("Expressions"))]
    assert len(examples) == 6
    for arrow, source, given, result in examples:
        source_type, target_type = parse_arrow(arrow)
        expression = compile_expression(source, input_type=source_type, output_type=target_type, declared={})
        assert expression.evaluate(json.loads(given)) == json.loads(result)


# --- what else the README promises ---


def test_every_variable_that_a_child_gets_is_named() -> None:
    assert {*PASSED_ON, RUN_ID, UPDATES_FD, TRACEPARENT} == set(re.findall(r"`([A-Z_]+)`", section("What is there")))


def test_the_glossary_has_every_word_of_the_house() -> None:
    words = [row[0] for heading in ("Words that users meet", "Words of the code") for row in rows(section(heading))]
    assert set(words) >= WORDS
    assert len(set(words)) == len(words)


def test_every_command_in_the_readme_exists() -> None:
    used = re.findall(r"^    tooldispatchd (\w+)", README, re.MULTILINE)
    assert {"init", "check", "serve", "tools", "call"} <= set(used) <= set(COMMANDS)
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z]+)(?:`|  )", README)) <= targets


def anchors(path: Path) -> set[str]:
    """What may stand behind a # in a link to a document."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", *PROTOCOL, *DOCUMENTS])
def test_every_link_leads_somewhere(name: str) -> None:
    document = ROOT / name
    for link in re.findall(r"\]\(([^) ]+)\)", document.read_text(encoding="utf-8")):
        file, _, anchor = link.partition("#")
        target = (document.parent / file).resolve() if file else document
        # The figures are written by `make bench`, on the machine that they are about.
        if link.startswith("https:") or target == ROOT / "benchmarks" / "RESULTS.md":
            continue
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_place_on_the_map_of_the_house_exists() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rooms = [name for row in rows(text) for name in ticked(row[0])]
    package = ROOT / "tooldispatchd"
    assert {f"{path.parent.name}/" for path in package.glob("*/__init__.py")} <= set(rooms)
    assert {room for room in rooms if not (package / room).exists()} == set()
    named = {word for word in ticked(text) if re.fullmatch(r"[\w/]+\.(py|md|toml|lock)", word)}
    places = (ROOT, ROOT / "tooldispatchd", ROOT / "tests")
    missing = {word for word in named if not any((place / word).is_file() for place in places)}
    # Written by `make bench`, on the machine that it is about.
    assert missing <= {"benchmarks/RESULTS.md"}
