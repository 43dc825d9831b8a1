"""Files as people have them of the clients that are known: each server with what it becomes."""

import json
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tooldispatchd.catalog.specs import McpSpec
from tooldispatchd.config.configuration import load_catalog
from tooldispatchd.mcpface.install import CLIENTS, config_path, plan

FILES: Final = Path(__file__).parent / "foreign_files"
ENVIRON: Final = {"TOKEN": "t0ken", "API_KEY": "k3y", "INPUT_API_KEY": "k3y", "HOME": "/home/u"}
BEARER: Final = {"Authorization": "Bearer t0ken"}


def program(*words: str, **more: object) -> McpSpec:
    return McpSpec(command=words[0], args=words[1:], **more)  # type: ignore[arg-type]  # each key its own


def remote(host: str, path: str = "/mcp", **more: object) -> McpSpec:
    return McpSpec(url=f"https://{host}.example.com{path}", **more)  # type: ignore[arg-type]  # as above


FAR: Final = remote("far")
FAR_OVER_HTTP: Final = remote("far", transport="http")
# Where a client keeps its file; DIR stands for the directory of the configuration.
KNOWN: Final[dict[str, tuple[str, dict[str, McpSpec]]]] = {
    "claude_desktop.json": (
        "claude_desktop_config.json",
        {
            "filesystem": program("npx", "-y", "@modelcontextprotocol/server-filesystem", "/srv/notes"),
            "memory": program("docker", "run", "-i", "--rm", "mcp/memory", env={"LEVEL": "2"}),
        },
    ),
    "claude_desktop_windows.json": (
        "claude_desktop_config.json",
        {"notes": program("node", "/home/u/notes/index.js", env={"DATA": "/home/u/data"})},
    ),
    "claude_code.json": (
        ".mcp.json",
        {
            "docs": remote("docs", headers=BEARER),
            "events": remote("events", "/sse", transport="sse"),
            "local": program("uvx", "local-server"),
        },
    ),
    "claude_code_user.json": (
        ".claude.json",
        {"mine": program("mine"), "ours": remote("ours"), "resting": remote("resting", enabled=False)},
    ),
    "claude_code_transport.json": (
        ".mcp.json",
        {"search": remote("search", headers={"X-Team": "a"}), "old": remote("old", "/sse", transport="sse")},
    ),
    "cursor.json": (
        ".cursor/mcp.json",
        {
            "remote": remote("api", headers=BEARER),
            "script": program("python", "DIR/tools/server.py", env={"FROM_FILE": "yes"}),
        },
    ),
    "cursor_home.json": (".cursor/mcp.json", {"db": program("npx", "-y", "db-server", "/home/u/db.sqlite")}),
    "vscode.json": (
        ".vscode/mcp.json",
        {
            "forge": remote("forge", "/mcp/"),
            "weather": program("npx", "-y", "weather-server", env={"API_KEY": "k3y"}),
        },
    ),
    "vscode_settings.json": (
        ".vscode/settings.json",
        {"time": program("uvx", "mcp-server-time", "--local-timezone=UTC")},
    ),
    "vscode_settings_dotted.json": (".vscode/settings.json", {"time": program("uvx", "mcp-server-time")}),
    "visual_studio.json": (".vs/mcp.json", {"forge": remote("forge")}),
    "windsurf.json": (
        "mcp_config.json",
        {
            "figures": remote("figures", headers={"API_KEY": "Bearer t0ken"}, deny=("drop",)),
            "shell": program("npx", enabled=False),
        },
    ),
    "cline.json": (
        "cline_mcp_settings.json",
        {
            "files": program(
                "node",
                "/srv/files/index.js",
                env={"DEBUG": "true", "PORT": "8080", "RATE": "0.5"},
                call_s=60,
                enabled=True,
            ),
            "remote": remote("r", transport="http", call_s=60),
        },
    ),
    "roo.json": (
        ".roo/mcp.json",
        {
            "remote": remote("r", transport="http", headers={"X-API-Key": "abc"}),
            "watched": program("node", "build/index.js", deny=("wipe",), call_s=15),
        },
    ),
    "kilo.json": (".kilocode/mcp.json", {"ctx": program("cmd", enabled=False)}),
    "zed.json": (".zed/settings.json", {"pg": program("pg-context", "--stdio"), "far": FAR}),
    "zed_older.json": (".zed/settings.json", {"pg": program("/srv/pg/pg-context", "--stdio", env={"URL": "x"})}),
    "continue.yaml": (
        ".continue/config.yaml",
        {
            "sqlite": program("npx", "-y", "mcp-sqlite", "/srv/a.db", env={"KEY": "t0ken"}),
            "far": remote("far", transport="http", headers=BEARER),
        },
    ),
    "continue_block.json": (".continue/mcp.json", {"Browser": program("npx", "-y", "browser-server")}),
    "gemini.json": (
        ".gemini/settings.json",
        {
            "py": program(
                "python", "-m", "server", "--port", "8080", cwd="DIR/.gemini/server", env={"KEY": "t0ken"}, call_s=15
            ),
            "web": remote("web", transport="http", headers=BEARER, tools=("get",)),
            "old": remote("old", "/sse", deny=("put",)),
        },
    ),
    "qwen.json": (
        ".qwen/settings.json",
        {"web": remote("web", transport="http", headers={"X-Key": "t0ken"}, call_s=5)},
    ),
    "opencode.json": (
        "opencode.jsonc",
        {
            "local": program("bun", "x", "my-server", env={"KEY": "t0ken"}, call_s=5),
            "far": remote("far", "", enabled=False),
            "near": remote("near", headers=BEARER),
        },
    ),
    "codex.toml": (
        ".codex/config.toml",
        {
            "docs": program(
                *("npx", "-y", "docs-server"),
                env={"TOKEN": "t0ken", "LEVEL": "info"},
                tools=("search", "read"),
                deny=("read",),
                call_s=90,
            ),
            "far": remote("far", headers={**BEARER, "X-Region": "eu", "X-Key": "k3y"}),
            "resting": program("resting", enabled=False),
        },
    ),
    "goose.yaml": (
        "goose/config.yaml",
        {
            "developer": program("left-out", enabled=False),
            "forge": program("npx", "-y", "forge-server", env={"TOKEN": "t0ken"}, call_s=300),
            "far": remote("far", transport="http", headers={"X-Key": "t0ken"}, call_s=60),
        },
    ),
    "librechat.yaml": (
        "librechat.yaml",
        {
            "fs": program("npx", "-y", "fs-server", "/srv/"),
            "far": remote("far", transport="http", headers={"X-Key": "t0ken"}, call_s=60),
            "sse": McpSpec(url="http://localhost:3001/sse"),
        },
    ),
    "copilot_cli.json": (
        ".copilot/mcp-config.json",
        {"local": program("npx", "-y", "a-server", env={"KEY": "t0ken"}), "far": remote("far", tools=("get", "list"))},
    ),
    "copilot_agent.json": (
        "mcp.json",
        {"sentry": program("npx", "issues-server", "--access-token=$KEY", tools=("get_issue",), env={"KEY": "abc"})},
    ),
    "amazon_q.json": (
        ".amazonq/mcp.json",
        {"diagrams": program("uvx", "diagrams@latest", env={"LOG": "ERROR"}, call_s=120), "far": FAR},
    ),
    "kiro.json": (
        ".kiro/settings/mcp.json",
        {"web": program("uvx", "fetch", deny=("post",)), "far": remote("far", headers=BEARER)},
    ),
    "junie.json": (".junie/mcp/mcp.json", {"ctx": program("npx", "-y", "ctx")}),
    "warp.json": (
        "warp.json",
        {
            "Forge": program("npx", "-y", "forge", env={"A": "b"}, cwd="/srv"),
            "Far": remote("far", headers={"X-Key": "abc"}),
        },
    ),
    "lm_studio.json": (".lmstudio/mcp.json", {"hub": remote("hub", headers={"Authorization": "Bearer abc"})}),
    "crush.json": (
        ".crush.json",
        {
            "fs": program("node", "/srv/fs.js", env={"ROOT": "/home/u"}, deny=("rm",), call_s=120),
            "far": remote("far", headers=BEARER),
        },
    ),
    "5ire.json": ("mcp.json", {"Fs": program("npx", "-y", "fs"), "Off": program("off", enabled=False)}),
    "cherry_studio.json": (
        "mcp.json",
        {"far": FAR_OVER_HTTP, "near": program("uvx", "near"), "own": program("left-out", enabled=False)},
    ),
    "trae.json": (".trae/mcp.json", {"amap": program("npx", "-y", "maps-server", env={"KEY": "abc"})}),
    "factory.json": (".factory/mcp.json", {"tracker": remote("tracker"), "pw": program("npx", "-y", "pw@latest")}),
    "amp.json": (
        "amp/settings.json",
        {
            "pw": program("npx", "-y", "pw@latest", "--headless", tools=("navigate_*", "click")),
            "far": remote("far", "/sse"),
        },
    ),
    "mcp_remote.json": (
        ".mcp.json",
        {
            "crm": program(
                *("npx", "-y", "mcp-remote", "https://crm.example.com/mcp", "--header", "Authorization:Bearer abc"),
                env={"AUTH": "Bearer abc"},
            ),
            "same": program("x", "--key=t0ken", "${LATER}", env={"TOKEN": "t0ken"}),
        },
    ),
    "augment.json": ("settings.json", {"Far": FAR, "near": program("near")}),
    "antigravity.json": (
        "mcp_config.json",
        {"far": remote("far", "/mcp/", headers={"X-Key": "abc"})},
    ),
    "boltai.json": ("mcp.json", {"a": program("npx", "a"), "b": program("b")}),
    "void.json": ("mcp.json", {"a": program("a", "//", "/* , ] */", ",]")}),
    "mistral.toml": (
        ".vibe/config.toml",
        {
            "far": remote("far", transport="http", headers={"Authorization": "Bearer abc"}),
            "near": program("uvx", "near"),
        },
    ),
    "broken_one.json": (
        ".mcp.json",
        {
            "good": program("good"),
            "bad": program("left-out", enabled=False),
            "worse": program("left-out", enabled=False),
        },
    ),
    "hub.yaml": (
        "hub.yaml",
        {"forge": program("forge", env={"RETRIES": "3", "QUIET": "true", "SINCE": "2020-01-01"})},
    ),
}


def servers(directory: Path, file: str, text: str) -> dict[str, McpSpec]:
    """The servers of a file at this place below the configuration's directory."""
    place = directory / file
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    (directory / ".env").write_text("FROM_FILE=yes\n")
    (directory / "t.toml").write_text(f'mcp_json = ["{file}"]\n')
    return load_catalog(directory / "t.toml", ENVIRON).config.mcp


@pytest.mark.parametrize("name", KNOWN)
def test_each_server_of_a_known_client_becomes_what_its_client_means(tmp_path: Path, name: str) -> None:
    file, expected = KNOWN[name]
    found = servers(tmp_path, file, (FILES / name).read_text())
    shown = msgspec.json.encode(found).decode().replace(str(tmp_path), "DIR")
    assert json.loads(shown) == json.loads(msgspec.json.encode(expected))


def test_every_file_is_in_the_table() -> None:
    assert {each.name for each in FILES.iterdir()} == set(KNOWN)
    assert len(KNOWN) >= 40


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("is_project", [True, False])
def test_what_is_installed_for_a_client_is_read_back(tmp_path: Path, client: str, is_project: bool) -> None:
    project = tmp_path if is_project and CLIENTS[client].project else None
    path = config_path(client, {"HOME": str(tmp_path)}, project=project)
    path.parent.mkdir(parents=True, exist_ok=True)
    written = {
        ".toml": '# mine\ncolour = "red"\n\n[telemetry]\ndisabled = true\n',
        ".yaml": "# mine\ncolour: red\ntelemetry:\n  disabled: true\n",
    }
    path.write_text(
        written.get(path.suffix, '{\n  // mine\n  "colour": "red",\n  "telemetry": {"disabled": true},\n}\n')
    )
    text = plan(client, path, "tooldispatchd", ["/usr/bin/tooldispatchd", "mcp", "--profile", "a b"]).after
    found = servers(tmp_path, str(path.relative_to(tmp_path)), text)
    assert found == {"tooldispatchd": program("/usr/bin/tooldispatchd", "mcp", "--profile", "a b")}
