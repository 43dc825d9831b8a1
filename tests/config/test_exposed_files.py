"""Files of the configuration that others may read or write: what of them is a warning, and what is refused."""

import json
import os
from pathlib import Path

import pytest

from tooldispatchd.config.configuration import ConfigError, load_catalog

SECRETS = """\
mcp_json = [".mcp.json"]
[agents.a]
token = "hunter2"
[agents.b]
token_env = "TOKEN"
[mcp.docs]
url = "https://docs.example/"
headers = { X-Api-Key = "hunter2", X-Team = "docs", Cookie = "${TOKEN}" }
[tools.t]
command = ["true"]
env = { GITHUB_TOKEN = "hunter2", LANG = "C", PASSWORD = "${TOKEN}" }
"""
FOREIGN = {"mcpServers": {"git": {"command": "true", "env": {"API_KEY": "hunter2", "OTHER_KEY": "${TOKEN}"}}}}


def files(directory: Path) -> tuple[Path, Path]:
    config, foreign = directory / "t.toml", directory / ".mcp.json"
    config.write_text(SECRETS)
    foreign.write_text(json.dumps(FOREIGN))
    for file in (config, foreign):
        file.chmod(0o600)
    return config, foreign


def warnings(config: Path) -> set[str]:
    return set(load_catalog(config, {"TOKEN": "other"}).warnings)


def test_secrets_that_stand_in_a_file_that_others_may_read_are_warnings(tmp_path: Path) -> None:
    config, foreign = files(tmp_path)
    assert warnings(config) == set()
    config.chmod(0o644)
    own = {
        f"{place}: others may read this file (mode 0644): chmod 600 {config}"
        for place in ("agents.a.token", "mcp.docs.headers.X-Api-Key", "tools.t.env.GITHUB_TOKEN")
    }
    assert warnings(config) == own
    foreign.chmod(0o604)
    assert warnings(config) == own | {
        f"mcp.git.env.API_KEY: others may read {foreign} (mode 0604): chmod 600 {foreign}"
    }
    assert not any("hunter2" in warning for warning in warnings(config))


def test_a_secret_that_is_a_part_of_a_text_is_told_of_too(tmp_path: Path) -> None:
    config = tmp_path / "t.toml"
    config.write_text("""\
[mcp.a]
command = "true"
args = ["--api-key", "sk-1", "--token=sk-2", "--max-tokens", "100", "--ssl-key", "/k.pem", "--key", "${TOKEN}"]
env = { GITHUB_PAT = "p", DB_URL = "postgres://ann:hunter2@db/x", CLEAR = "http://ann@db/", MY_PATH = "/x" }
[mcp.b]
command = "true"
env = { DB_URL = "postgres://ann:${TOKEN}@db/x" }
""")
    config.chmod(0o644)
    assert {warning.partition(":")[0] for warning in warnings(config)} == {
        *("mcp.a.args[1]", "mcp.a.args[2]", "mcp.a.env.GITHUB_PAT", "mcp.a.env.DB_URL")
    }


def report_of(config: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_catalog(config, {"TOKEN": "other"})
    return str(caught.value)


@pytest.mark.parametrize("mode", [0o602, 0o666])
def test_a_configuration_that_anybody_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    config, _ = files(tmp_path)
    config.chmod(mode)
    assert report_of(config) == f"cannot use {config}: anybody may write it (mode {mode:04o})"


def test_a_file_that_it_names_is_refused_likewise(tmp_path: Path) -> None:
    config, foreign = files(tmp_path)
    foreign.chmod(0o606)
    assert "mcp_json[0]: cannot use this file: anybody may write it (mode 0606)" in report_of(config)
    plumb = tmp_path / "x.plumb"
    plumb.write_text("type Q = string\n")
    plumb.chmod(0o606)
    config.write_text('plumb = ["x.plumb"]\n')
    assert "plumb[0]: cannot use this file: anybody may write it (mode 0606)" in report_of(config)


def test_a_directory_in_which_anybody_may_replace_it_is_refused_unless_it_is_sticky(tmp_path: Path) -> None:
    config, _ = files(tmp_path)
    link = tmp_path / "link.toml"
    link.symlink_to(config)
    tmp_path.chmod(0o777)
    for path in (config, link):
        assert f"cannot use {path}: anybody may put another file in its place" in report_of(path)
    tmp_path.chmod(0o1777)
    assert warnings(config) == set()


def test_one_that_a_group_may_write_and_all_may_read_can_be_used(tmp_path: Path) -> None:
    config = tmp_path / "t.toml"
    config.write_text("")
    config.chmod(0o664)
    assert warnings(config) == set()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_a_link_of_another_user_in_a_directory_that_anybody_may_write_is_refused(tmp_path: Path) -> None:
    there, common = tmp_path / "theirs", tmp_path / "common"
    there.mkdir()
    common.mkdir()
    (there / "t.toml").write_text('[tools.t]\ncommand = ["true"]\n')
    link = common / "t.toml"
    link.symlink_to(there / "t.toml")
    common.chmod(0o1777)
    load_catalog(link, {})
    os.lchown(link, 4711, 4711)
    with pytest.raises(ConfigError, match=r"belongs to another user \(uid 4711\)"):
        load_catalog(link, {})
    # A file of somebody in a directory of root's is refused; in a checkout of theirs root takes it.
    os.chown(there / "t.toml", 4711, 4711)
    with pytest.raises(ConfigError, match=r"t.toml belongs to another user \(uid 4711\)"):
        load_catalog(there / "t.toml", {})
    os.chown(there, 4711, 4711)
    load_catalog(there / "t.toml", {})
    there.chmod(0o777)
    with pytest.raises(ConfigError, match="anybody may put another file in its place"):
        load_catalog(there / "t.toml", {})


def test_each_directory_on_the_way_is_looked_at(tmp_path: Path) -> None:
    inner = tmp_path / "open" / "inner"
    inner.mkdir(parents=True)
    (inner / "t.toml").write_text('[tools.t]\ncommand = ["true"]\n')
    load_catalog(inner / "t.toml", {})
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(ConfigError, match=r"open has mode 0777"):
        load_catalog(inner / "t.toml", {})


def test_a_token_that_anybody_may_replace_opens_no_profile(tmp_path: Path) -> None:
    common = tmp_path / "common"
    common.mkdir()
    (common / "token").write_text("sesame")
    (common / "token").chmod(0o600)
    (tmp_path / "link").symlink_to(common / "token")
    config = tmp_path / "t.toml"
    config.write_text(f'[agents.ops]\ntoken_file = "{tmp_path}/link"\n')
    load_catalog(config, {})
    common.chmod(0o777)
    assert "cannot use the token's file: anybody may put another file in its place" in report_of(config)
