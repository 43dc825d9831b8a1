from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.toolbox.callers import Caller
from tooldispatchd.forked.python.context import InvalidInputError, ToolFailedError
from tooldispatchd.toolbox.bash import bash

AS_BEFORE = "\nThe shell's directory and variables are as before this call."


@pytest.fixture(autouse=True)
def _workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def say(caller: Caller) -> Callable[..., str]:
    """Calls of one agent, whose shell lives on."""
    state: dict[str, Any] = {}

    def call(command: str, *, timeout_s: int = 60, cwd: str | None = None) -> str:
        nonlocal state
        ctx = caller.ctx(state=state, session=True)
        answer = bash(command, ctx, timeout_s=timeout_s, cwd=cwd)
        state = ctx.state
        return answer

    return call


def test_the_answer_is_the_output_and_the_exit_code(caller: Caller) -> None:
    assert bash("echo hello; exit 2", caller.ctx()) == "hello\nexit code 2"


def test_it_is_bash_and_calls_itself_so(caller: Caller) -> None:
    answer = bash('[[ x == x ]] && echo "$0 $#"\nnosuch', caller.ctx())
    assert answer == "bash 0\nbash: line 2: nosuch: command not found\nexit code 127"


def test_without_bash_sh_does_it_and_that_is_said(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert bash("echo hello", caller.ctx()) == "hello\nexit code 0\nThere is no bash here: this was run by sh."
    with pytest.raises(ToolFailedError, match="needs bash"):
        bash("echo hello", caller.ctx(state={}, session=True))


def test_it_runs_in_the_directory_that_is_asked_for(caller: Caller, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    assert bash("pwd", caller.ctx(), cwd="in") == f"{tmp_path}/in\nexit code 0"


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("command", {"command": " \n"}),
        ("command", {"command": "a\0b"}),
        ("cwd", {"command": "true", "cwd": "nowhere"}),
        ("cwd", {"command": "true", "cwd": "a\0b"}),
        ("cwd", {"command": "true", "cwd": ""}),
    ],
)
def test_what_cannot_be_run_is_refused_by_its_field(caller: Caller, field: str, fields: dict[str, str]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        bash(ctx=caller.ctx(), **fields)  # type: ignore[arg-type]  # all are strings
    assert caught.value.field == field


def test_a_command_and_an_environment_too_long_for_the_kernel_are_told(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONG", "x" * 200_000)
    with pytest.raises(ToolFailedError, match=r"^cannot start .*/bash: Argument list too long$"):
        bash("true", caller.ctx())


def test_without_the_option_nothing_lives_on(caller: Caller, tmp_path: Path) -> None:
    bash("cd /; export A=1", caller.ctx())
    assert bash("pwd; echo ${A-none}", caller.ctx()) == f"{tmp_path}\nnone\nexit code 0"


def test_directory_and_variables_live_on(say: Callable[..., str]) -> None:
    say('cd /usr; export A=1 B="é\n\'"; unset HOME; f() { echo f $1; }; export -f f')
    assert say('pwd; echo "$A$B${HOME-none}"; f 2') == "/usr\n1é\n'none\nf 2\nexit code 0"


def test_what_is_unset_is_so_in_the_next_call(say: Callable[..., str]) -> None:
    say("export A=1")
    say("unset A")
    assert say("echo ${A-none}") == "none\nexit code 0"


@pytest.mark.parametrize(
    ("end", "code"),
    [("exit 3", 3), ("set -e; false", 1), ("set -eu; false", 1), ("trap 'true' EXIT", 0), ("set -- a b; (exit 5)", 5)],
)
def test_however_the_command_ends_its_shell_lives_on(say: Callable[..., str], end: str, code: int) -> None:
    assert say(f"cd /usr; export A=1; {end}") == f"exit code {code}"
    assert say("echo $PWD $A $#") == "/usr 1 0\nexit code 0"


def test_a_command_that_cannot_be_parsed_changes_nothing(say: Callable[..., str]) -> None:
    say("cd /usr")
    assert say("cd /; if").endswith("exit code 2")
    assert say("pwd") == "/usr\nexit code 0"


@pytest.mark.parametrize("end", ["kill -9 $$", "exec true"])
def test_a_shell_that_cannot_tell_its_state_leaves_the_last_one(say: Callable[..., str], end: str) -> None:
    say("export A=1; cd /usr")
    assert say(f"export A=2; cd /; {end}").endswith(AS_BEFORE)
    assert say("echo $A $PWD") == "1 /usr\nexit code 0"


def test_one_that_is_stopped_leaves_it_too(say: Callable[..., str]) -> None:
    assert say("export A=2; sleep 1000", timeout_s=1).endswith(AS_BEFORE)
    assert say("echo ${A-none}") == "none\nexit code 0"


def test_a_directory_that_is_gone_is_told(say: Callable[..., str], tmp_path: Path) -> None:
    say("mkdir d; cd d; rmdir ../d")
    assert say("pwd") == f"{tmp_path}\nexit code 0\n{tmp_path}/d is gone: this was run in the workspace."


def test_a_directory_that_is_asked_for_goes_before_the_one_that_lives_on(say: Callable[..., str]) -> None:
    say("cd /usr")
    assert say("pwd", cwd="/") == "/\nexit code 0"


def test_tracing_does_not_show_what_keeps_the_state(say: Callable[..., str]) -> None:
    assert say("set -x; true") == "++ true\nexit code 0"


def test_what_is_too_large_or_no_text_is_named(say: Callable[..., str]) -> None:
    answer = say("export SMALL=1 LARGE=$(printf %060000d 0) BYTES=$(printf '\\377')")
    assert answer == "exit code 0\nNot kept for the next call, which takes 48 KiB of text: BYTES, LARGE."
    assert say("echo $SMALL ${LARGE-none} ${BYTES-none}") == "1 none none\nexit code 0"


def test_an_environment_in_which_no_program_starts_is_not_kept(say: Callable[..., str]) -> None:
    assert say("export A=$(printf %0200000d 0)") == f"exit code 0{AS_BEFORE}"


def test_what_it_leaves_in_the_background_does_not_hold_the_state(say: Callable[..., str]) -> None:
    assert say("sleep 1000 & cd /usr") == "exit code 0"
    assert say("pwd") == "/usr\nexit code 0"


SET = {
    "TERM": "dumb",
    **dict.fromkeys(("PAGER", "GIT_PAGER", "MANPAGER", "SYSTEMD_PAGER"), "cat"),
    **dict.fromkeys(("EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR"), "false"),
    "GIT_TERMINAL_PROMPT": "0",
    "DEBIAN_FRONTEND": "noninteractive",
}
REPOSITORY = (
    "git init -q . && git config user.name a && git config user.email a@example.com"
    " && git commit -q --allow-empty -m one && git commit -q --allow-empty -m two && "
)


def test_programs_are_told_that_nobody_is_there(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    # In a daemon the table of the tool says it.
    monkeypatch.delenv("TERM", raising=False)
    words = " ".join(f'"${name}"' for name in SET)
    assert bash(f"printf '%s,' {words}", caller.ctx()).startswith(",".join(SET.values()) + ",\n")


def test_what_the_table_says_of_a_variable_goes_before(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_EDITOR", "true")
    assert bash('echo "$GIT_EDITOR $EDITOR"', caller.ctx()).startswith("true false\n")


@pytest.mark.parametrize(
    ("command", "said", "code"),
    [
        ("git commit --allow-empty", "Please supply the message using either -m or -F", 1),
        ("git commit --amend --allow-empty", "Please supply the message using either -m or -F", 1),
        ("git rebase -i HEAD~1", "There was a problem with the editor", 1),
        ("git tag -a v1", "Please supply the message using either -m or -F", 1),
        ("git -c core.pager=less log --oneline", "two", 0),
        ("git add -p; git clean -i; read answer; cat", "", 0),
        ("python3 -c 'input()'", "EOFError", 1),
        ("test -t 0 || test -t 1 || : < /dev/tty", "/dev/tty", 1),
    ],
)
def test_no_command_waits_for_a_person(caller: Caller, command: str, said: str, code: int) -> None:
    told = bash(REPOSITORY + f"({command})", caller.ctx(), timeout_s=20)
    assert said in told
    assert told.endswith(f"exit code {code}")
