from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.toolbox.callers import Caller
from tooldispatchd.toolbox.interpreter import python

AS_BEFORE = "\nThe variables are as before this call."


@pytest.fixture(autouse=True)
def _workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def say(caller: Caller) -> Callable[..., str]:
    """Calls of one agent, whose variables live on."""
    state: dict[str, Any] = {}

    def call(code: str, *, timeout_s: int = 60) -> str:
        nonlocal state
        ctx = caller.ctx(state=dict(state), session=True)
        answer = python(code, ctx, timeout_s=timeout_s)
        state = ctx.state
        return answer

    return call


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("", "exit code 0"),
        ("1 + 1", "2\nexit code 0"),
        ("print('a')\n'b'", "a\n'b'\nexit code 0"),
        ("None", "exit code 0"),
        ("x = 'é'; print(x)", "é\nexit code 0"),
        ("import sys; print(1); print(2, file=sys.stderr); print(3)", "1\n2\n3\nexit code 0"),
        ("import sys; sys.exit(3)", "exit code 3"),
        ("import os; os.kill(os.getpid(), 9)", "ended by SIGKILL"),
        ("__name__", "'__main__'\nexit code 0"),
        ("from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\nP(1)", "P(x=1)\nexit code 0"),
    ],
)
def test_the_answer_is_what_it_prints_and_the_value_of_its_end(caller: Caller, code: str, answer: str) -> None:
    assert python(code, caller.ctx()) == answer


def test_a_traceback_shows_the_code_alone(caller: Caller) -> None:
    assert python("def f():\n    return [][1]\nf()", caller.ctx()) == (
        "Traceback (most recent call last):\n"
        '  File "<code>", line 3, in <module>\n'
        "    f()\n"
        '  File "<code>", line 2, in f\n'
        "    return [][1]\n"
        "           ~~^^^\n"
        "IndexError: list index out of range\n"
        "exit code 1"
    )


def test_a_mistake_of_syntax_is_told_with_its_line(caller: Caller) -> None:
    answer = python("x = 1\ny = (2\n", caller.ctx())
    assert answer.startswith('  File "<code>", line 2\n    y = (2\n')
    assert answer.endswith("SyntaxError: '(' was never closed\nexit code 1")


def test_a_mistake_of_syntax_that_only_shows_later_too(caller: Caller) -> None:
    answer = python("x = 1\nreturn x", caller.ctx())
    assert answer == "  File \"<code>\", line 2\nSyntaxError: 'return' outside function\nexit code 1"


def test_it_has_no_input(caller: Caller) -> None:
    assert "EOFError" in python("input()", caller.ctx())


def test_modules_of_the_workspace_can_be_imported(caller: Caller, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("value = 7\n")
    assert python("import mine; mine.value", caller.ctx()) == "7\nexit code 0"


def test_modules_of_the_workspace_are_not_taken_for_those_that_show_a_traceback(caller: Caller, tmp_path: Path) -> None:
    (tmp_path / "traceback.py").write_text("raise SystemExit(9)\n")
    (tmp_path / "pickle.py").write_text("raise SystemExit(9)\n")
    ctx = caller.ctx(state={}, session=True)
    python("x = 1", ctx)
    assert python("x / 0", ctx).endswith(f"ZeroDivisionError: division by zero\nexit code 1{AS_BEFORE}")


def test_at_its_limit_it_is_stopped(caller: Caller) -> None:
    answer = python("print('before')\nwhile True: pass", caller.ctx(), timeout_s=1)
    assert answer == "before\nstopped after 1 s, its timeout_s; ended by SIGTERM"


def test_without_the_option_nothing_lives_on(caller: Caller) -> None:
    python("x = 1", caller.ctx())
    assert "NameError" in python("x", caller.ctx())


def test_variables_functions_classes_and_modules_live_on(say: Callable[..., str]) -> None:
    say(
        "import math\nclass C: pass\nc = C()\nx = 1.5\n"
        "def f(): return isinstance(c, C), g()\ndef g(): return math.floor(x)"
    )
    assert say("f(), math.pi > 3") == "((True, 1), True)\nexit code 0"


def test_functions_see_what_later_calls_assign(say: Callable[..., str]) -> None:
    say("x = 1\ndef f(): return x")
    assert say("x = 2; f()") == "2\nexit code 0"
    assert say("x = 3; f()") == "3\nexit code 0"


def test_what_two_variables_share_they_share_again(say: Callable[..., str]) -> None:
    say("a = [1]; b = {'a': a}")
    assert say("a.append(2); b") == "{'a': [1, 2]}\nexit code 0"


@pytest.mark.parametrize(
    "end", ["1 / 0", "import sys; sys.exit(0)", "import os; os._exit(0)", "import os; os.kill(os.getpid(), 9)"]
)
def test_code_that_does_not_run_to_its_end_leaves_them_as_they_were(say: Callable[..., str], end: str) -> None:
    say("x = [1]")
    assert say(f"x.append(2); {end}").endswith(AS_BEFORE)
    assert say("x") == "[1]\nexit code 0"


def test_code_that_is_stopped_too(say: Callable[..., str]) -> None:
    say("x = 1")
    assert say("x = 2\nwhile True: pass", timeout_s=1).endswith(AS_BEFORE)
    assert say("x") == "1\nexit code 0"


def test_what_cannot_be_kept_is_named(say: Callable[..., str]) -> None:
    answer = say("import os\nsmall = 1\nlarge = os.urandom(60_000)\nhuge = bytes(5_000_000)\nfile = open('/dev/null')")
    assert answer == (
        "exit code 0\nNot kept for the next call: huge (too large), file (cannot be pickled), large (too large)."
    )
    assert say("small, 'large' in dir(), 'file' in dir()") == "(1, False, False)\nexit code 0"


def test_it_is_compressed(say: Callable[..., str]) -> None:
    assert say("x = [0] * 200_000") == "exit code 0"
    assert say("len(x)") == "200000\nexit code 0"


def test_variables_of_a_module_that_is_gone_are_gone_and_that_is_said(say: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("class C: pass\n")
    say("import mine; c = mine.C()")
    (tmp_path / "mine.py").unlink()
    assert say("1") == (
        "The variables of earlier calls cannot be restored; this one began without them: "
        "ModuleNotFoundError: No module named 'mine'\n1\nexit code 0"
    )


def test_what_is_written_to_a_descriptor_of_ours_is_no_state(say: Callable[..., str]) -> None:
    say("x = 1")
    answer = say(
        "import os\nfor fd in range(3, 100):\n    try: os.write(fd, b'{}' * 9)\n    except OSError: pass\nos._exit(0)"
    )
    assert answer == f"exit code 0{AS_BEFORE}"
    assert say("x") == "1\nexit code 0"
