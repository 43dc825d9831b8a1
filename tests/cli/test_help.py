import resource
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.daemon.forking import run_forked
from tooldispatchd.__main__ import COMMANDS

COMMAND = [sys.executable, "-m", "tooldispatchd"]


def took_s(words: Sequence[str]) -> float:
    """In processor time: on a busy machine everything waits, and costs the same."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, capture_output=True, check=True, timeout=20)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_help_names_every_command() -> None:
    ended = run_forked("--help")
    assert ended.returncode == 0
    assert all(name in ended.stdout and summary in ended.stdout for name, summary in COMMANDS.items())


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_its_help(command: str) -> None:
    ended = run_forked(command, "--help")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith(f"usage: tooldispatchd {command} ")


@pytest.mark.parametrize("command", ["serve", "call"])
def test_the_help_of_a_command_names_its_exit_codes(command: str) -> None:
    assert "exit codes: 0 " in run_forked(command, "--help").stdout


def test_help_answers_in_a_tenth_of_a_second_beyond_the_interpreter() -> None:
    pairs = [(took_s([*COMMAND, "--help"]), took_s([sys.executable, "-c", "pass"])) for _ in range(5)]
    helped, bare = (min(each) for each in zip(*pairs, strict=True))
    assert helped <= bare + 0.1


def test_help_imports_nothing_heavy() -> None:
    words = [sys.executable, "-X", "importtime", "-m", "tooldispatchd", "--help"]
    told = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False).stderr
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in told.splitlines()}
    assert "argparse" in imported
    assert imported.isdisjoint({"trio", "msgspec", "jsonschema_rs", "cel_expr_python", "httpx2", "mcp"})


@pytest.mark.parametrize("command", ["call", "tools"])
def test_the_commands_of_a_client_import_neither_the_event_loop_nor_msgspec(command: str) -> None:
    modules = f"tooldispatchd.cli.{command}, tooldispatchd.cli.dialogue"
    probe = f"import sys, {modules}; print(sys.modules.keys() & {{'trio', 'msgspec'}})"
    ended = subprocess.run([sys.executable, "-c", probe], capture_output=True, timeout=20, check=True)
    assert ended.stdout == b"set()\n"


def test_the_version_is_told() -> None:
    ended = run_forked("--version")
    assert ended.returncode == 0
    assert ended.stdout.startswith("tooldispatchd ")


@pytest.mark.parametrize("words", [[], ["frobnicate"], ["--frobnicate"], ["call"], ["tools", "--socket"]])
def test_a_mistake_of_usage_has_exit_code_2(words: list[str]) -> None:
    assert run_forked(*words).returncode == 2


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("chek", "there is no command chek, did you mean check?"),
        ("frobnicate", "there is no command frobnicate; tooldispatchd --help lists them"),
    ],
)
def test_a_command_that_there_is_not_is_told_with_the_nearest(word: str, said: str) -> None:
    assert run_forked(word).stderr == f"tooldispatchd: {said}\n"
