import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tooldispatchd.forked.python.functions import FunctionError, find_function
from tooldispatchd.forked.python.signature import prepare


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]


def lost(path: str) -> tuple[str, str | None]:
    with pytest.raises(FunctionError) as caught:
        find_function(path)
    return caught.value.why, caught.value.nearest


def test_functions_and_static_and_class_methods_are_found(modules: Path) -> None:
    (modules / "found_shapes.py").write_text(
        "def top(): return 1\n"
        "class Shape:\n"
        "    @staticmethod\n    def line(): return 2\n"
        "    @classmethod\n    def square(cls): return 3\n"
        "    def own(self): return 4\n"
    )
    paths = ["found_shapes:top", "found_shapes:Shape.line", "found_shapes:Shape.square"]

    assert [prepare(find_function(path)).function() for path in paths] == [1, 2, 3]
    assert "only static and class methods" in lost("found_shapes:Shape.own")[0]


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("lost_toolz:make", ("there is no module lost_toolz", "lost_tools:make")),
        ("lost_boots:make", ("there is no module lost_boots", None)),
        ("lost_tools:mkae", ("the module lost_tools has no mkae", "lost_tools:make")),
        ("lost_tools:Shape.lime", ("lost_tools:Shape has no lime", "lost_tools:Shape.line")),
        ("lost_tools:nothing_like_it", ("the module lost_tools has no nothing_like_it", None)),
        ("lost_pack.inne:make", ("there is no module lost_pack.inne", "lost_pack.inner:make")),
        (
            "lost_tools.inner:make",
            ("lost_tools is a module and no package, so that there is no lost_tools.inner", None),
        ),
        ("lost_needy:make", ("cannot import lost_needy: ModuleNotFoundError: No module named 'lost_dep'", None)),
        ("lost_broken:make", ("cannot import lost_broken: ZeroDivisionError: division by zero", None)),
        ("lost_leaver:make", ("cannot import lost_leaver: SystemExit: not today", None)),
        ("lost_odd:make", ("cannot import lost_odd: SyntaxError: invalid syntax", None)),
    ],
)
def test_what_cannot_be_found_is_told_with_the_nearest_name(
    modules: Path, path: str, told: tuple[str, str | None]
) -> None:
    (modules / "lost_tools.py").write_text("def make(): ...\nclass Shape:\n    @staticmethod\n    def line(): ...\n")
    (modules / "lost_needy.py").write_text("import lost_dep\n")
    (modules / "lost_broken.py").write_text("1 / 0\n")
    (modules / "lost_leaver.py").write_text("raise SystemExit('not today')\n")
    (modules / "lost_odd.py").write_text("def :\n")
    (modules / "lost_pack").mkdir()
    (modules / "lost_pack" / "__init__.py").touch()
    (modules / "lost_pack" / "inner.py").write_text("def make(): ...\n")

    assert lost(path) == told
