import json
import re
import stat
import sys
from pathlib import Path

import pytest

from tooldispatchd.mcpface.install import CLIENTS, InstallError, command, config_path, plan, write

DOCUMENTS = Path(__file__).parent.parent.parent / "docs" / "clients"
START = ["tooldispatchd", "mcp", "--profile", "coder"]


@pytest.mark.parametrize(
    ("client", "user", "project"),
    [
        ("claude-code", "/home/ada/.claude.json", "/src/.mcp.json"),
        ("cursor", "/home/ada/.cursor/mcp.json", "/src/.cursor/mcp.json"),
        ("gemini", "/home/ada/.gemini/settings.json", "/src/.gemini/settings.json"),
        ("vscode", "/home/ada/.config/Code/User/mcp.json", "/src/.vscode/mcp.json"),
        ("zed", "/home/ada/.config/zed/settings.json", "/src/.zed/settings.json"),
    ],
)
def test_a_client_keeps_its_servers_for_a_user_or_for_a_project(client: str, user: str, project: str) -> None:
    environ = {"HOME": "/home/ada"}
    assert str(config_path(client, environ, project=None)) == user
    assert str(config_path(client, environ, project=Path("/src"))) == project


@pytest.mark.parametrize(
    ("client", "user"),
    [
        ("claude-desktop", "/home/ada/.config/Claude/claude_desktop_config.json"),
        ("windsurf", "/home/ada/.codeium/windsurf/mcp_config.json"),
    ],
)
def test_a_client_without_projects_says_so(client: str, user: str) -> None:
    assert str(config_path(client, {"HOME": "/home/ada"}, project=None)) == user
    with pytest.raises(InstallError, match="leave --project out"):
        config_path(client, {"HOME": "/home/ada"}, project=Path("/src"))


def test_a_client_is_found_where_its_environment_has_moved_it() -> None:
    environ = {"HOME": "/home/ada", "XDG_CONFIG_HOME": "/etc/ada", "CLAUDE_CONFIG_DIR": "/claude"}
    assert str(config_path("zed", environ, project=None)) == "/etc/ada/zed/settings.json"
    assert str(config_path("claude-code", environ, project=None)) == "/claude/.claude.json"


@pytest.mark.parametrize(
    ("client", "table", "extra"),
    [
        ("claude-code", "mcpServers", {"type": "stdio"}),
        ("claude-desktop", "mcpServers", {}),
        ("cursor", "mcpServers", {}),
        ("gemini", "mcpServers", {}),
        ("vscode", "servers", {"type": "stdio"}),
        ("windsurf", "mcpServers", {}),
        ("zed", "context_servers", {}),
    ],
)
def test_the_entry_has_the_shape_of_its_client(client: str, table: str, extra: dict[str, str], tmp_path: Path) -> None:
    change = plan(client, tmp_path / "new" / "file.json", "tools", START)
    write(change)
    entry = {**extra, "command": "tooldispatchd", "args": ["mcp", "--profile", "coder"]}
    assert json.loads((tmp_path / "new" / "file.json").read_text()) == {table: {"tools": entry}}


def test_every_client_has_its_shape_tested() -> None:
    assert set(CLIENTS) == {"claude-code", "claude-desktop", "cursor", "gemini", "vscode", "windsurf", "zed"}


def test_a_second_time_nothing_changes(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    write(plan("cursor", file, "tools", START))
    again = plan("cursor", file, "tools", START)
    assert (again.is_needed, again.diff()) == (False, "")


def test_of_an_entry_that_is_there_only_what_it_starts_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"tools": {"command": "old", "args": [], "env": {"A": "b"}}}}')
    write(plan("cursor", file, "tools", START))
    assert file.read_text() == (
        '{"mcpServers": {"tools": {"command": "tooldispatchd", "args": ["mcp", "--profile", "coder"], '
        '"env": {"A": "b"}}}}'
    )


def test_an_entry_for_a_url_is_replaced_whole(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"tools": {"url": "https://tools.example", "headers": {}}}}')
    write(plan("cursor", file, "tools", START))
    assert json.loads(file.read_text())["mcpServers"]["tools"] == {"command": START[0], "args": START[1:]}


def test_the_diff_says_what_changes(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text('{\n  // mine\n  "theme": "dark"\n}\n')
    change = plan("zed", file, "tools", ["tooldispatchd", "mcp"])
    assert change.diff() == (
        f'--- {file}\n+++ {file}\n@@ -1,4 +1,10 @@\n {{\n   // mine\n-  "theme": "dark"\n+  "theme": "dark",\n'
        '+  "context_servers": {\n+    "tools": {\n+      "command": "tooldispatchd",\n+      "args": ["mcp"]\n'
        "+    }\n+  }\n }\n"
    )


def test_a_file_that_cannot_be_read_as_json_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{\n  "mcpServers": {\n    oops\n  }\n}\n')
    with pytest.raises(InstallError, match=rf"^cannot edit {file}:3: this is no JSON; nothing was changed$"):
        plan("cursor", file, "tools", START)


def test_a_file_that_is_no_text_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_bytes(b'{\n "a": "\xff"}')
    with pytest.raises(InstallError, match=rf"^cannot edit {file}:2: it is not UTF-8; nothing was changed$"):
        plan("cursor", file, "tools", START)


def test_the_mode_of_a_file_is_kept_and_a_link_stays_one(tmp_path: Path) -> None:
    file, link = tmp_path / "dotfiles.json", tmp_path / "mcp.json"
    file.write_text("{}")
    file.chmod(0o640)
    link.symlink_to(file)
    write(plan("cursor", link, "tools", START))
    assert link.is_symlink()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert "tooldispatchd" in file.read_text()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["dotfiles.json", "mcp.json"]


def test_a_read_only_file_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text("{}")
    file.chmod(0o444)
    with pytest.raises(InstallError, match="it is read-only"):
        write(plan("cursor", file, "tools", START))
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("mcp.json", "{}")]


def test_a_file_that_has_changed_since_it_was_shown_is_not_written(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    change = plan("cursor", file, "tools", START)
    file.write_text('{"theirs": 1}')
    with pytest.raises(InstallError, match="has changed meanwhile"):
        write(change)
    assert file.read_text() == '{"theirs": 1}'


def test_without_a_program_the_directory_that_a_client_has_open_gives_no_modules(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
    assert command(["mcp"], "-m") == [str(tmp_path / "python3"), "-P", "-m", "tooldispatchd", "mcp"]


def test_a_program_that_login_shells_do_not_find_is_named_by_its_path(tmp_path: Path) -> None:
    program = tmp_path / "tooldispatchd"
    program.touch(0o755)
    assert command(["mcp"], str(program)) == [str(program), "mcp"]
    assert Path(command(["mcp"], "anything")[0]).parent == Path(sys.executable).parent


@pytest.mark.parametrize("client", ["claude-code", "cursor", "vscode", "zed"])
def test_the_entry_to_paste_is_the_one_that_is_written(client: str, tmp_path: Path) -> None:
    document = (DOCUMENTS / f"{client}.md").read_text()
    program, url = (json.loads(block) for block in re.findall(r"^```json\n(.*?)^```$", document, re.M | re.S))
    start = ["tooldispatchd", "mcp", "--config", "/home/ada/tooldispatchd.toml"]
    written = plan(client, tmp_path / "file.json", "tooldispatchd", start).after
    assert json.loads(written) == program
    assert url[CLIENTS[client].table]["tooldispatchd"]["url"].startswith("http://127.0.0.1:8321/")
    assert f"tooldispatchd mcp --install {client} " in document
