import argparse
import contextlib
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.daemon.spawned import without_places
from tests.http.certificates import Authority
from tooldispatchd.catalog import restspecs, specs, toolboxspecs
from tooldispatchd.catalog.agentspec import AGENT_KEYS
from tooldispatchd.catalog.confinement import KEYS
from tooldispatchd.catalog.policyspec import POLICY_KEYS
from tooldispatchd.cli import init
from tooldispatchd.config.configuration import load_catalog
from tooldispatchd.toolbox.sets import SETS

EXAMPLE = init.example().decode()
SECTIONS = {
    "daemon": specs.DaemonSpec,
    "limits": specs.LimitsSpec,
    "mcp": specs.McpSpec,
    "tools": specs.ToolSpec,
    "toolbox": toolboxspecs.ToolboxSpec,
    "agents": specs.ProfileSpec,
    "processes": specs.ProcessSpec,
    "rest": restspecs.RestApiSpec,
    "restTools": restspecs.ForeignRestSpec,
}


# The keys of a toolbox that one set alone reads.
OPTIONS = sorted({key for tool_set in SETS.values() for key in tool_set.options})


def run_init(*words: str) -> int:
    parser = argparse.ArgumentParser()
    init.add_arguments(parser)
    return init.run(parser.parse_args(words))


def section(name: str) -> str:
    """What follows the headers of one kind in the example, comments included, each up to the next header."""
    parts = re.split(r"(?m)^\[([A-Za-z_]+)[^\]]*\]\n", EXAMPLE)
    return "".join(text for header, text in zip(parts[1::2], parts[2::2], strict=True) if header == name)


def uncommented(text: str) -> str:
    """The text with its commented keys in force."""
    return re.sub(r"(?m)^# ([a-z_]+ = )", r"\1", text)


def test_it_writes_the_example_into_the_working_directory(tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):
        assert run_init() == 0
    assert (tmp_path / "tooldispatchd.toml").read_text() == EXAMPLE


def test_it_says_what_comes_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "my.toml"
    assert run_init(str(file)) == 0
    assert capsys.readouterr().out == f'wrote {file}; "tooldispatchd serve --config {file}" starts the daemon with it\n'


def test_a_minimal_one_is_short_and_works_as_it_stands(tmp_path: Path) -> None:
    file = tmp_path / "tools.toml"
    assert run_init("--minimal", str(file)) == 0
    assert len(file.read_text().splitlines()) < 30
    catalog = load_catalog(file, {})
    assert ([*catalog.tools], [*catalog.servers], catalog.warnings) == (["words", "dedent"], ["time"], ())


def test_a_hyphen_is_standard_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.chdir(tmp_path):
        assert run_init("-") == 0
    assert capsys.readouterr().out == EXAMPLE
    assert [*tmp_path.iterdir()] == []


def test_it_never_overwrites_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "my.toml"
    file.write_text("mine")
    assert run_init(str(file)) == 2
    assert file.read_text() == "mine"
    assert capsys.readouterr().err == f"cannot write {file}: it exists already (--force overwrites it)\n"


def test_force_overwrites(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text("mine" * 10_000)
    assert run_init(str(file), "--force") == 0
    assert file.read_text() == EXAMPLE


def test_a_directory_that_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "none" / "my.toml"
    assert run_init(str(file)) == 2
    assert capsys.readouterr().err == f"cannot write {file}: No such file or directory\n"


def test_the_example_is_a_right_configuration_in_any_environment(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_text(EXAMPLE)
    catalog = load_catalog(file, {})
    declared = ["echo", "greet", "sort", "words", "find", "dedent", "reverse", "address", "today", "now"]
    others = ["websearch", "weather", "current_date", "sleep", "hook.guard.before", "forecast"]
    assert list(catalog.tools) == [*declared, *others]
    assert list(catalog.profiles) == ["default", "clock"]
    assert catalog.config.mcp["time"].args[:2] == ("-m", "mcp_server_time")
    assert catalog.warnings == ()


def test_the_example_is_checked_without_a_warning_where_there_is_what_it_says_that_it_needs(tmp_path: Path) -> None:
    needed = re.search(r"(?m)^# It needs the programs (\w+), (\w+), (\w+) and (\w+),", EXAMPLE)
    assert needed is not None
    (tmp_path / "bin").mkdir()
    for program in needed.groups():
        (tmp_path / "bin" / program).symlink_to(shutil.which(program) or "missing")
    environ = without_places() | {"PATH": str(tmp_path / "bin")}
    for words in (["init", "config.toml"], ["check", "--config", "config.toml"]):
        command = [sys.executable, "-m", "tooldispatchd", *words]
        ended = subprocess.run(
            command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60, check=False, umask=0
        )
        assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    ("name", "key"),
    [
        (name, key)
        for name, spec in SECTIONS.items()
        for key in spec.__struct_encode_fields__
        # What bounds programs, how calls wait and what agents may call is the same wherever it stands, and shown once.
        if (name == "tools" or key not in {*KEYS, *POLICY_KEYS}) and not (name == "toolbox" and key in OPTIONS)
        if not (name == "processes" and key in AGENT_KEYS)
    ],
)
def test_the_example_shows_every_key_in_its_section(name: str, key: str) -> None:
    assert re.search(rf"(?m)^(# )?{key} = ", section(name))


@pytest.mark.parametrize("key", specs.Config.__struct_encode_fields__)
def test_the_example_has_every_section(key: str) -> None:
    # What is no table stands at the top; and one that needs a document is only shown.
    assert section(key) or re.match(rf"(?:#.*\n|\n)*# {key} = ", EXAMPLE) or f"\n#  [{key}." in EXAMPLE


@pytest.mark.parametrize("key", sorted(set(specs.LimitsSpec.__struct_fields__) - {"processes"}))
def test_the_example_states_the_default_of_every_limit(key: str) -> None:
    limits = tomllib.loads(uncommented(section("limits")))
    assert limits[key] == getattr(specs.LimitsSpec(), key)


@pytest.mark.parametrize("key", specs.OAuthSpec.__struct_fields__)
def test_the_example_names_every_particular_of_oauth(key: str) -> None:
    assert re.search(rf"(?m)^#  .*\b{key}\b", section("mcp"))


@pytest.mark.parametrize("key", OPTIONS)
def test_the_example_names_every_key_of_one_set_of_tools(key: str) -> None:
    assert re.search(rf"(?m)^#  .*\b{key}\b", section("toolbox"))


@pytest.mark.parametrize("source", ["token", "token_env", "token_file", "auth"])
def test_the_example_with_every_key_in_force_is_right_too(tmp_path: Path, source: str) -> None:
    file = tmp_path / "t.toml"
    # A token is from one place; a profile must have one, since nothing else is asked of it here.
    others = {"token", "token_env", "token_file", "auth", "oauth", "basic"} - {source}
    others -= {"oauth"} if source == "auth" else set()
    before, profiles = uncommented(EXAMPLE).split("# ---- Profiles")
    # There is no virtual environment here; `ports` goes without `input_mode`, the function has no `ctx`, and a shared
    # server no spare one.
    others |= {"venv", "ports", "exit_codes", "state", "spare"}
    servers = re.sub(rf"(?m)^({'|'.join(others)}) = .*\n", "", before)
    wanted = "token" if source == "auth" else source
    file.write_text(servers + re.sub(rf"(?m)^(?!{wanted} )token\w* = .*\n", "", f"#{profiles}"))
    (tmp_path / "tools.plumb").write_text("type Other = Person")
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"git": {"command": "mcp-server-git"}}}')
    for name in ("clock.token", "docs.token", "api.token"):
        (tmp_path / name).write_text("x")
    authority = Authority(tmp_path, "ca")
    _, key = authority.issue("client")
    Path(key).rename(tmp_path / "client.key")
    catalog = load_catalog(file, dict.fromkeys(("CLOCK_TOKEN", "DOCS_TOKEN", "API_TOKEN", "API_KEY", "SECRET"), "x"))
    assert catalog.config.mcp["time"].deny == ("convert_time",)
    assert list(catalog.servers) == ["time", "docs", "git"]
    assert list(catalog.profiles) == ["writer", "default", "clock"]
    assert list(catalog.tokens) == ["clock"]
    assert [name for name, _ in catalog.servers["docs"].credentials.headers] == [
        "X-Team",
        *([] if source == "auth" else ["authorization"]),
    ]
