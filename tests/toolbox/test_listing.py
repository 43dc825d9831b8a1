import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.forked.python.test_context import context
from tests.toolbox.test_pathglobs import matches
from tooldispatchd.forked.python.context import InvalidInputError, ToolContext, ToolFailedError
from tooldispatchd.toolbox.listing import glob, list_directory, tree


@pytest.fixture
def ctx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToolContext:
    monkeypatch.chdir(tmp_path)
    return context(workspace=str(tmp_path))


def made(*paths: str) -> None:
    for path in paths:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).touch()


def test_a_directory_is_listed_with_kinds_sizes_and_times(ctx: ToolContext) -> None:
    made("sub/x")
    Path("b.txt").write_text("x" * 1234)
    Path("a").symlink_to("sub")
    for name in ("b.txt", "sub"):
        os.utime(name, (0, 86_400))
    os.utime("a", (0, 86_400), follow_symlinks=False)
    assert list_directory() == (
        "3 names in . (kind, bytes, changed in UTC, name):\n"
        "link                  - 1970-01-02 00:00:00  a -> sub\n"
        "file              1,234 1970-01-02 00:00:00  b.txt\n"
        "directory             - 1970-01-02 00:00:00  sub/"
    )


def test_an_empty_directory_is_an_answer(ctx: ToolContext) -> None:
    assert list_directory() == ". is empty."


def test_names_beyond_a_thousand_are_counted(ctx: ToolContext) -> None:
    made(*(f"d/{number:04}" for number in range(1_003)))
    lines = list_directory("d").split("\n")
    assert (len(lines), lines[1000][-4:], lines[-1]) == (1_002, "0999", "… 3 more names left out …")


def test_what_is_missing_is_told_with_its_near_names(ctx: ToolContext) -> None:
    made("source/x")
    with pytest.raises(ToolFailedError, match="near names in its directory: source"):
        list_directory("sourec")


def test_a_tree_shows_links_and_says_what_is_ignored(ctx: ToolContext) -> None:
    made("src/a.py", "src/deep/b/c.py", "node_modules/x", "x.log")
    Path("out").symlink_to("/etc")
    Path(".gitignore").write_text("node_modules/\n*.log\n")
    assert tree(ctx, depth=2) == (
        "./\n"
        "  .gitignore\n"
        "  out -> /etc\n"
        "  src/\n"
        "    a.py\n"
        "    deep/ (not looked into)\n"
        "  (left out by .gitignore: node_modules/, x.log)"
    )


def test_a_tree_is_bounded_from_below(ctx: ToolContext) -> None:
    made("a/1", "a/2", "b/3")
    assert tree(ctx, entries=3) == "./\n  a/\n    1\n    (1 more left out)\n  b/ (not looked into)"


def test_ignored_names_are_shown_on_demand(ctx: ToolContext) -> None:
    made("x.log")
    Path(".gitignore").write_text("*.log\n")
    assert tree(ctx, ignored=True) == "./\n  .gitignore\n  x.log"


def test_a_thousand_levels_are_walked(ctx: ToolContext, tmp_path: Path) -> None:
    for _ in range(1_000):
        Path("d").mkdir()
        os.chdir("d")
    Path("found").touch()
    os.chdir(tmp_path)
    assert glob(ctx, "**/found").endswith("/d/found")
    assert tree(ctx, depth=20).count("\n") == 20
    # What clears up after tests goes down by recursion.
    subprocess.run(["rm", "-r", "d"], check=True)


def test_the_last_changed_comes_first(ctx: ToolContext) -> None:
    made("old.py", "sub/new.py", "mid.py", "x.txt")
    for changed, name in enumerate(("old.py", "mid.py", "sub/new.py")):
        os.utime(name, (changed, changed))
    assert glob(ctx, "**/*.py") == "sub/new.py\nmid.py\nold.py"
    assert glob(ctx, "*.py", limit=1) == "mid.py\n… 1 older ones left out …"


def test_paths_can_be_used_as_they_are_told(ctx: ToolContext) -> None:
    made("src/deep/x.py")
    assert glob(ctx, "**/*.py", "src") == "src/deep/x.py"
    assert glob(ctx, "de*", "src") == "src/deep/"


def test_nothing_found_is_an_answer(ctx: ToolContext) -> None:
    assert glob(ctx, "*.rs") == "Nothing below . fits *.rs."


def test_a_pattern_that_leads_out_is_refused(ctx: ToolContext) -> None:
    with pytest.raises(InvalidInputError) as refused:
        glob(ctx, "../*")
    assert refused.value.field == "pattern"


def test_a_name_can_forge_no_line(ctx: ToolContext) -> None:
    made("a\n  forged", "\x1b[2J")
    for answer in (list_directory(), tree(ctx), glob(ctx, "**")):
        assert r'"a\n  forged"' in answer
        assert r'"\x1b[2J"' in answer
        assert "\x1b" not in answer


PARTS = st.sampled_from(["a", "b", "c.py", "x.log"])
WAYS = st.lists(st.lists(PARTS, min_size=1, max_size=4), min_size=1, max_size=12)


def filled(top: Path, ways: list[list[str]]) -> set[str]:
    """The relative paths of everything below a new directory; ones whose way is taken are not made."""
    top.mkdir()
    for way in ways:
        try:
            top.joinpath(*way).parent.mkdir(parents=True, exist_ok=True)
            top.joinpath(*way).touch()
        except OSError:
            continue
    return {str(path.relative_to(top)) for path in top.rglob("*")}


@pytest.fixture
def fresh(tmp_path: Path) -> Callable[[], Path]:
    numbers = iter(range(10**6))
    return lambda: tmp_path / str(next(numbers))


@settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ways=WAYS, pattern=st.sampled_from(["**", "**/*.py", "a/**/b", "*/*", "{a,b}/**", "**/a/*", "[ab]"]))
def test_a_glob_finds_what_fits_of_all_paths(fresh: Callable[[], Path], ways: list[list[str]], pattern: str) -> None:
    top = fresh()
    there = filled(top, ways)
    told = glob(context(workspace=str(top)), pattern, str(top)).split("\n")
    found = {os.path.relpath(line, top) for line in told if line.startswith(str(top))}
    assert found == {path for path in there if matches(pattern, path)}


@settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ways=WAYS, depth=st.integers(1, 5), entries=st.integers(1, 20))
def test_a_tree_shows_all_but_what_it_says(
    fresh: Callable[[], Path], ways: list[list[str]], depth: int, entries: int
) -> None:
    top = fresh()
    there = filled(top, [*ways, [".gitignore"]])
    (top / ".gitignore").write_text("*.log\n")
    told = tree(context(workspace=str(top)), str(top), depth=depth, entries=entries).split("\n")[1:]
    seen, way = set[str](), list[str]()
    for line in told:
        level = (len(line) - len(line.lstrip())) // 2
        del way[level - 1 :]
        text = line.strip()
        here = "/".join(way)
        if text.startswith("(left out by .gitignore: "):
            gone = {here + "/" * bool(here) + name.rstrip("/") for name in text[25:-1].split(", ")}
            there = {path for path in there if not any(path == each or path.startswith(each + "/") for each in gone)}
        elif more := re.fullmatch(r"\((\d+) more left out\)", text):
            shown = {path for path in seen if path.rpartition("/")[0] == here}
            hidden = {path for path in there if path.rpartition("/")[0] == here} - shown
            hidden -= {path for path in hidden if path.endswith(".log")}
            assert len(hidden) == int(more[1])
            there = {path for path in there if not any(path == each or path.startswith(each + "/") for each in hidden)}
        else:
            way.append(text.removesuffix(" (not looked into)").rstrip("/"))
            seen.add("/".join(way))
            if text.endswith(" (not looked into)"):
                there = {path for path in there if not path.startswith("/".join(way) + "/")}
    assert seen == there
    assert len(seen) <= entries


def test_a_directory_that_cannot_be_read_is_told(ctx: ToolContext) -> None:
    at = os.open(".", os.O_RDONLY)
    # One path is longer than the kernel takes.
    for name in ["d" * 250] * 20:
        os.mkdir(name, dir_fd=at)
        below = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    assert glob(ctx, "**/x") == "Nothing below . fits **/x.\n… 1 directories could not be read …"
    assert "(cannot be read: file name too long)" in tree(ctx, depth=20)
    subprocess.run(["rm", "-r", "d" * 250], check=True)
