"""Servers behind npx, a shell between: with each kind of shell they are ended by their input, and by their group."""

import json
import shutil
import stat
import time
from pathlib import Path

import pytest

from tests.daemon.spawned import daemon_on, until
from tests.processes import is_running

pytestmark = pytest.mark.skipif(shutil.which("npx") is None, reason="npx is not installed")

# A server that notes how it ends. One that `stays` takes no notice of the end of its input.
SERVER = """#!/usr/bin/env node
const fs = require("fs"), readline = require("readline");
const note = (text) => fs.appendFileSync(process.env.NOTES, text + "\\n");
note("pid " + process.pid);
const lines = readline.createInterface({ input: process.stdin });
const say = (id, result) => console.log(JSON.stringify({ jsonrpc: "2.0", id, result }));
lines.on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  const serverInfo = { name: "noting", version: "1" };
  if (method === "initialize")
    say(id, { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo });
  else if (method === "tools/list") say(id, { tools: [{ name: "ping", inputSchema: { type: "object" } }] });
  else if (id !== undefined) say(id, { content: [{ type: "text", text: "pong" }] });
});
lines.on("close", () => note("closed"));
process.on("SIGTERM", () => setTimeout(() => { note("term"); process.exit(0); }, 200));
if (process.env.STAYS === "1") setInterval(() => {}, 1000);
"""


def npx_server(directory: Path, shell: str, *, stays: bool) -> str:
    """The table of a server that npx finds beside it, and starts by `shell`."""
    package = directory / "node_modules" / "noting"
    package.mkdir(parents=True)
    (package / "package.json").write_text(json.dumps({"name": "noting", "version": "1.0.0", "bin": "noting.js"}))
    (package / "noting.js").write_text(SERVER)
    (package / "noting.js").chmod(stat.S_IRWXU)
    (directory / "node_modules/.bin").mkdir()
    (directory / "node_modules/.bin/noting").symlink_to("../noting/noting.js")
    env = {
        "NOTES": str(directory / "notes"),
        "STAYS": str(int(stays)),
        "npm_config_script_shell": shell,
        "npm_config_offline": "true",
        "npm_config_update_notifier": "false",
        "npm_config_cache": str(directory / "cache"),
    }
    variables = ", ".join(f"{name} = {json.dumps(value)}" for name, value in env.items())
    return f'[mcp.noting]\ncommand = "npx"\nargs = ["--no", "noting"]\ncwd = "{directory}"\nenv = {{ {variables} }}\n'


@pytest.mark.parametrize("stays", [False, True])
@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_a_server_behind_npx_and_a_shell_ends_by_itself(tmp_path: Path, shell: str, stays: bool) -> None:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"{shell} is not installed")
    notes = tmp_path / "notes"
    with daemon_on(tmp_path, npx_server(tmp_path, path, stays=stays)) as daemon:
        before = daemon.family()
        with daemon.agent() as agent:
            agent.hello("default")
            assert agent.ask("noting:ping", {})["content"] == "pong"
            pid = int(notes.read_text().split()[1])
            started = daemon.family() - before
            assert pid in started
            left = time.monotonic()
        until(lambda: not any(map(is_running, started)))
        took_s = time.monotonic() - left
    # It was asked, and nothing was killed in the midst of its end.
    assert notes.read_text().split("\n")[1:] == ["closed", *(["term"] if stays else []), ""]
    assert took_s < (6.0 if stays else 3.0)
