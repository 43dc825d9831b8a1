"""Whether two readings of a configuration are one."""

from pathlib import Path
from typing import Final

import pytest

from tooldispatchd.catalog.catalog import Catalog
from tooldispatchd.config.configuration import load_catalog
from tooldispatchd.config.difference import are_same, differences

WRITTEN: Final = """
[types]
pair = "{a: int, b: int}"
[tools.add]
type = "pair -> int"
map = "a + b"
when = [{ rule = "input.a > 3" }]
[tools.echo]
inline = "id"
[tools.run]
command = ["/bin/echo", "a"]
output_mode = "text"
[mcp.docs]
command = "docs"
env = { A = "1", TOKEN = "${SECRET}" }
[mcp.far]
url = "https://far.example/mcp"
token = "${SECRET}"
[agents.default]
tools = ["add", "echo", "run"]
mcp = ["docs"]
token = "a-token-that-nobody-guesses"
"""


def read(directory: Path, text: str = WRITTEN, secret: str = "hushhush") -> Catalog:
    file = directory / "config.toml"
    file.write_text(text)
    file.chmod(0o600)
    return load_catalog(file, {"SECRET": secret})


def test_of_variables_and_headers_each_name_is_told_of_and_no_value(tmp_path: Path) -> None:
    before = read(tmp_path)
    other = WRITTEN.replace('env = { A = "1"', 'env = { A = "2", B = "3"')
    told = differences(before, read(tmp_path, other, "othersecret"))
    assert [line for line in told if ".env" in line] == [
        "mcp.docs.env.A: changed",
        "mcp.docs.env.TOKEN: changed",
        "mcp.docs.env.B: new",
    ]
    assert not any("secret" in line for line in told)


def test_the_same_read_twice_is_the_same(tmp_path: Path) -> None:
    assert are_same(read(tmp_path), read(tmp_path))
    assert are_same(read(tmp_path), read(tmp_path, f"# more\n{WRITTEN}"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("b: int}", "b: int, c: int}"),
        ('["add", "echo", "run"]', '["echo", "add", "run"]'),
        ('"/bin/echo", "a"', '"/bin/echo", "b"'),
        ("a + b", "a - b"),
        ("guesses", "knows"),
        ("a > 3", "a > 4"),
        ('[mcp.docs]\ncommand = "docs"\nenv', '[mcp.docs]\ncommand = "docs"\nlazy = true\nenv'),
    ],
)
def test_whatever_differs_makes_it_another(tmp_path: Path, old: str, new: str) -> None:
    assert old in WRITTEN
    assert not are_same(read(tmp_path), read(tmp_path, WRITTEN.replace(old, new)))


def test_secrets_and_the_order_of_tables_make_it_another(tmp_path: Path) -> None:
    assert not are_same(read(tmp_path), read(tmp_path, secret="pstpstpst"))
    docs, far = '[mcp.docs]\ncommand = "docs"\n', '[mcp.far]\nurl = "https://far.example/mcp"\n'
    assert not are_same(read(tmp_path, docs + far), read(tmp_path, far + docs))
