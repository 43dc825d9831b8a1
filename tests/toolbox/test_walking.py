import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tooldispatchd.forked.python.context import ToolFailedError
from tooldispatchd.toolbox.walking import Walk, directory_at, shown


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plain name.txt", "plain name.txt"),
        ("naïve", "naïve"),
        ("a\nb", r'"a\nb"'),
        ("\x1b[31m", r'"\x1b[31m"'),
        (os.fsdecode(b"\xff"), r'"\xff"'),
        ("a\u202eb", r'"a\u202eb"'),
        ('"quoted\\', r'"\"quoted\\"'),
        ("x -> /etc", '"x -> /etc"'),
        ("… 3 left out …", '"… 3 left out …"'),
        ("(left out", '"(left out"'),
        (" indented", '" indented"'),
    ],
)
def test_a_name_is_shown_in_one_line(name: str, text: str) -> None:
    assert shown(name) == text


@given(st.text(max_size=20), st.text(max_size=20))
def test_two_names_are_never_shown_alike(one: str, other: str) -> None:
    assert (shown(one) == shown(other)) == (one == other)
    assert shown(one).isprintable()


def test_a_link_is_an_entry_and_never_walked(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "out").symlink_to("/etc")
    (directory,) = Walk(tmp_path, None)
    assert [entry.name for entry in directory.entries] == ["loop", "out"]


def test_a_directory_that_becomes_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "was").mkdir()
    walked = iter(Walk(tmp_path, None))
    next(walked)
    (tmp_path / "was").rmdir()
    (tmp_path / "was").symlink_to("/etc")
    last = next(walked)
    assert (last.entries, type(last.error)) == ([], NotADirectoryError)


def test_a_directory_that_goes_meanwhile_is_told(tmp_path: Path) -> None:
    (tmp_path / "was").mkdir()
    walked = iter(Walk(tmp_path, None))
    next(walked)
    (tmp_path / "was").rmdir()
    assert isinstance(next(walked).error, FileNotFoundError)


def test_the_git_directory_is_left_out(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert [directory.entries for directory in Walk(tmp_path, None)] == [[]]


@pytest.mark.parametrize(("path", "why"), [("none", "does not exist"), ("file", "it is a file")])
def test_what_is_no_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, why: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    with pytest.raises(ToolFailedError, match=why):
        directory_at(path)


NAME = st.binary(min_size=1, max_size=4).filter(lambda name: not set(b"/\0") & set(name) and name not in {b".", b".."})


@settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.lists(NAME, min_size=1, max_size=3), st.sampled_from(["file", "..", "/", "."])), max_size=8)
)
def test_a_walk_sees_what_is_there_and_nothing_else(tmp_path: Path, made: list[tuple[list[bytes], str]]) -> None:
    top = tmp_path / str(len(list(tmp_path.iterdir())))
    top.mkdir()
    for way, kind in made:
        place = top.joinpath(*map(os.fsdecode, way))
        if any(taken.is_symlink() for taken in (place, *place.parents)):
            continue
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch() if kind == "file" else place.symlink_to(kind)
        except OSError:  # another of them is in the way
            continue
    seen = {"/".join((*walked.parts, entry.name)) for walked in Walk(top, None) for entry in walked.entries}
    there = {
        os.path.relpath(Path(above, name), top)
        for above, directories, files in os.walk(top, followlinks=False)
        for name in directories + files
    }
    assert seen == {path for path in there if ".git" not in path.split("/")}
