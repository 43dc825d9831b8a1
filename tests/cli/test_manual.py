"""Completions and man pages are those of the commands, complete, and come with the wheel."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from docs.manual import COMPLETIONS, SHARE, commands, files
from tests.daemon.spawned import ROOT

WRITTEN: Final = {path: (SHARE / path) for path, _ in files()}


def test_what_is_written_is_that_of_the_commands() -> None:
    # `make protocol` writes them.
    assert {path: text for path, text in files() if (SHARE / path).read_text() != text} == {}
    assert {str(each.relative_to(SHARE)) for each in SHARE.rglob("*") if each.is_file()} == WRITTEN.keys()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("st", ["status"]),
        ("serve --log-", ["--log-level"]),
        ("serve --log-level w", ["warning"]),
        ("mcp --install co", ["codex", "continue", "copilot"]),
        ("audit --totals t", ["tree"]),
        ("check --config Makef", ["Makefile"]),
    ],
)
def test_bash_completes_a_line(line: str, offered: list[str]) -> None:
    script = f"""
        . {SHARE / COMPLETIONS["bash"]}
        COMP_WORDS=(tooldispatchd {line})
        COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        $(complete -p tooldispatchd | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (offered, "")


def test_bash_comes_to_an_end_where_no_line_is_completed() -> None:
    script = f"""
        . {SHARE / COMPLETIONS["bash"]}
        compgen -F $(complete -p tooldispatchd | sed 's/.*-F \\([^ ]*\\).*/\\1/') tooldispatchd
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, timeout=20)
    assert "status" in done.stdout.split()


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_read_theirs(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    done = subprocess.run([shell, "-n", SHARE / COMPLETIONS[shell]], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_man_page_has_each_option_and_says_nothing_that_roff_would_take_for_its_own() -> None:
    for name, parser in commands().items():
        page = WRITTEN[f"man/man1/tooldispatchd-{name}.1"].read_text()
        flags = [flag.replace("-", "\\-") for action in parser._actions for flag in action.option_strings]
        assert [flag for flag in flags if f"\\fB{flag}\\fR" not in page] == []
        requests = {line.split()[0] for line in page.splitlines() if line.startswith((".", "'"))}
        assert requests <= {".TH", ".SH", ".TP", ".B", ".BR", ".nf", ".fi"}


def test_the_wheel_brings_them_with_the_units_of_a_user(tmp_path: Path) -> None:
    built = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(built, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    installs: list[str | Path] = ["install", "--quiet", "--no-compile", "--no-deps", "--no-index", wheel]
    subprocess.run([sys.executable, "-m", "pip", "--python", python, *installs], check=True)
    share = tmp_path / "venv" / "share"
    units = {f"systemd/user/tooldispatchd.{kind}" for kind in ("service", "socket")}
    assert {str(each.relative_to(share)) for each in share.rglob("*") if each.is_file()} == WRITTEN.keys() | units
    assert (share / COMPLETIONS["bash"]).read_bytes() == (SHARE / COMPLETIONS["bash"]).read_bytes()
