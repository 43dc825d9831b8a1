"""The digest of a function's code, and the files that it is made of, as the reader of signatures tells them."""

import os
import sys
from pathlib import Path
from typing import Final

import pytest

from tooldispatchd.catalog.specs import ToolSpec
from tooldispatchd.config.python_tools import PythonTools, read_signatures
from tooldispatchd.config.stamps import Noted, noting

FILES: Final = {
    "main.py": "import importlib\nfrom near import SIZE\n"
    "import pack.part as part\nPLUGIN = importlib.import_module('plug' + 'in')\n"
    "def f(a: int = SIZE) -> int:\n    import lately\n    from wide.deep import inner\n    return a\n",
    "near.py": "SIZE = 1\n",
    "pack/__init__.py": "from .beside import X\n",
    "pack/beside.py": "X = 1\n",
    "pack/part.py": "",
    "plugin.py": "",
    "lately.py": "1 / 0\n",
    "wide/deep/inner.py": "",
    "other.py": "def g() -> int:\n    return 1\n",
    "unused.py": "",
    "lib/site-packages/installed.py": "def h() -> int:\n    return 1\n",
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def read(place: Path, **functions: str) -> tuple[PythonTools, Noted]:
    env = {"PYTHONPATH": str(place / "lib/site-packages")}
    tools = {name: ToolSpec(python=path, env=env) for name, path in functions.items()}
    with noting() as noted:
        return read_signatures(tools, place, os.environ), noted


def codes(place: Path) -> dict[str, str]:
    found, _ = read(place, f="main:f", g="other:g", h="installed:h")
    assert found.problems == ()
    return {name: signature.code for name, signature in found.signatures.items()}


def changed_by(place: Path, name: str) -> set[str]:
    before = codes(place)
    with (place / name).open("a") as file:
        file.write("# more\n")
    after = codes(place)
    return {name for name in before if before[name] != after[name]}


@pytest.mark.parametrize(
    ("name", "functions"),
    [
        ("main.py", {"f"}),
        ("near.py", {"f"}),
        ("pack/__init__.py", {"f"}),
        ("pack/beside.py", {"f"}),
        ("pack/part.py", {"f"}),
        # It is imported when the function runs.
        ("lately.py", {"f"}),
        # Below directories that have no `__init__`.
        ("wide/deep/inner.py", {"f"}),
        ("other.py", {"g"}),
        # No source names it: then it may be anybody's.
        ("plugin.py", {"f", "g", "h"}),
        ("unused.py", set()),
        ("lib/site-packages/installed.py", set()),
    ],
)
def test_a_file_changes_the_code_of_the_functions_that_import_it(place: Path, name: str, functions: set[str]) -> None:
    assert changed_by(place, name) == functions


def test_a_change_of_the_same_size_at_the_same_time_is_seen_and_run(place: Path) -> None:
    before, _ = read(place, f="main:f")
    at = (place / "near.py").stat()
    # As whoever runs the same code beside the daemon leaves it.
    (place / "run.py").write_text("import sys; sys.dont_write_bytecode = False; import near")
    assert os.system(f"{sys.executable} {place / 'run.py'}") == 0
    (place / "near.py").write_text("SIZE = 2\n")
    os.utime(place / "near.py", ns=(at.st_atime_ns, at.st_mtime_ns))
    after, _ = read(place, f="main:f")
    assert "'default': 1" in str(before.signatures["f"].input_schema)
    assert "'default': 2" in str(after.signatures["f"].input_schema)
    assert before.signatures["f"].parent != after.signatures["f"].parent


def test_functions_that_share_a_parent_have_its_digest(place: Path) -> None:
    found, _ = read(place, f="main:f", g="other:g")
    assert found.signatures["f"].parent == found.signatures["g"].parent


def test_the_files_are_noted_and_so_are_those_of_a_module_that_is_missing(place: Path) -> None:
    (place / "needs.py").write_text("import near\nimport later.on\ndef f(): ...\n")
    found, noted = read(place, f="needs:f", g="nowhere:g")
    assert [problem.why for problem in found.problems] == [
        "cannot import needs: ModuleNotFoundError: No module named 'later' (needs.py, line 2)",
        "there is no module nowhere",
    ]
    here = {path: stamp for path, stamp in noted.stamps.items() if path.is_relative_to(place)}
    assert {str(path.relative_to(place)): stamp is not None for path, stamp in here.items()} == {
        "needs.py": True,
        "near.py": True,
        "later.py": False,
        "later/__init__.py": False,
        "nowhere.py": False,
        "nowhere/__init__.py": False,
    }


def test_the_line_of_what_cannot_be_parsed_is_told(place: Path) -> None:
    (place / "near.py").write_text("SIZE = 1\ndef broken(:\n")
    found, _ = read(place, f="main:f")
    (problem,) = found.problems
    assert problem.why.endswith("SyntaxError: invalid syntax (near.py, line 2)")


def test_more_files_than_are_followed_are_told_of(place: Path) -> None:
    (place / "many").mkdir()
    for number in range(1_001):
        (place / "many" / f"m{number}.py").touch()
    (place / "all.py").write_text(f"from many import {', '.join(f'm{n}' for n in range(1_001))}\ndef f(): ...\n")
    found, noted = read(place, f="all:f")
    assert len(noted.stamps) == 1_000
    assert found.warnings == ("of the Python modules of its tools 1000 are followed, and there are more",)
