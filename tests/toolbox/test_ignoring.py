import os
import subprocess
import time
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.forked.python.test_context import context
from tooldispatchd.toolbox.ignoring import IgnoreRules, rules_above
from tooldispatchd.toolbox.walking import walk

NAMES = st.sampled_from(["a", "b", "build", "x.log", "y.py", "Keep"])
RULES = st.lists(
    st.sampled_from(
        ["*.log", "build/", "/a", "a/b", "!x.log", "!build/", "**/y.py", "a/**", "# no", "", "*", "!*/", "[", "b/*"]
    ),
    max_size=4,
)


def test_the_deepest_list_that_knows_a_name_decides(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / ".gitignore").write_text("!*.log\n")
    rules = IgnoreRules().within(tmp_path)
    assert rules.ignores(f"{tmp_path}/kept/x.log", directory=False)
    assert not rules.within(tmp_path / "kept").ignores(f"{tmp_path}/kept/x.log", directory=False)


def test_what_stands_above_the_directory_holds_in_it(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / ".gitignore").write_text("/src/x\n")
    assert rules_above(tmp_path / "src", tmp_path).ignores(f"{tmp_path}/src/x", directory=False)


def test_an_ignored_directory_that_is_asked_for_is_shown(tmp_path: Path) -> None:
    (tmp_path / "build" / "deep").mkdir(parents=True)
    (tmp_path / ".gitignore").write_text("build/\n*.o\n")
    assert not rules_above(tmp_path / "build" / "deep", tmp_path).ignores(f"{tmp_path}/build/deep/x.o", directory=False)


def test_a_list_that_is_no_regular_file_is_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".gitignore")
    assert not IgnoreRules().within(tmp_path).ignores(f"{tmp_path}/x", directory=False)


def test_a_bad_line_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_bytes(b"[z-a]\n!\n\xff\nx\r\n")
    assert IgnoreRules().within(tmp_path).ignores(f"{tmp_path}/x", directory=False)


def test_all_that_is_in_a_directory_may_have_exceptions(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("a/**\nb/**/ \n!x.log\n")
    rules = IgnoreRules().within(tmp_path)
    assert not rules.ignores(f"{tmp_path}/a", directory=True)
    assert rules.ignores(f"{tmp_path}/a/b", directory=True)
    assert rules.ignores(f"{tmp_path}/a/y.py", directory=False)
    assert not rules.ignores(f"{tmp_path}/a/x.log", directory=False)
    assert not rules.ignores(f"{tmp_path}/b", directory=True)
    assert rules.ignores(f"{tmp_path}/b/c", directory=True)


def test_a_line_of_many_stars_is_passed_over_and_takes_no_time(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*a*a*a*a*b\n**a**a**b\n**/a/*/*.gen.*\n")
    rules, began = IgnoreRules().within(tmp_path), time.process_time()
    assert not rules.ignores(f"{tmp_path}/{'a' * 255}", directory=False)
    assert rules.ignores(f"{tmp_path}/b/a/c/x.gen.y", directory=False)
    assert time.process_time() - began < 1.0


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.lists(st.lists(NAMES, min_size=1, max_size=3), min_size=1, max_size=8),
    lists=st.dictionaries(st.sampled_from(["", "a", "build"]), RULES, min_size=1),
)
def test_what_is_left_is_what_git_would_take(
    files: list[list[str]], lists: dict[str, list[str]], tmp_path: Path
) -> None:
    top = tmp_path / str(len(list(tmp_path.iterdir())))
    for way in files:
        try:
            top.joinpath(*way).parent.mkdir(parents=True, exist_ok=True)
            top.joinpath(*way).touch()
        except OSError:  # another of them made it a file, or a directory
            continue
    top.mkdir(exist_ok=True)
    for place, lines in lists.items():
        if (top / place).is_dir():
            (top / place / ".gitignore").write_text("\n".join(lines))
    git = ["git", "-c", "core.excludesFile=/dev/null", "-C", str(top)]
    subprocess.run([*git, "init", "-q"], check=True)
    told = subprocess.run([*git, "ls-files", "-oz", "--exclude-standard"], check=True, capture_output=True).stdout
    seen = {
        "/".join((*directory.parts, entry.name))
        for directory in walk(context(workspace=str(top)), top, ignored=False)
        for entry in directory.entries
        if not entry.is_dir()
    }
    assert seen == set(told.decode().split("\0")) - {""}
