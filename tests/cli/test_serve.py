"""What `serve` says where it cannot listen."""

import os
from pathlib import Path

import pytest

from tests.daemon.forking import run_forked
from tests.daemon.spawned import without_places


@pytest.mark.parametrize("words", [(), ("--listen", "unix:/nosuch/place/d.sock")])
def test_a_standing_place_that_cannot_be_used_is_told_with_one_that_can(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "tooldispatchd.toml").write_text('[tools.echo]\ntype = "string -> string"\ninline = "id"\n')
    environ = without_places() | {"TOOLDISPATCHD_SOCKET": "/nosuch/place/d.sock"}
    config = ("--config", str(tmp_path / "tooldispatchd.toml"))
    ended = run_forked("serve", *config, *words, stdin=b"", env=environ)
    assert ended.returncode == 3
    assert ended.stderr.startswith("tooldispatchd: cannot listen on unix:/nosuch/place/d.sock: ")
    works_here = "; --listen unix:./dispatch.sock works here\n"
    assert ended.stderr.endswith(works_here) is (not words and os.access(".", os.W_OK))
