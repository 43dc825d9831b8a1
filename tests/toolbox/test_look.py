import os
from pathlib import Path

import pytest

from tests.forked.python.test_context import context
from tooldispatchd.forked.python.context import ToolContext
from tooldispatchd.toolbox.look import environment, introspect


@pytest.fixture
def ctx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToolContext:
    (tmp_path / "tree").mkdir()
    monkeypatch.chdir(tmp_path / "tree")
    return context()


def made(**texts: str) -> None:
    for name, text in texts.items():
        path = Path(name.replace("__", "/"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_an_overview_is_the_structure(ctx: ToolContext, tmp_path: Path) -> None:
    made(b="2", a__c="1")
    assert introspect(ctx) == f"Structure of {tmp_path}/tree: 2 files\na/c\nb\n\nLeft out: .git"


def test_all_is_the_structure_and_the_contents(ctx: ToolContext, tmp_path: Path) -> None:
    made(b="two\n", a__c="ön")
    assert introspect(ctx, "all") == (
        f"Structure of {tmp_path}/tree: 2 files\n"
        "a/c\nb\n\n==== a/c (3 bytes)\nön\n\n==== b (4 bytes)\ntwo\n\n\nLeft out: .git"
    )


def test_what_is_left_out_is_told_with_its_reason(ctx: ToolContext) -> None:
    made(a="x", node_modules__y="x", **{".gitignore": "node_modules/\n", "uv.lock": "x", ".env.local": "KEY=1"})
    made(**{"sub__ID_RSA": "x", ".aws__config": "KEY", "b.pem": "x", ".git__config": "x"})
    Path("binary").write_bytes(b"\0")
    Path("latin").write_bytes(b"\xe9")
    Path("link").symlink_to("/etc/passwd")
    os.mkfifo("fifo")
    told = introspect(ctx, "all")
    assert told.split("\n\nLeft out: .git\n")[1].split("\n") == [
        "Left out, ignored by .gitignore (1): node_modules/",
        "Left out, secrets by their names (4): .env.local, b.pem, .aws/config, sub/ID_RSA",
        "Left out, neither a file nor a directory (2): fifo, link",
        "Left out, lock files (1): uv.lock",
        "Left out, contents that are binary, or not UTF-8 (2): binary, latin",
    ]
    assert "KEY" not in told


def test_contents_are_bounded_and_a_small_file_still_fits(ctx: ToolContext) -> None:
    made(a="x" * 200_000, b="y" * 100_000, c="small")
    told = introspect(ctx, "all")
    assert len(told) < 270_000
    assert "==== c (5 bytes)\nsmall" in told
    assert told.endswith("\nLeft out, contents for which 256 KiB have no room (1): b")


def test_a_long_structure_is_cut_and_counted(ctx: ToolContext) -> None:
    made(**{f"{number:04}{'x' * 96}": "" for number in range(1_000)})
    assert "… 352 more files left out …" in introspect(ctx)


def test_the_environment_tells_no_value_of_a_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("API_TOKEN", "sesame-opens")
    told = environment(context(workspace=str(tmp_path), left_s=60.0))
    assert "sesame" not in told
    assert f"Workspace: {tmp_path}\n" in told
    assert f"May be written: {tmp_path}, " in told
    assert "\nTime for a call: 60 s left of this one\n" in told


def test_a_place_that_cannot_be_written_is_not_named(tmp_path: Path) -> None:
    told = environment(context(workspace="/proc"))
    assert "May be written: /proc" not in told
