"""What an agent's program is told where `agent_command` runs it: the file, who may read it, and that it goes away."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tooldispatchd.catalog.catalog import Catalog, build_catalog
from tooldispatchd.catalog.specs import Config
from tooldispatchd.daemon.equipment import open_agent_specs

SECRET = "a secret of this server"


def catalog_of(**tables: object) -> Catalog:
    catalog = build_catalog(msgspec.convert(tables, Config))
    assert isinstance(catalog, Catalog), catalog
    return catalog


def writers(**more: object) -> Catalog:
    return catalog_of(
        agent_command=["run-agent"],
        types={"Query": "{text: string}"},
        mcp={"docs": {"command": "docs"}},
        processes={
            "writer": {
                "kind": "agent",
                "type": "!Query -> !string",
                "prompt": "Write well.",
                "model": "a-model",
                "options": {"temperature": 0.5},
                "tools": ["echo"],
                "mcp": ["docs", {"command": "npx", "args": ["-y", "x"], "env": {"KEY": SECRET}}],
            },
            "own": {"kind": "agent", "command": ["own"]},
            **more,
        },
        tools={"echo": {"inline": "id"}},
    )


def test_an_agent_is_told_what_its_table_says_and_no_server_s_secrets(tmp_path: Path) -> None:
    with open_agent_specs(writers(), {"RUNTIME_DIRECTORY": str(tmp_path)}) as specs:
        assert list(specs) == ["writer"]
        told = Path(specs["writer"]).read_text(encoding="utf-8")
    assert SECRET not in told
    assert json.loads(told) == {
        "name": "writer",
        "type": "!Query -> !string",
        "description": "",
        "prompt": "Write well.",
        "model": "a-model",
        "input_schema": {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
            "additionalProperties": False,
        },
        "output_schema": {"type": "string"},
        "tools": ["echo"],
        "mcp": ["docs", "npx"],
        "options": {"temperature": 0.5},
    }


def test_nobody_else_may_read_a_spec_and_none_is_left(tmp_path: Path) -> None:
    with open_agent_specs(writers(), {"RUNTIME_DIRECTORY": f"{tmp_path}:elsewhere"}) as specs:
        path = Path(specs["writer"])
        assert path.parent.parent == tmp_path
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(path.stat().st_mode) == 0o400
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a.b", "x" * 128, ".".join(["y"] * 60)])
def test_every_name_of_a_process_has_its_file(tmp_path: Path, name: str) -> None:
    catalog = writers(**{name: {"kind": "agent"}})
    with open_agent_specs(catalog, {"RUNTIME_DIRECTORY": str(tmp_path)}) as specs:
        assert json.loads(Path(specs[name]).read_text(encoding="utf-8"))["name"] == name


def test_what_a_killed_daemon_left_is_removed_and_what_another_uses_is_not(tmp_path: Path) -> None:
    environ = {"RUNTIME_DIRECTORY": str(tmp_path)}
    left = tmp_path / "tooldispatchd-agents-left"
    left.mkdir(mode=0o700)
    (left / ".lock").touch()
    (left / "writer.json").write_text("{}", encoding="utf-8")
    other = tmp_path / "tooldispatchd-agents-of-something-else"
    other.mkdir()
    with open_agent_specs(writers(), environ) as first, open_agent_specs(writers(), environ) as second:
        assert not left.exists()
        assert other.exists()
        assert Path(first["writer"]).exists()
        assert Path(second["writer"]).exists()


def test_where_no_agent_needs_one_nothing_is_made(tmp_path: Path) -> None:
    catalog = catalog_of(agent_command=["x"], processes={"own": {"kind": "agent", "command": [sys.executable]}})
    with open_agent_specs(catalog, {"RUNTIME_DIRECTORY": str(tmp_path)}) as specs:
        assert specs == {}
        assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_stops_the_start_and_says_so(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_text('agent_command = ["x"]\n[processes.p]\nkind = "agent"\n', encoding="utf-8")
    nowhere = tmp_path / "nowhere"
    done = subprocess.run(
        [sys.executable, "-m", "tooldispatchd", "serve", "--config", file, "--listen", f"unix:{tmp_path}/s"],
        env=os.environ | {"RUNTIME_DIRECTORY": str(nowhere)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3
    assert done.stderr.startswith(f"tooldispatchd: cannot write what agents are told to {nowhere}/")
    assert done.stderr.endswith(": No such file or directory\n")
