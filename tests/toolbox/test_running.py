import os
import time
from pathlib import Path

import pytest

from tests.processes import is_running
from tests.toolbox.callers import Caller
from tooldispatchd.forked.python.context import ToolFailedError
from tooldispatchd.toolbox.running import Run, environment, run, time_for


def shell(caller: Caller, command: str, *, limit_s: float = 60, left_s: float | None = None) -> Run:
    return run(["/bin/sh", "-c", command], ctx=caller.ctx(left_s=left_s), limit_s=limit_s)


def test_both_outputs_come_in_the_order_in_which_they_were_written(caller: Caller) -> None:
    assert shell(caller, "echo a; echo b >&2; echo c; exit 3") == Run("a\nb\nc\n", 3, None)


def test_the_exit_code_stands_in_the_details(caller: Caller) -> None:
    ctx = caller.ctx()
    run(["/bin/sh", "-c", "exit 3"], ctx=ctx, limit_s=60)
    assert ctx.details == {"exit_code": 3}


def test_a_signal_that_ended_it_is_named(caller: Caller) -> None:
    assert shell(caller, "echo -n x; kill -9 $$").text("A note.") == "x\nended by SIGKILL\nA note."


def test_it_has_no_input_and_no_terminal(caller: Caller) -> None:
    assert shell(caller, "cat; tty").text() == "not a tty\nexit code 1"


def test_closing_its_outputs_does_not_end_it(caller: Caller) -> None:
    assert shell(caller, "exec >&- 2>&-; sleep 0.1; exit 4") == Run("", 4, None)


@pytest.mark.parametrize(
    "start",
    [
        "sleep 1000 & echo $!",
        "sleep 1000 >/dev/null 2>&1 & echo $!",
        "setsid sleep 1000 & echo $!",
        "env -i /usr/bin/setsid sleep 1000 & echo $!",
        "(setsid sh -c 'echo $$; exec sleep 1000' &); sleep 0.2",
        "trap '' TERM HUP; nohup sleep 1000 & echo $!",
    ],
)
def test_what_it_leaves_behind_neither_delays_its_end_nor_survives_it(caller: Caller, start: str) -> None:
    began = time.monotonic()
    left = int(shell(caller, start).output.split()[0])
    assert time.monotonic() - began < 10
    assert not is_running(left)


def test_other_children_of_this_process_are_left_alone(caller: Caller) -> None:
    pid = os.spawnvp(os.P_NOWAIT, "sleep", ["sleep", "1000"])
    shell(caller, "true")
    assert is_running(pid)
    os.kill(pid, 9)
    os.waitpid(pid, 0)


def test_at_its_limit_it_is_stopped_and_what_it_wrote_is_told(caller: Caller) -> None:
    done = shell(caller, "echo before; exec sleep 1000", limit_s=0.5)
    assert done == Run("before\n", -15, "stopped after 0.5 s, its timeout_s")
    assert done.text() == "before\nstopped after 0.5 s, its timeout_s; ended by SIGTERM"


def test_it_may_tidy_up_when_it_is_stopped(caller: Caller) -> None:
    done = shell(caller, "trap 'echo tidied; exit 7' TERM; while :; do sleep 0.05; done", limit_s=0.5)
    assert done.output.endswith("tidied\n")
    assert done.code == 7


TIDY = "trap 'sleep 0.2; echo tidied; exit' TERM; touch begun; while :; do sleep 0.01; done"


@pytest.mark.parametrize("start", ["sh tidy; true", "setsid sh tidy & wait", "(setsid setsid sh tidy &); sleep 1000"])
def test_what_it_runs_may_tidy_up_too_when_it_is_stopped(
    caller: Caller, start: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tidy").write_text(TIDY)
    assert shell(caller, start, limit_s=0.5).output.endswith("tidied\n")


@pytest.mark.parametrize("start", ["sh tidy &", "setsid sh tidy &", "(setsid nohup sh tidy >&3 &) 3>&1"])
def test_what_it_leaves_behind_may_tidy_up(
    caller: Caller, start: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tidy").write_text(TIDY)
    done = shell(caller, f"{start}\nuntil test -e begun; do sleep 0.01; done")
    assert done.output.endswith("tidied\n")


def test_one_that_does_not_end_is_killed(caller: Caller) -> None:
    assert shell(caller, "trap '' TERM; sleep 1000; sleep 1000", limit_s=0.3).code == -9


def test_one_that_has_stopped_itself_hears_of_its_end(caller: Caller) -> None:
    assert shell(caller, "kill -STOP $$", limit_s=0.3).code == -15


def test_a_call_that_is_given_up_stops_it(caller: Caller) -> None:
    done = shell(caller, "echo cancel me; exec sleep 1000")
    assert done.code == -15
    assert str(done.stopped).endswith(" s: the call was cancelled")


def test_it_ends_before_the_call_has_no_more_time(caller: Caller) -> None:
    assert shell(caller, "exec sleep 1000", left_s=2.0).stopped == "stopped after 1.0 s: the call has no more time"


def test_a_call_keeps_some_of_its_time_to_answer(caller: Caller) -> None:
    assert time_for(caller.ctx(), 600) == 600
    assert 58 < time_for(caller.ctx(left_s=60), 600) < 59
    assert 0.4 < time_for(caller.ctx(left_s=1), 600) < 0.6


def test_an_output_without_end_takes_constant_memory(caller: Caller) -> None:
    before = Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0]
    done = shell(caller, "head -c 60000000 /dev/zero")
    after = Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0]
    assert "… 59,967,232 bytes left out …" in done.output
    assert int(after) - int(before) < 20_000


def test_what_never_stops_writing_is_stopped(caller: Caller) -> None:
    done = shell(caller, "yes", limit_s=0.5)
    assert done.output.startswith("y\ny\n")
    assert " lines left out …" in done.output


def test_the_output_is_shown_as_it_comes(caller: Caller) -> None:
    shell(caller, "echo one; sleep 0.6; echo two")
    assert caller.shown == ["one\n", "two\n"]


def test_of_much_output_the_newest_is_shown(caller: Caller) -> None:
    shell(caller, "head -c 100000 /dev/zero | tr '\\0' a; echo end")
    assert "".join(caller.shown).endswith("aaaend\n")
    assert all(len(each) <= 4_003 for each in caller.shown)


def test_a_program_that_cannot_be_started_is_told_in_a_sentence(caller: Caller) -> None:
    with pytest.raises(ToolFailedError, match=r"^cannot start /no/program: No such file or directory$"):
        run(["/no/program"], ctx=caller.ctx(), limit_s=1)


def test_a_home_that_cannot_be_read_is_the_scratch_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/nowhere")
    assert environment()["HOME"] == "/nowhere"
    monkeypatch.setenv("TOOLDISPATCHD_SCRATCH", str(tmp_path))
    assert environment()["HOME"] == str(tmp_path)
    monkeypatch.setenv("HOME", "/usr")
    assert environment()["HOME"] == "/usr"
    monkeypatch.delenv("HOME")
    assert "HOME" not in environment()


def test_nothing_is_left_open(caller: Caller) -> None:
    before = sorted(Path("/proc/self/fd").iterdir())
    shell(caller, "true")
    with pytest.raises(ToolFailedError):
        run(["/no/program"], ctx=caller.ctx(), limit_s=1)
    assert sorted(Path("/proc/self/fd").iterdir()) == before


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("10%\\r50%\\r100%\\ndone\\n", "100%\ndone\n"),
        ("a\\r\\nb\\r\\n", "a\r\nb\r\n"),
        ("1\\r2\\r\\n", "2\r\n"),
        ("1\\r  \\rok", "ok"),
    ],
)
def test_of_a_progress_bar_the_last_frame_is_told(caller: Caller, said: str, told: str) -> None:
    assert run(["printf", "%b", said], ctx=caller.ctx(), limit_s=10).output == told


def test_of_a_long_progress_bar_nothing_but_the_last_frame_is_kept(caller: Caller) -> None:
    command = "for n in $(seq 30000); do printf 'frame %d\\r' $n; done; echo end"
    assert run(["bash", "-c", command], ctx=caller.ctx(), limit_s=30).output == "end\n"
