"""The README and the documents are true: conversations are played, files are read, tables leave nothing out."""

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.test_documents import Expect, Send, Step, play, serving
from tooldispatchd.__main__ import COMMANDS
from tooldispatchd.agent.programs import TRACEPARENT
from tooldispatchd.catalog.confined import ConfinedSpec
from tooldispatchd.catalog.expressions.door import compile_expression
from tooldispatchd.catalog.meanings import check_names
from tooldispatchd.catalog.speckinds import Spec
from tooldispatchd.catalog.specs import DaemonSpec, LimitsSpec, McpSpec, OAuthSpec, ProcessSpec, ProfileSpec, ToolSpec
from tooldispatchd.catalog.types import parse_arrow, parse_type
from tooldispatchd.children.inheritance import PASSED_ON, RUN_ID, UPDATES_FD
from tooldispatchd.daemon.configuration import load_catalog
from tooldispatchd.daemon.planned_keys import PLANNED

ROOT: Final = Path(__file__).parent.parent
# With what would make it too long.
README: Final = "\n".join((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/configuration.md"))
DOCUMENTS: Final = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md"))
EXAMPLE: Final = ROOT / "tooldispatchd" / "cli" / "example.toml"
# The words that the code, the logs and the documents share.
WORDS: Final = (
    *("agent", "session", "line", "request", "response", "call", "job", "profile", "tool", "catalog", "route"),
    "provider",
    *("connection", "answer", "fault", "outcome", "grace"),
)
TABLES: Final[dict[str, type[Spec]]] = {
    "`[daemon]`": DaemonSpec,
    "`[limits]`": LimitsSpec,
    "`[mcp.NAME]`": McpSpec,
    "OAuth": OAuthSpec,
    "`[tools.NAME]`": ToolSpec,
    "`[agents.NAME]`": ProfileSpec,
    "Bounds and a sandbox": ConfinedSpec,
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
    return [_spoken(*line.split(" ", 1)) for line in block.splitlines()]


def _spoken(arrow: str, text: str) -> Step:
    assert arrow in {"→", "←"}
    return Send(text.encode() + b"\n") if arrow == "→" else Expect([json.loads(text)])


# --- playing ---


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket of a daemon with the example configuration."""
    # The example names its programs as a user has them; here they lie beside the interpreter.
    environ = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"}
    with serving(tmp_path_factory.mktemp("readme"), EXAMPLE, environ) as path:
        yield path


@pytest.mark.parametrize("block", blocks("jsonl played"), ids=["whole", "short", "many", "jobs"])
def test_a_conversation_of_the_readme_holds_against_a_daemon(block: str, address: Path) -> None:
    play(steps_of(block), address)


# --- configuration ---


def test_the_function_in_the_readme_is_a_tool_where_it_is_named_as_there(tmp_path: Path) -> None:
    named = 'python = "thumbs:make"'
    assert f"`{named}`" in README
    file = tmp_path / "tooldispatchd.toml"
    file.write_text(f"[tools.thumbnail]\n{named}\n", encoding="utf-8")
    module = next(block for block in blocks("python") if "def make" in block)
    (tmp_path / "thumbs.py").write_text(module, encoding="utf-8")
    assert load_catalog(file, {}).tools["thumbnail"].description == "Make a small picture of a large one."


@pytest.mark.parametrize("table", TABLES)
def test_every_key_has_its_row(table: str) -> None:
    first = [key for row in rows(section(table)) for key in ticked(row[0])]
    spec = TABLES[table]
    # Those that bound programs have a table of their own.
    is_program = issubclass(spec, ConfinedSpec) and spec is not ConfinedSpec
    elsewhere = set(ConfinedSpec.__struct_fields__) if is_program else set()
    keys = {field.encode_name for field in msgspec.structs.fields(spec)} - elsewhere
    # The table of expressions, below that of tools, has types in its first cells.
    assert {key for key in first if key.isidentifier()} == keys


def test_every_key_of_a_process_is_explained() -> None:
    text = re.sub(r"^```toml\n.*?^```$", "", section("`[processes.NAME]`"), flags=re.MULTILINE | re.DOTALL)
    keys = {field.encode_name for field in msgspec.structs.fields(ProcessSpec)}
    assert keys - set(ticked(text)) == set()


def test_every_limit_has_its_default_and_a_reason() -> None:
    shown = {ticked(row[0])[0]: (row[1], bool(row[3])) for row in rows(section("`[limits]`"))}
    defaults = {name: str(value) for name, value in msgspec.structs.asdict(LimitsSpec()).items()}
    wanted = {name: (value.removesuffix(".0"), True) for name, value in defaults.items()}
    assert shown == wanted | {"processes": ("four a core", True)}


def test_every_type_in_the_readme_is_one() -> None:
    declared = {name: parse_type("json") for name in ("A", "B", "T", "U", "Query")}
    texts = [text for row in rows(section("`[types]`")) for text in ticked(row[0])]
    assert len(texts) == 11
    for text in texts:
        check_names(parse_type(text), declared)


def test_every_expression_in_the_readme_gives_what_it_says() -> None:
    examples = [[ticked(cell)[0] for cell in row] for row in rows(section("`[tools.NAME]`")) if len(row) == 4]
    assert len(examples) == 6
    for arrow, source, given, result in examples:
        source_type, target_type = parse_arrow(arrow)
        expression = compile_expression(source, input_type=source_type, output_type=target_type, declared={})
        assert expression.evaluate(json.loads(given)) == json.loads(result)


def test_what_is_not_in_this_version_is_listed_whole() -> None:
    listed = {key for row in rows(section("What is not in this version")) for key in ticked(row[1])}
    ways_to_listen = {"systemd", "fd:READ,WRITE", "?"}
    assert listed - ways_to_listen == {str(pattern[-1]) for pattern in PLANNED}


# --- what else the README promises ---


def test_every_variable_that_a_child_gets_is_named() -> None:
    assert {*PASSED_ON, RUN_ID, UPDATES_FD, TRACEPARENT} == set(re.findall(r"`([A-Z_]+)`", section("Security")))


def test_the_glossary_has_every_word_of_the_house() -> None:
    assert tuple(row[0] for row in rows(section("Glossary"))) == WORDS


def test_every_command_in_the_readme_exists() -> None:
    used = re.findall(r"^    tooldispatchd (\w+)", README, re.MULTILINE)
    assert {"init", "check", "serve", "tools", "call"} <= set(used) <= set(COMMANDS)
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z]+)(?:`|  )", README)) <= targets


def anchors(path: Path) -> set[str]:
    """What may stand behind a # in a link to a document."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "protocol/PROTOCOL.md", *DOCUMENTS])
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
    assert len(rooms) == 13
    assert {room for room in rooms if not (ROOT / "tooldispatchd" / room).is_dir()} == set()
    named = {word for word in ticked(text) if re.fullmatch(r"[\w/]+\.(py|md|toml|lock)", word)}
    places = (ROOT, ROOT / "tooldispatchd", ROOT / "tests")
    missing = {word for word in named if not any((place / word).is_file() for place in places)}
    # Written by `make bench`, on the machine that it is about.
    assert missing <= {"benchmarks/RESULTS.md"}
