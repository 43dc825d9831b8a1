"""Plumb files of a configuration: found, read, put into its table; what is wrong with them is shown where it stands."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.config.wrong_plumb import PLUMB
from tests.config.wrong_plumb_blocks import PLUMB_BLOCKS
from tests.examples import examples
from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.config.configuration import ConfigError, load_catalog
from tooldispatchd.config.plumb_files import MAX_FILE_BYTES, MAX_FILES


def load(directory: Path, text: str, files: dict[str, str], environ: dict[str, str] | None = None) -> Catalog:
    (directory / "t.toml").write_text(text)
    for name, content in files.items():
        (directory / name).write_text(content)
    return load_catalog(directory / "t.toml", environ or {})


def report_of(directory: Path, text: str, files: dict[str, str]) -> str:
    """The report, without the directory that the test happens to run in."""
    with pytest.raises(ConfigError) as caught:
        load(directory, text, files, {"EMPTY": ""})
    return str(caught.value).replace(f"{directory}/", "")


ALL = PLUMB | PLUMB_BLOCKS


@pytest.mark.parametrize("case", ALL)
def test_a_wrong_file_gets_its_exact_report(tmp_path: Path, case: str) -> None:
    text, files, report = ALL[case]
    assert report_of(tmp_path, text, files) == report


NOTATION = """\
type Query = {text: string}
let docs = { command: "./server", args: ["${KEY}"], env: { TOKEN: "<${KEY}>" } }
@tool true let echo : string -> string = id
let search : Query -> json = tool { mcp: docs, name: "search" }
let twice : !int -> !int = map(score * 2)
"""
TABLES = """\
[types]
Query = "{text: string}"
[mcp.docs]
command = "./server"
args = ["${KEY}"]
env = { TOKEN = "<${KEY}>" }
[tools.echo]
type = "string -> string"
inline = "id"
[tools.search]
type = "Query -> json"
mcp = "docs"
name = "search"
[processes.twice]
kind = "map"
type = "!int -> !int"
map = "score * 2"
"""


def test_a_file_means_the_same_as_the_tables_of_toml(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    written = load(tmp_path, TABLES, {}, {"KEY": "hunter2"}).config
    read = load(other, 'plumb = ["../a.plumb"]\n', {"../a.plumb": NOTATION}, {"KEY": "hunter2"}).config
    assert read.types == written.types
    assert read.tools == written.tools
    assert read.processes == written.processes
    # A relative path starts at the configuration, wherever it is written.
    assert read.mcp["docs"].command == f"{other}/server"
    assert read.mcp["docs"].args == written.mcp["docs"].args == ("hunter2",)
    assert read.mcp["docs"].env == written.mcp["docs"].env == {"TOKEN": "<hunter2>"}


def test_a_profile_may_name_what_a_file_declares(tmp_path: Path) -> None:
    catalog = load(
        tmp_path, 'plumb = ["a.plumb"]\n[agents.default]\ntools = ["echo"]\n', {"a.plumb": NOTATION}, {"KEY": ""}
    )
    assert catalog.profiles["default"].tools == ("echo",)


def test_files_may_use_what_one_another_declare(tmp_path: Path) -> None:
    files = {"types.plumb": "type Query = {text: string}\n", "tools.plumb": "let echo : Query -> Query = id\n"}
    catalog = load(tmp_path, 'plumb = ["tools.plumb", "types.plumb"]\n', files)
    assert catalog.tools["echo"].type_text == "Query -> Query"


def test_a_files_name_may_come_from_the_environment_and_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "hunter2.plumb").write_text("let\n")
    (tmp_path / "t.toml").write_text('plumb = ["${NAME}.plumb"]\n')
    with pytest.raises(ConfigError) as caught:
        load_catalog(tmp_path / "t.toml", {"NAME": "hunter2"})
    assert "\n${NAME}.plumb:" in str(caught.value)
    assert "hunter2" not in f"{caught.value}{caught.value.findings!r}"


def test_a_file_that_is_too_large_is_refused_unread(tmp_path: Path) -> None:
    report = report_of(tmp_path, 'plumb = ["a.plumb"]\n', {"a.plumb": " " * (MAX_FILE_BYTES + 1)})
    assert "t.toml:1: plumb[0]: cannot use this file: it is over 1 MiB" in report


def test_a_file_that_is_no_utf8_gets_the_line_of_the_first_bad_byte(tmp_path: Path) -> None:
    (tmp_path / "a.plumb").write_bytes(b"\n\n\xff")
    report = report_of(tmp_path, 'plumb = ["a.plumb"]\n', {})
    assert "t.toml:1: plumb[0]: cannot read this file: not UTF-8 in line 3" in report


def test_a_file_whose_name_holds_a_nul_says_so(tmp_path: Path) -> None:
    assert "plumb[0]" in report_of(tmp_path, 'plumb = ["a\\u0000"]\n', {})


def test_too_many_files_are_refused(tmp_path: Path) -> None:
    names = json.dumps([f"{number}.plumb" for number in range(MAX_FILES + 1)])
    assert report_of(tmp_path, f"plumb = {names}\n", {}).startswith(
        "cannot use t.toml: 1 problem\nt.toml:1: plumb: too many files\n"
    )


def test_what_is_nested_without_end_is_refused(tmp_path: Path) -> None:
    value = "[" * 5000 + "]" * 5000
    assert "nested" in report_of(tmp_path, 'plumb = ["a.plumb"]\n', {"a.plumb": f"let x = {value}\n"})


def test_a_configuration_without_such_files_imports_no_parser(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text('[tools.echo]\ninline = "id"\n[processes.p]\nkind = "id"\n')
    program = (
        "import sys; from pathlib import Path; from tooldispatchd.config.configuration import load_catalog; "
        "load_catalog(Path(sys.argv[1]), {}); raise SystemExit('lark' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "t.toml")], check=True)


# Each puts the secret where somebody might, beside a mistake; the last ones where the notation does not take it.
MISTAKES = {
    "beside a wrong key": 'let a = { command: "x", env: { T: S }, arg: [S] }\nlet f : {} -> json = tool { mcp: a }',
    "beside a wrong limit": 'let a = { command: "x", args: [S], call_s: 0 }\nlet f : {} -> json = tool { mcp: a }',
    "beside a wrong directory": 'let f : {} -> json = tool { mcp: { command: "x", cwd: "${MISSING}", args: [S] } }',
    "in a server that a tool has alone": 'let f : {} -> json = tool { mcp: { command: "x", token: S } }',
    "in the place of a list": 'let f : {} -> json = tool { mcp: { command: "x", args: S } }',
    "in a URL": "let f : {} -> json = tool { mcp: { url: S } }",
    "in the place of a server": "let f : {} -> json = tool { mcp: S }",
    "in a prompt": "let w : !string -> !string = agent { prompt: S, tool: [] }",
    "in an option of an agent": 'let w : !string -> !string = agent { command: ["x"], key: S, tools: 3 }',
    "in a comment": "(* S *) let f : int -> string = id (* S *)",
    "after a quote in a comment": '# 5" wide\nlet a = { args: [S], agr: [S] }\nlet f : {} -> json = tool { mcp: a }',
    "beside a text of three quotes": 'let w : !string -> !string = agent { prompt: """a "b" c""", promt: S, model: 5 }',
    "within a text of three quotes": 'let w : !int -> !int = agent { prompt: """a " b """ model: """ "b" """ mcp: S }',
    "after a raw text": 'let f : int -> int = map(r"\\" + X) let w : !int -> !int = agent { promt: S }',
    "in an environment's wrong place": 'let w : !string -> !string = agent { command: "x", env: [S], args: { a: S } }',
    "in a value that stands for another": "let k = S let w : !int -> !int = agent { command: k, cwd: [k], model: k }",
    "where a declaration is": "let f : int -> int = id S",
    "after a missing sign": 'let a = { command "x" env: { T: S } }',
    "in a list that does not end": "let a = { args: [S }",
    "in a string that does not end": "let a = { args: [Q",
}
# No word of a report begins like that: those who draw texts try words that stand in the code.
SECRETS = st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=8, max_size=20).map("§q7{}".format)


@pytest.mark.parametrize("mistake", MISTAKES)
@given(SECRETS)
@settings(max_examples=10, deadline=None)
def test_no_report_bears_a_secret(tmp_path_factory: pytest.TempPathFactory, mistake: str, secret: str) -> None:
    directory = tmp_path_factory.getbasetemp()
    quoted = json.dumps(secret, ensure_ascii=False)
    text = re.sub(r"\b[SQ]\b", lambda found: quoted if found[0] == "S" else quoted[:-1], MISTAKES[mistake])
    with pytest.raises(ConfigError) as caught:
        load(directory, 'plumb = ["a.plumb"]\n', {"a.plumb": text})
    error = caught.value
    shown = f"{error}{error.findings!r}{error.__cause__!r}{error.__dict__}"
    assert "a.plumb" in shown
    assert secret not in shown
    assert secret[1:] not in shown


WORDS = st.sampled_from(
    ["let ", "type ", "x", "y", " : ", " -> ", "!", "int", " = ", "id", "map(", ")", "{", "}", "[", "]", '"', "a: ",
     ", ", "\n", "tool ", "agent ", "@tool ", "true", "(*", "*)", "1", "plumb", ";", "é", "\t", "mcp: ", "command: "]
)  # fmt: skip


@settings(deadline=None, max_examples=examples(150))
@given(st.lists(WORDS, max_size=25).map("".join))
def test_any_text_gives_a_catalog_or_a_report(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    directory = tmp_path_factory.getbasetemp()
    outcome: ConfigError | Catalog
    try:
        outcome = load(directory, 'plumb = ["any.plumb"]\n', {"any.plumb": text})
    except ConfigError as error:
        outcome = error
    assert isinstance(outcome, Catalog) or all(finding.line for finding in outcome.findings)
