"""Mistakes of other clients' files beside others: each is told, and none that only follows from another."""

from pathlib import Path

import pytest

from tooldispatchd.config.configuration import ConfigError, load_catalog

NAMED = 'mcp_json = [".mcp.json"]\n'


def report_of(directory: Path, text: str) -> str:
    (directory / "t.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_catalog(directory / "t.toml", {})
    return str(caught.value).replace(f"{directory}/", "")


def test_a_file_that_cannot_be_read_is_told_of_alone(tmp_path: Path) -> None:
    text = 'mcp_json = ["nope.json"]\n[tools.t]\nmcp = "of-the-file"\n[mcp.of-the-file]\ntools = ["x"]\n'
    assert (
        report_of(tmp_path, text)
        == """\
cannot use t.toml: 1 problem
t.toml:1: mcp_json[0]: cannot read this file: No such file or directory
    seen "nope.json\""""
    )


def test_a_file_that_is_no_json_hides_no_mistake_of_another(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"mcpServers": {"b": {"command": "x", "args": [[]]}}}')
    (tmp_path / ".mcp.json").write_text("{")
    (tmp_path / "t.toml").write_text('mcp_json = [".mcp.json", "other.json"]\n[limits]\ncall_s = 0\n')
    with pytest.raises(ConfigError) as caught:
        load_catalog(tmp_path / "t.toml", {})
    assert [finding.key for finding in caught.value.findings] == ["limits.call_s", None, "mcp.b.args[0]"]


def test_what_may_stand_for_the_way_to_a_server_is_named_where_there_is_none(tmp_path: Path) -> None:
    text = """\
{"mcpServers": {
  "a": {"type": "http",
    "serverUrl": "https://docs.example/"},
  "b": {"httpUrl": "https://docs.example/?key=s3cret"},
  "c": {"comand": "x", "timeout": 3},
  "d": {"endpoint": "https://docs.example/", "timeout": 3}
}}"""
    (tmp_path / ".mcp.json").write_text(text)
    (tmp_path / "t.toml").write_text(NAMED)
    catalog = load_catalog(tmp_path / "t.toml", {})
    assert {name: spec.url for name, spec in catalog.config.mcp.items() if spec.enabled} == {
        "a": "https://docs.example/",
        "b": "https://docs.example/?key=s3cret",
    }
    assert [warning.replace(f"{tmp_path}/", "") for warning in catalog.warnings if "left out" in warning] == [
        '.mcp.json:5: server "c" is left out: mcp.c.comand: unknown key (did you mean "command"?)',
        (
            '.mcp.json:6: server "d" is left out: '
            'mcp.d: a server has command or url, this one has neither; unknown: "endpoint"'
        ),
    ]
