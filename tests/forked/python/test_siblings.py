import importlib
import sys
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from tooldispatchd.forked.python.siblings import Siblings, around

CODE = ("one.py", f"native{EXTENSION_SUFFIXES[0]}", "package/__init__.py", "package/part.py", "own/part.py")
REST = ("daemon.toml", "token", ".env", "notes/__init__.txt", "package.py", ".hidden.py.swp", "two.pyc", "data/part.py")


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    for name in (*CODE, *REST):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("NAME = __name__")
    before = dict(sys.modules)
    sys.path.append(str(tmp_path))
    yield tmp_path
    sys.path.remove(str(tmp_path))
    for name in sys.modules.keys() - before:
        del sys.modules[name]
    sys.path_importer_cache.pop(str(tmp_path), None)


def test_code_alone_may_be_read(directory: Path) -> None:
    found = Siblings(str(directory), ["own"], [str(directory)])
    expected = {str(directory / name) for name in ("one.py", f"native{EXTENSION_SUFFIXES[0]}", "package", "own")}
    assert set(found.paths) == expected


@pytest.mark.parametrize("name", ["one", "package", "package.part", "own.part"])
def test_what_was_noted_is_imported(directory: Path, name: str) -> None:
    sys.path_importer_cache[str(directory)] = Siblings(str(directory), ["own"], [str(directory)])
    assert vars(importlib.import_module(name))["NAME"] == name


def test_what_was_not_noted_is_not_found(directory: Path) -> None:
    sys.path_importer_cache[str(directory)] = Siblings(str(directory), [], [str(directory)])
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("own.part")


def test_what_the_interpreter_has_itself_is_left_to_it(directory: Path) -> None:
    assert around([str(directory)], sys.path, ["one:f"]) == {}
    assert list(around([str(directory)], [], ["one:f"])) == [str(directory)]


def test_a_directory_around_the_configurations_gives_no_more(directory: Path) -> None:
    found = around([str(directory / "package")], [], ["own.part:f"])
    expected = {str(directory / name) for name in (*CODE[:2], "package.py", "own")}
    assert set(found[str(directory)].paths) == expected


def test_a_directory_that_is_not_there_has_nothing() -> None:
    assert Siblings("/no/such", [], []).paths == []
