import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from tests.conftest import children, open_descriptors
from tooldispatchd.catalog.problems import Problem
from tooldispatchd.catalog.signatures import Signature
from tooldispatchd.catalog.specs import ToolSpec
from tooldispatchd.config.python_tools import interpreter_of, read_signatures
from tooldispatchd.config.signature_reader import ImportEnvironment, SignatureRefusal, ask_all

SITE = Path(msgspec.__file__).parent.parent
MAKE = '''
from msgspec import Struct

class Hit(Struct):
    title: str

def make(text: str, limit: int = 10) -> list[Hit]:
    """Find."""

async def later(text, ctx): ...
'''


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "finding.py").write_text(MAKE)
    return tmp_path


def read(place: Path, **tools: ToolSpec) -> tuple[dict[str, Signature], list[Problem]]:
    found = read_signatures(tools, place, os.environ)
    return found.signatures, list(found.problems)


def problem_of(place: Path, tool: ToolSpec) -> Problem:
    signatures, problems = read(place, tool=tool)
    assert not signatures
    (problem,) = problems
    return problem


def make_venv(directory: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
    return directory


def test_a_module_beside_the_configuration_is_read(place: Path) -> None:
    signatures, problems = read(place, make=ToolSpec(python="finding:make"), later=ToolSpec(python="finding:later"))

    assert problems == []
    assert msgspec.structs.replace(signatures["make"], code="", parent="") == Signature(
        input_schema={
            "type": "object",
            "properties": {"text": {"type": "string"}, "limit": {"type": "integer", "default": 10}},
            "required": ["text"],
            "additionalProperties": False,
        },
        output_schema={
            "type": "array",
            "items": {"$ref": "#/$defs/Hit"},
            "$defs": {
                "Hit": {
                    "title": "Hit",
                    "type": "object",
                    "properties": {"title": {"type": "string"}},
                    "required": ["title"],
                }
            },
        },
        description="Find.",
        interpreter=sys.executable,
        place=str(place),
    )
    assert (signatures["later"].takes_ctx, signatures["later"].is_async) == (True, True)


def test_only_python_tools_are_read(place: Path) -> None:
    assert read(place, echo=ToolSpec(inline="id")) == ({}, [])


def test_a_tools_working_directory_is_searched_in_place_of_the_configurations(place: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "elsewhere.py").write_text("import os\nHERE = os.getcwd()\ndef where(at: str = HERE) -> str: ...\n")

    signatures, _ = read(place, where=ToolSpec(python="elsewhere:where", cwd=str(other)))

    assert signatures["where"].place == str(other)
    assert str(other) in str(signatures["where"].input_schema)


def test_a_module_beside_the_configuration_hides_none_of_the_interpreters(place: Path) -> None:
    (place / "json.py").write_text("1 / 0\n")

    signatures, problems = read(place, make=ToolSpec(python="finding:make"), dumps=ToolSpec(python="json:dumps"))

    assert list(signatures) == ["make"]
    assert [problem.why for problem in problems] == [
        "it takes **kw, and a tool says which fields its input has; name them"
    ]


def test_modules_see_the_tools_environment_and_little_of_the_daemons(place: Path) -> None:
    (place / "seeing.py").write_text("import os\ndef see(names: str = ' '.join(sorted(os.environ))): ...\n")
    environ = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "SECRET": "x"}

    found = read_signatures({"see": ToolSpec(python="seeing:see", env={"MINE": "1"})}, place, environ)

    names = str(found.signatures["see"].input_schema)
    assert "MINE" in names
    assert "HOME" in names
    assert "SECRET" not in names


def test_input_is_empty(place: Path) -> None:
    (place / "asking.py").write_text("import sys\ndef ask(said: str = sys.stdin.read()): ...\n")

    assert "ask" in read(place, ask=ToolSpec(python="asking:ask"))[0]


# --- what is wrong with a function ---


@pytest.mark.parametrize(
    ("path", "why", "nearest"),
    [
        ("findign:make", "there is no module findign", "finding:make"),
        ("finding:mkae", "the module finding has no mkae", "finding:make"),
        ("finding:Hit", "it is a class; a tool is a function, or a static or class method of one", None),
        ("broken:run", "cannot import broken: ValueError: no such luck (broken.py, line 1)", None),
        ("killed:run", "importing killed was ended by SIGSEGV: the last words", None),
        ("timed:run", "importing timed was ended by signal 40", None),
        ("leaving:run", "importing leaving ended with exit code 3: going", None),
    ],
)
def test_what_cannot_be_read_is_told_with_its_reason(place: Path, path: str, why: str, nearest: str | None) -> None:
    (place / "broken.py").write_text("raise ValueError('no such luck')\n")
    (place / "killed.py").write_text("import os\nprint('the last words')\nos.kill(os.getpid(), 11)\n")
    (place / "timed.py").write_text("import os\nos.kill(os.getpid(), 40)\n")
    (place / "leaving.py").write_text("import os, sys\nprint('going', file=sys.stderr)\nos._exit(3)\n")

    problem = problem_of(place, ToolSpec(python=path))

    assert problem == Problem(("tools", "tool", "python"), why, value=path, nearest=nearest)


def test_a_broken_function_leaves_the_others_of_its_environment_alone(place: Path) -> None:
    signatures, problems = read(place, no=ToolSpec(python="finding:no"), make=ToolSpec(python="finding:make"))

    assert list(signatures) == ["make"]
    assert [problem.path for problem in problems] == [("tools", "no", "python")]


def test_one_function_of_two_tools_is_told_for_both(place: Path) -> None:
    _, problems = read(place, one=ToolSpec(python="finding:no"), two=ToolSpec(python="finding:no"))

    assert [problem.path[1] for problem in problems] == ["one", "two"]


def test_a_module_that_starts_threads_is_refused_unless_it_is_resident(place: Path) -> None:
    (place / "busy.py").write_text(
        "import threading\n"
        "threading.Thread(target=threading.Event().wait, name='ticker', daemon=True).start()\n"
        "def run() -> None: ...\n"
    )

    signatures, problems = read(
        place,
        forked=ToolSpec(python="busy:run"),
        resident=ToolSpec(python="busy:run", resident=True),
        other=ToolSpec(python="finding:make"),
    )

    assert sorted(signatures) == ["other", "resident"]
    assert [problem.path for problem in problems] == [("tools", "forked", "python")]
    assert problems[0].why.startswith("its module starts threads when it is imported (ticker), and a process with")


def test_threads_are_told_of_the_second_function_of_a_module_too(place: Path) -> None:
    (place / "ticking.py").write_text(
        "import threading\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "def run() -> None: ...\n"
    )

    signatures, problems = read(place, no=ToolSpec(python="ticking:no"), run=ToolSpec(python="ticking:run"))

    assert signatures == {}
    assert [problem.path[1] for problem in problems] == ["no", "run"]


def test_a_docstring_that_no_json_can_say_is_mended(place: Path) -> None:
    (place / "odd.py").write_text('def run() -> None:\n    "Half a pair: \\ud800"\n')

    assert read(place, run=ToolSpec(python="odd:run"))[0]["run"].description == "Half a pair: ?"


def test_a_thread_that_ends_with_the_import_is_nothing(place: Path) -> None:
    (place / "brief.py").write_text(
        "import threading\none = threading.Thread(target=int)\none.start()\none.join()\ndef run() -> None: ...\n"
    )

    assert "run" in read(place, run=ToolSpec(python="brief:run"))[0]


# --- interpreters ---


def test_a_virtual_environment_is_a_directory_or_its_interpreter(place: Path) -> None:
    venv = make_venv(place / "venv")
    (venv / "lib" / f"python3.{sys.version_info.minor}" / "site-packages" / "more.pth").write_text(f"{SITE}\n")
    (place / "telling.py").write_text("import sys\ndef tell(prefix: str = sys.prefix) -> str: ...\n")

    signatures, problems = read(
        place,
        directory=ToolSpec(python="telling:tell", venv="venv"),
        program=ToolSpec(python="telling:tell", venv=str(venv / "bin" / "python")),
    )

    assert problems == []
    assert signatures["directory"] == signatures["program"]
    assert signatures["directory"].interpreter == str(venv / "bin" / "python")
    assert str(venv) in str(signatures["directory"].input_schema)


def test_an_interpreter_without_msgspec_is_told_how_to_get_it(place: Path) -> None:
    python = make_venv(place / "venv") / "bin" / "python"

    problem = problem_of(place, ToolSpec(python="finding:make", venv="venv"))

    assert problem.path == ("tools", "tool", "venv")
    assert problem.why == (
        f"{python} has no msgspec, with which a function's types are read: {python} -m pip install msgspec"
    )


def test_an_interpreter_that_is_not_there_is_told_by_its_path(place: Path) -> None:
    (place / "empty").mkdir()
    (place / "text").write_text("no program")

    with pytest.raises(ValueError, match=f"there is no virtual environment and no interpreter {place}/gone"):
        interpreter_of("gone", place)
    with pytest.raises(ValueError, match=f"no virtual environment: there is no {place}/empty/bin/python"):
        interpreter_of("empty", place)
    with pytest.raises(ValueError, match=f"{place}/text is no program that can be run"):
        interpreter_of("text", place)
    assert problem_of(place, ToolSpec(python="finding:make", venv="gone")).path == ("tools", "tool", "venv")


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("exit 4", "cannot be asked for signatures: it ended with exit code 4"),
        ("echo hello >&2", "cannot be asked for signatures: it ended with exit code 0: hello"),
        ("echo {} >/proc/self/fd/$6", "cannot be asked for signatures: it ended with exit code 0"),
        ('echo "[3" >/proc/self/fd/$6', "cannot be asked for signatures: it gives an answer that cannot be read"),
    ],
)
def test_another_program_in_an_interpreters_place_is_told(place: Path, program: str, why: str) -> None:
    shell = place / "python"
    # The sixth word is the descriptor of the answers.
    shell.write_text(f"#!/bin/sh\n{program}\n")
    shell.chmod(0o755)

    assert problem_of(place, ToolSpec(python="finding:make", venv="python")).why == f"{shell} {why}"


def test_a_working_directory_that_is_not_there_is_the_one_to_blame(place: Path) -> None:
    problem = problem_of(place, ToolSpec(python="finding:make", cwd=str(place / "gone")))

    assert problem.path == ("tools", "tool", "cwd")


# --- owners ---

is_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")


@is_root
def test_a_module_is_imported_as_the_tools_user(place: Path) -> None:
    # The daemon's own interpreter may lie where nobody else may look.
    shell = place / "python"
    shell.write_text("#!/bin/sh\nid -u >&2; id -G >&2\nexit 1\n")
    shell.chmod(0o755)
    for directory in (place, *place.parents):
        if directory.stat().st_uid == os.geteuid() and directory != Path("/"):
            directory.chmod(directory.stat().st_mode | 0o011)

    problem = problem_of(place, ToolSpec(python="finding:make", venv="python", user=12345, group=54321))

    assert problem.why.endswith(": 12345 54321")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may become anybody")
def test_a_user_that_it_cannot_be_stands_in_the_way_unless_a_best_effort_is_enough(place: Path) -> None:
    problem = problem_of(place, ToolSpec(python="finding:make", user=12345))
    signatures, problems = read(place, make=ToolSpec(python="finding:make", user=12345, sandbox="best-effort"))

    assert (problem.path[-1], problem.why) == ("user", "only a daemon that is root can run a tool as somebody")
    assert set(signatures) == {"make"}
    assert problems == []


def test_nothing_is_imported_for_a_user_that_is_still_a_name(place: Path) -> None:
    assert read(place, make=ToolSpec(python="finding:make", user="nobody")) == ({}, [])


# --- bounds ---


def ask(place: Path, *functions: str, within_s: float) -> dict[str, Signature | SignatureRefusal]:
    environment = ImportEnvironment(sys.executable, str(place), None, (("PATH", os.environ["PATH"]),))
    return ask_all({environment: functions}, within_s=within_s)[environment].found


def test_an_import_that_takes_too_long_is_ended_with_what_it_started(place: Path) -> None:
    (place / "slow.py").write_text(
        "import pathlib, subprocess, time\n"
        "child = subprocess.Popen(['sleep', '100'])\n"
        f"pathlib.Path({str(place / 'pid')!r}).write_text(str(child.pid))\n"
        "print('waiting for the database')\n"
        "time.sleep(100)\n"
    )
    before = open_descriptors(), children()

    answer = ask(place, "finding:make", "slow:run", "finding:later", within_s=2)

    assert isinstance(answer["finding:make"], Signature)
    assert answer["slow:run"] == SignatureRefusal("importing slow takes more than 2 s: waiting for the database")
    assert "finding:later" not in answer
    assert (open_descriptors(), children()) == before
    assert is_gone(int((place / "pid").read_text()))


def is_gone(pid: int) -> bool:
    """Whether a process has ended, or does within a second; what is killed takes a moment."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


def test_what_holds_the_pipes_open_holds_up_nothing(place: Path) -> None:
    (place / "leaking.py").write_text("import os, time\nif os.fork() == 0:\n    time.sleep(100)\nos._exit(5)\n")

    assert ask(place, "leaking:run", within_s=20) == {
        "leaking:run": SignatureRefusal("importing leaking ended with exit code 5")
    }


def test_a_flood_of_words_is_read_and_its_end_is_told(place: Path) -> None:
    (place / "loud.py").write_text("print('x ' * 1_000_000)\nprint('the end')\nimport os\nos._exit(1)\n")

    (refusal,) = ask(place, "loud:run", within_s=20).values()

    assert isinstance(refusal, SignatureRefusal)
    assert refusal.why.endswith("x the end")
    assert len(refusal.why) < 400


def test_environments_are_read_side_by_side_and_none_leaves_anything(place: Path) -> None:
    # Each waits for all the others.
    (place / "meeting.py").write_text(
        "import os, pathlib, time\n"
        "(pathlib.Path(__file__).parent / os.environ['ME']).touch()\n"
        "while len(list(pathlib.Path(__file__).parent.glob('here-*'))) < 4:\n"
        "    time.sleep(0.01)\n"
        "def run() -> None: ...\n"
    )
    tools = {f"t{number}": ToolSpec(python="meeting:run", env={"ME": f"here-{number}"}) for number in range(4)}
    before = open_descriptors(), children()

    found = read_signatures(tools, place, os.environ)

    assert sorted(found.signatures) == ["t0", "t1", "t2", "t3"]
    assert (open_descriptors(), children()) == before
