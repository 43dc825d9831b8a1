"""The effective configuration, key by key."""

from pathlib import Path

from tooldispatchd.admin.keys import key_view, keys_of
from tooldispatchd.daemon.reload.source import ConfigurationSource

CONFIG = """
[limits]
call_s = 7
[mcp.x]
command = "foo"
args = ["--token", "s3cret-value-123"]
env = { API_KEY = "hush-hush-hush" }
[mcp.y]
url = "https://api.example/mcp?key=abcdefgh"
token = "tok-tok-tok-tok"
headers = { X-Auth = "Bearer zzzzzzzzz" }
[tools.echo]
inline = "id"
[agents.default]
tools = ["echo"]
token = "open sesame"
"""


def test_each_key_is_shown_with_its_origin_and_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_text(CONFIG)
    file.chmod(0o600)
    reading = ConfigurationSource(file, listen=(), standing=f"unix:{tmp_path}/s").read()
    shown = {view.key: view for view in (key_view(*key, reading.origin_of) for key in keys_of(reading.catalog.config))}
    assert (shown["limits.call_s"].value, shown["limits.call_s"].origin) == (7.0, f"{file}:3")
    assert (shown["limits.sessions"].value, shown["limits.sessions"].origin) == (20_000, "default")
    assert (shown["agents.default.tools"].value, shown["agents.default.tools"].origin) == (("echo",), f"{file}:15")
    assert shown["tools.echo.inline"].value == "id"
    hidden = {key for key, view in shown.items() if view.value == "…"}
    assert hidden >= {"mcp.x.args", "mcp.x.env.API_KEY", "mcp.y.url", "mcp.y.token", "mcp.y.headers.X-Auth"}
    text = repr(shown)
    assert not [secret for secret in ("s3cret", "hush", "abcdefgh", "tok-tok", "zzzz", "sesame") if secret in text]
