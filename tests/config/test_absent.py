"""What a configuration names and is not there: it may still come to be, so that it is a warning."""

from pathlib import Path

from tooldispatchd.config.configuration import load_catalog
from tooldispatchd.config.machine import absent


def said(directory: Path, text: str, environ: dict[str, str] | None = None) -> list[str]:
    file = directory / "t.toml"
    file.write_text(text)
    environ = {"PATH": "/usr/bin:/bin", **(environ or {})}
    return absent(load_catalog(file, environ), environ)


def test_a_program_without_the_right_to_execute_it_is_said_to_lack_that(tmp_path: Path) -> None:
    (tmp_path / "tool.sh").write_text("#!/bin/sh\n")
    (tmp_path / "tool.sh").chmod(0o644)
    text = '[tools.t]\ncommand = ["./tool.sh"]\n[tools.u]\ncommand = ["tool.sh"]\n'
    why = "this file may not be executed: chmod +x makes it a program"
    told = said(tmp_path, text, {"PATH": f"/usr/bin:{tmp_path}"})
    assert told == [f"tools.t.command: {why}", f"tools.u.command: {why}"]


def test_what_is_there_is_not_told_of(tmp_path: Path) -> None:
    text = """\
agent_command = ["sh"]
[mcp.a]
command = "sh"
cwd = "/"
[tools.t]
command = ["/bin/sh"]
cwd = "."
[agents.default]
roots = ["/", "."]
"""
    assert said(tmp_path, text) == []


def test_a_directory_a_program_and_a_root_that_are_not_there_are_each_told_of(tmp_path: Path) -> None:
    text = """\
agent_command = ["frobnicate"]
[mcp.a]
command = "frobnicate"
cwd = "/none"
[mcp.b]
command = "./frobnicate"
[mcp.c]
command = "npx -y frobnicate"
[tools.t]
command = ["frobnicate"]
[tools.u]
mcp = { command = "frobnicate" }
[processes.p]
kind = "agent"
type = "!string -> !string"
command = ["sh"]
cwd = "t.toml"
[agents.default]
roots = ["/", "/none", "t.toml"]
"""
    assert said(tmp_path, text) == [
        "agent_command: there is no such program in PATH",
        "mcp.a.command: there is no such program in PATH",
        "mcp.a.cwd: there is no such directory",
        "mcp.b.command: there is no such program",
        "mcp.c.command: there is no such program in PATH; what follows the program's name belongs in args",
        "tools.t.command: there is no such program in PATH",
        "processes.p.cwd: there is no such directory",
        "server frobnicate: command: there is no such program in PATH",
        "agents.default.roots[1]: there is no such directory",
        "agents.default.roots[2]: there is no such directory",
    ]


def test_a_program_is_looked_for_in_the_path_that_the_server_gets(tmp_path: Path) -> None:
    (tmp_path / "frobnicate").write_text("#!/bin/sh\n")
    (tmp_path / "frobnicate").chmod(0o755)
    table = '[mcp.a]\ncommand = "frobnicate"\n'
    assert said(tmp_path, f'{table}env = {{ PATH = "{tmp_path}" }}\n') == []
    assert said(tmp_path, table, {"PATH": str(tmp_path)}) == []
    assert said(tmp_path, f'{table}cwd = "."\nenv = {{ PATH = "." }}\n') == []


def test_a_server_that_is_not_enabled_may_lack_everything(tmp_path: Path) -> None:
    assert said(tmp_path, '[mcp.a]\ncommand = "frobnicate"\ncwd = "/none"\nenabled = false\n') == []


def test_a_root_is_read_as_the_uri_that_it_is(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    assert said(tmp_path, '[agents.default]\nroots = ["a b", "file:///usr/%62in"]\n') == []
