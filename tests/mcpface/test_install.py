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
        ("codex", "/home/ada/.codex/config.toml", "/src/.codex/config.toml"),
        ("continue", "/home/ada/.continue/config.yaml", "/src/.continue/mcpServers/tooldispatchd.yaml"),
        ("copilot", "/home/ada/.copilot/mcp-config.json", "/src/.github/mcp.json"),
        ("opencode", "/home/ada/.config/opencode/opencode.json", "/src/opencode.json"),
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
        ("cline", "/home/ada/.cline/data/settings/cline_mcp_settings.json"),
        ("goose", "/home/ada/.config/goose/config.yaml"),
        ("windsurf", "/home/ada/.codeium/windsurf/mcp_config.json"),
    ],
)
def test_a_client_without_projects_says_so(client: str, user: str) -> None:
    assert str(config_path(client, {"HOME": "/home/ada"}, project=None)) == user
    with pytest.raises(InstallError, match="leave --project out"):
        config_path(client, {"HOME": "/home/ada"}, project=Path("/src"))


def test_a_client_is_found_where_its_environment_has_moved_it() -> None:
    moved = {"CLAUDE_CONFIG_DIR": "/claude", "CODEX_HOME": "/codex", "COPILOT_HOME": "/copilot"}
    environ = {"HOME": "/home/ada", "XDG_CONFIG_HOME": "/etc/ada", **moved}
    assert str(config_path("codex", environ, project=None)) == "/codex/config.toml"
    assert str(config_path("copilot", environ, project=None)) == "/copilot/mcp-config.json"
    assert str(config_path("goose", environ, project=None)) == "/etc/ada/goose/config.yaml"
    assert str(config_path("zed", environ, project=None)) == "/etc/ada/zed/settings.json"
    assert str(config_path("claude-code", environ, project=None)) == "/claude/.claude.json"


@pytest.mark.parametrize(
    ("client", "table", "extra"),
    [
        ("cline", "mcpServers", {"type": "stdio"}),
        ("copilot", "mcpServers", {"type": "local", "tools": ["*"]}),
        ("claude-code", "mcpServers", {"type": "stdio"}),
        ("claude-desktop", "mcpServers", {}),
        ("cursor", "mcpServers", {}),
        ("gemini", "mcpServers", {}),
        ("vscode", "servers", {"type": "stdio"}),
        ("windsurf", "mcpServers", {}),
        ("zed", "context_servers", {}),
    ],
)
def test_the_entry_has_the_shape_of_its_client(
    client: str, table: str, extra: dict[str, object], tmp_path: Path
) -> None:
    change = plan(client, tmp_path / "new" / "file.json", "tools", START)
    write(change)
    entry = {**extra, "command": "tooldispatchd", "args": ["mcp", "--profile", "coder"]}
    assert json.loads((tmp_path / "new" / "file.json").read_text()) == {table: {"tools": entry}}


@pytest.mark.parametrize(
    ("client", "file", "written"),
    [
        (
            "codex",
            "config.toml",
            '[mcp_servers.tools]\ncommand = "tooldispatchd"\nargs = ["mcp", "--profile", "coder"]\n',
        ),
        (
            "continue",
            "config.yaml",
            (
                "name: tooldispatchd\nversion: 0.0.1\nschema: v1\nmcpServers:\n- name: tools\n"
                "  command: tooldispatchd\n  args:\n  - mcp\n  - --profile\n  - coder\n"
            ),
        ),
        (
            "goose",
            "config.yaml",
            (
                "extensions:\n  tools:\n    name: tools\n    description: Tools of tooldispatchd\n    enabled: true\n"
                "    type: stdio\n    cmd: tooldispatchd\n    args:\n    - mcp\n    - --profile\n    - coder\n"
            ),
        ),
        (
            "opencode",
            "opencode.json",
            (
                '{\n  "mcp": {\n    "tools": {\n      "type": "local",\n'
                '      "command": ["tooldispatchd", "mcp", "--profile", "coder"]\n    }\n  }\n}\n'
            ),
        ),
    ],
)
def test_a_client_with_a_form_of_its_own_gets_that(client: str, file: str, written: str, tmp_path: Path) -> None:
    assert plan(client, tmp_path / file, "tools", START).after == written


# A file as its user wrote it, and what stands there instead of each part of it.
EDITED = {
    "codex": (
        (
            '# mine\r\n[mcp_servers.a]\r\ncommand = "a"\r\n\r\n[mcp_servers.tools]  # ours\r\nenv_vars = ["A"]\r\n'
            'command = "old" # why\r\nargs = [\r\n  "x",  # goes\r\n]\r\n\r\n[tui]\r\ntheme = "d"\r\n'
        ),
        {
            'command = "old" # why': 'command = "tooldispatchd"  # why',
            'args = [\r\n  "x",  # goes\r\n]': 'args = ["mcp", "--profile", "coder"]',
        },
    ),
    "continue": (
        (
            "# mine\nname: a\nmcpServers:\n  - name: a\n    command: a # one\n  # two\n  - command: old # why\n"
            "    name: tools\n    env: {A: b}\n    args:\n    - x\nmodels: [] # last\n"
        ),
        {
            "command: old #": 'command: "tooldispatchd" #',
            "args:\n    - x": 'args: ["mcp", "--profile", "coder"]',
        },
    ),
    "goose": (
        (
            "extensions:\n  tools:\n    enabled: false\n    type: stdio # of programs\n    cmd: old\n    args: [x]\n"
            "GOOSE_MODEL: m\n"
        ),
        {
            "cmd: old": 'cmd: "tooldispatchd"',
            "[x]": '["mcp", "--profile", "coder"]',
        },
    ),
    "opencode": (
        '{"mcp": {"servers": {"tools": {"type": "local", "command": ["old"], "environment": {"A": "b"}}}}} // 2\n',
        {'["old"]': '["tooldispatchd", "mcp", "--profile", "coder"]'},
    ),
}


@pytest.mark.parametrize("client", EDITED)
def test_of_each_form_only_what_is_started_is_replaced(client: str, tmp_path: Path) -> None:
    text, replaced = EDITED[client]
    file = tmp_path / Path(CLIENTS[client].user[0]).name
    file.write_bytes(text.encode())
    write(plan(client, file, "tools", START))
    for before, after in replaced.items():
        assert before in text
        text = text.replace(before, after)
    assert file.read_bytes().decode() == text
    assert not plan(client, file, "tools", START).is_needed


@pytest.mark.parametrize(
    ("client", "text", "added"),
    [
        ("codex", "a = 1 # mine", '\n\n[mcp_servers.tools]\ncommand = "t"\nargs = []\n'),
        (
            "continue",
            "mcpServers: # mine\n- name: a\n  url: u # one\n# end",
            "- name: tools\n  command: t\n  args: []\n",
        ),
        ("continue", "mcpServers:\n", '[{"name": "tools", "command": "t", "args": []}]'),
        ("continue", "mcpServers: [{name: a, url: u}]\n", '{"name": "tools", "command": "t", "args": []}'),
        ("goose", "extensions:\n    a: {}\n# end", "    tools:\n      name: tools\n"),
        ("goose", "extensions: {} # none\nb: 1", '{"tools": {"name": "tools", '),
        ("goose", "extensions: # none\nb: 1", 'extensions: {"tools": {"name": "tools", '),
    ],
)
def test_a_new_entry_stands_beside_its_neighbours(client: str, text: str, added: str, tmp_path: Path) -> None:
    file = tmp_path / Path(CLIENTS[client].user[0]).name
    file.write_text(text)
    change = plan(client, file, "tools", ["t"])
    assert added in change.after
    # What was there stays, in its order: nothing but what was added is new.
    rest = iter(change.after)
    assert all(letter in rest for letter in text)


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("codex", 'mcp_servers = { a = { command = "a" } }\n'),
        ("codex", "[mcp_servers]\ntools.command = 'a'\n"),
        ("codex", "x = \n"),
        ("goose", "extensions: [\n"),
        ("goose", "extensions:\n  tools: &t {cmd: a, type: stdio}\nmore: *t\n"),
        ("goose", "extensions: 5\n"),
        ("continue", "mcpServers:\n  a: {command: a}\nmore: !x 5\n"),
    ],
)
def test_a_form_that_cannot_be_edited_is_left_as_it_is(client: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / Path(CLIENTS[client].user[0]).name
    file.write_text(text)
    with pytest.raises(InstallError, match=rf"^cannot edit {file}"):
        plan(client, file, "tools", START)


def test_every_client_has_its_shape_tested() -> None:
    plain = {"claude-code", "claude-desktop", "cline", "copilot", "cursor", "gemini", "vscode", "windsurf", "zed"}
    assert set(CLIENTS) == plain | EDITED.keys()


@pytest.mark.parametrize("client", CLIENTS)
def test_the_document_names_the_files_of_each_client(client: str) -> None:
    (row,) = [line for line in (DOCUMENTS / "files.md").read_text().splitlines() if f"| `{client}` |" in line]
    spec = CLIENTS[client]
    named = [f"~/{each.replace('CONFIG', '.config')}" for each in spec.user if not each.endswith(".jsonc")]
    assert [each for each in (*named, *spec.project[:1], spec.table) if f"`{each}`" not in row] == []


def test_the_file_that_is_there_counts(tmp_path: Path) -> None:
    (tmp_path / "opencode.jsonc").touch()
    assert config_path("opencode", {}, project=tmp_path) == tmp_path / "opencode.jsonc"


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
