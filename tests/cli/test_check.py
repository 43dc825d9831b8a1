import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tooldispatchd.cli import check

FINE = """\
[tools.echo]
inline = "id"
type = "string -> string"
[mcp.time]
command = "/bin/sh"
[mcp.off]
command = "x"
enabled = false
[agents.default]
tools = ["echo"]
mcp = ["time"]
[agents.other]
"""


def run_check(*words: str) -> int:
    parser = argparse.ArgumentParser()
    check.add_arguments(parser)
    return check.run(parser.parse_args(words))


def test_a_fine_configuration_is_counted_and_nothing_of_it_is_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "t.toml"
    file.write_text(FINE)
    assert run_check("--config", str(file)) == 0
    assert capsys.readouterr() == (f"{file}: fine: 1 tool, 1 server, 2 profiles\n", "")


def test_it_says_who_may_open_each_profile_and_no_token(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "t.toml"
    file.write_text(
        """\
[agents.default]
[agents.clerk]
token = "hunter2"
[agents.ops]
token = "hunter2"
uid = [1001, "root"]
gid = 7
[agents.local]
gid = [8, 9]
"""
    )
    assert run_check("--config", str(file)) == 0
    assert capsys.readouterr().out == (
        f"{file}: fine: 0 tools, 0 servers, 4 profiles\n"
        "    profile default: open to everyone who may connect\n"
        "    profile clerk: needs a token\n"
        "    profile ops: needs a token and uid 0 or uid 1001 or gid 7\n"
        "    profile local: needs gid 8 or gid 9\n"
    )


def test_warnings_go_to_stderr_and_change_no_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "t.toml"
    file.write_text(FINE + 'mcp = ["off"]\n')
    assert run_check("--config", str(file)) == 0
    assert capsys.readouterr().err == f"{file}: warning: agents.other: off is not offered: server off is not enabled\n"


def test_what_is_not_there_yet_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "t.toml"
    file.write_text('[mcp.time]\ncommand = "/no/such/program"\ncwd = "/no/such/place"\n')
    assert run_check("--config", str(file)) == 0
    out, err = capsys.readouterr()
    assert out == f"{file}: fine: 0 tools, 1 server, 1 profile\n"
    assert err == (
        f"{file}: warning: mcp.time.command: there is no such program\n"
        f"{file}: warning: mcp.time.cwd: there is no such directory\n"
    )


def test_a_wrong_configuration_is_reported_on_stderr_with_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "t.toml"
    file.write_text("[limits]\ncall_ss = 1\n")
    assert run_check("--config", str(file)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (f'cannot use {file}: 1 problem\n{file}:2: limits.call_ss: unknown key\n    did you mean "call_s"?\n')


def test_without_a_file_anywhere_it_offers_init(tmp_path: Path) -> None:
    program = (
        "import argparse; from tooldispatchd.cli import check; "
        "raise SystemExit(check.run(argparse.Namespace(config=None, explain=False, json=False, sandbox=False)))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert '"tooldispatchd init" writes an example' in ended.stderr


def test_declaring_its_arguments_imports_nothing_heavy() -> None:
    program = (
        "import argparse, sys; from tooldispatchd.cli import check, init; "
        "check.add_arguments(argparse.ArgumentParser()); init.add_arguments(argparse.ArgumentParser()); "
        "raise SystemExit(sorted({'trio', 'msgspec', 'jsonschema_rs', 'tomllib'} & set(sys.modules)) or 0)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


EXPLAINED = """\
[types]
Query = "{text: string}"
[mcp.docs]
command = "/no/such/program"
args = ["--key", "hunter2"]
[processes.searcher]
kind = "agent"
type = "!Query -> !string"
command = ["search-agent", "--key=hunter2"]
[tools.search]
type = "Query -> string"
process = "searcher"
title = "Search"
[tools.find]
mcp = "docs"
name = "search"
expose = false
[agents.clerk]
token = "hunter2"
tools = ["search"]
mcp = ["docs"]
"""


def test_an_explanation_says_what_was_understood_and_no_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "t.toml"
    file.write_text(EXPLAINED)
    assert run_check("--config", str(file), "--explain") == 0
    assert capsys.readouterr().out == (
        f"""\
{file}: fine: 2 tools, 1 server, 1 profile
    profile clerk: needs a token ({file}:18)
    type Query = {{text: string}} ({file}:2)
    tool search : Query -> string ({file}:10)
        runs: process searcher (agent: search-agent)
        limit: 600 s
        offered to: clerk
        has: title
    tool find : as its server says ({file}:14)
        runs: tool search of server docs
        limit: 60 s
        not offered: it is there for chains only
    process searcher : !Query -> !string ({file}:6)
        runs: agent: search-agent
        ended early: told so, and killed 2 s later
        bounds: none; not shut in
        used by: tool search
    server docs ({file}:3)
        prefix: "docs"
        runs: program program
        protocol: as the server speaks it
        connections: one for each agent, from the start
        limits: 30 s to start, 60 s a call
        bounds: none; not shut in
        used by: tool find, profile clerk
"""
    )


def test_an_explanation_says_who_may_come_in_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "t.toml"
    places = ["unix:/run/t.sock?profile=own&uid=0", "http://127.0.0.1:1?profiles=own,web&hosts=tools.example", "stdio"]
    file.write_text(f'[daemon]\nlisten = {places}\n[agents.own]\ntoken = "t"\n[agents.web]\n')
    assert run_check("--config", str(file), "--explain") == 0
    assert capsys.readouterr().out.endswith(
        """\
    place unix:/run/t.sock
        profiles: own
        users: 0
    place http://127.0.0.1:1
        profiles: own, web
        without a token: none
        hosts: tools.example
    place stdio
        profiles: all
"""
    )


def test_an_explanation_says_where_what_other_files_declare_was_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "t.toml"
    file.write_text('plumb = ["a.plumb"]\nmcp_json = ["b.json"]\n[mcp.git]\nshared = true\n')
    (tmp_path / "a.plumb").write_text("# one\nlet same : int -> int = id\n")
    (tmp_path / "b.json").write_text('{"mcpServers":\n\n{"git": {"command": "git-server"}}}')
    assert run_check("--config", str(file), "--explain") == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"    tool same : int -> int ({tmp_path}/a.plumb:2)" in lines
    assert f"    server git ({tmp_path}/b.json:3)" in lines


def test_as_json_a_fine_configuration_is_ok_with_its_warnings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "t.toml"
    file.write_text('[mcp.time]\ncommand = "/no/such/program"\n')
    assert run_check("--config", str(file), "--json") == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == {
        "ok": True,
        "problems": [],
        "warnings": ["mcp.time.command: there is no such program"],
    }
    assert err == ""


def test_as_json_each_problem_has_its_place_and_no_secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "t.toml"
    file.write_text('plumb = ["a.plumb"]\n[limits]\ncall_s = -1\n[mcp.a]\ncommand = "x"\ntokne = "hunter2"\n')
    (tmp_path / "a.plumb").write_text("let same : int -> = id\n")
    assert run_check("--config", str(file), "--json") == 2
    out, err = capsys.readouterr()
    nothing = dict.fromkeys(("column", "key", "value", "allowed", "did_you_mean"))
    assert json.loads(out) == {
        "ok": False,
        "problems": [
            {
                **nothing,
                "file": str(file),
                "line": 3,
                "key": "limits.call_s",
                "why": "too small",
                "value": "-1",
                "allowed": "a number, over 0 and at most 86400",
            },
            {
                **nothing,
                "file": str(file),
                "line": 6,
                "key": "mcp.a.tokne",
                "why": "unknown key",
                "did_you_mean": "token",
            },
            {
                **nothing,
                "file": f"{tmp_path}/a.plumb",
                "line": 1,
                "column": 19,
                "why": 'expected a type, found "="',
            },
        ],
        "warnings": [],
    }
    assert err == ""


def test_as_json_what_is_no_toml_has_line_and_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "t.toml"
    file.write_text("[limits]\ncall_s == 1\n")
    assert run_check("--config", str(file), "--json") == 2
    [problem] = json.loads(capsys.readouterr().out)["problems"]
    assert (problem["file"], problem["line"], problem["column"]) == (str(file), 2, 9)


def test_as_json_a_file_that_is_not_there_is_a_problem_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "none.toml"
    assert run_check("--config", str(file), "--json") == 2
    [problem] = json.loads(capsys.readouterr().out)["problems"]
    assert (problem["file"], problem["line"]) == (str(file), None)
    assert problem["why"] == f"cannot read {file}: No such file or directory"


@pytest.mark.parametrize("other", ["--explain", "--sandbox"])
def test_json_is_refused_beside_what_is_text(other: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_check("--json", other) == 2
    assert capsys.readouterr() == ("", "tooldispatchd: --json goes with neither --explain nor --sandbox\n")


def test_an_explanation_names_the_profile_that_stands_in_for_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "t.toml"
    file.write_text("")
    assert run_check("--config", str(file), "--explain") == 0
    assert "    profile default: open to everyone who may connect\n" in capsys.readouterr().out
