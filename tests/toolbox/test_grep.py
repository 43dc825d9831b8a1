import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.forked.python.test_context import context
from tooldispatchd.forked.python.context import InvalidInputError, ToolFailedError
from tooldispatchd.toolbox.grep import GrepFindings, lines_of
from tooldispatchd.toolbox.grep import grep as grep_in

TICK_S = 0.001


def grep(pattern: str, path: str = ".", **options: Any) -> str:
    return grep_in(context(), pattern, path, **options)


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_matches_stand_under_their_files_in_order() -> None:
    Path("b.txt").write_text("one\ntwo\none\n")
    Path("a.txt").write_text("one\n")
    assert grep("one") == "a.txt\n1:one\nb.txt\n1:one\n3:one\n3 matching lines in 2 files."


def test_context_is_told_from_matches_and_gaps_are_marked() -> None:
    Path("x").write_text("a\nHIT\nb\nc\nd\nHIT\n")
    assert grep("HIT", context=1) == "x\n1-a\n2:HIT\n3-b\n--\n5-d\n6:HIT\n2 matching lines in 1 files."


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 8, 13, 30])
def test_of_many_files_the_first_by_path_are_shown(limit: int) -> None:
    # A directory comes where its name belongs among the others, whatever characters follow in theirs.
    names = ["a", "a-b", "a.txt", "b/a", "b/c/d", "b/c.txt", "b/z", "b!", "b0", "c", *(f"d/{n:02}" for n in range(20))]
    for name in names:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("HIT\n")
    first = sorted(names, key=lambda name: name.split("/"))[:limit]
    shown = grep("HIT", limit=limit).split("\n")
    assert shown[: 2 * limit] == [line for name in first for line in (name, "1:HIT")]
    assert shown[2 * limit] == "30 matching lines in 30 files."


def test_where_lines_are_too_many_to_count_the_first_are_the_same_each_time() -> None:
    for number in range(40):
        Path(f"f{number:02}").write_text("HIT\n" * 400)
    first = grep("HIT", limit=500)
    assert first.split("\n")[:2] == ["f00", "1:HIT"]
    assert "10,000 matching lines in 25 files." in first
    assert grep("HIT", limit=500) == first


def test_what_is_beyond_the_limit_is_counted_without_its_context() -> None:
    Path("x").write_text("HIT\n" + "-\n" * 9 + "HIT\n")
    assert grep("HIT", context=2, limit=1) == (
        "x\n1:HIT\n2--\n3--\n2 matching lines in 1 files.\n… 1 of 2 matching lines left out …"
    )


def test_no_match_is_an_answer() -> None:
    Path("x").write_text("a\n")
    assert grep("b") == "No line in . matches b."


def test_only_included_paths_are_searched_and_no_ignored_ones() -> None:
    for name in ("a.ts", "src/b.ts", "src/deep/c.tsx", "src/d.py", "gone/e.ts", "src/f.ts.log"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("HIT\n")
    Path(".gitignore").write_text("gone/\n*.log\n")
    found = {
        include: grep("HIT", include=include).split("\n")[:-1:2] for include in ("*.ts", "src/**/*.{ts,tsx}", "**")
    }
    assert found == {
        "*.ts": ["a.ts", "src/b.ts"],
        "src/**/*.{ts,tsx}": ["src/b.ts", "src/deep/c.tsx"],
        "**": ["a.ts", "src/b.ts", "src/d.py", "src/deep/c.tsx"],
    }
    assert grep("HIT", include="[ef].ts", ignored=True).startswith("gone/e.ts\n")


def test_lists_above_the_workspace_hide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    Path(".gitignore").write_text("*.txt\n")
    Path("workspace/sub").mkdir(parents=True)
    Path("workspace/sub/a.txt").write_text("HIT\n")
    monkeypatch.chdir("workspace")
    assert grep("HIT").startswith("sub/a.txt\n1:HIT\n")


def test_case_and_plain_text_are_options() -> None:
    Path("x").write_text("a.b\nAXB\n")
    assert grep("a.b", ignore_case=True).startswith("x\n1:a.b\n2:AXB\n")
    assert grep("a.b", ignore_case=True, literal=True).startswith("x\n1:a.b\n1 matching")


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"x(a\1", "backreferences are not supported, at character 4"),
        ("[z-a]", "invalid character class range, the start must be <= the end, at character 2"),
        ("(a", "unclosed group"),
        ("a\nb", r'the literal "\n" is not allowed in a regex'),
        (r"(\w{1000}){1000}", "compiled regex exceeds size limit of 10485760"),
    ],
)
def test_a_bad_pattern_is_told_why_and_where(pattern: str, why: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        grep(pattern)
    assert (refused.value.field, str(refused.value)) == ("pattern", why)


def test_an_include_that_leads_out_is_refused() -> None:
    with pytest.raises(InvalidInputError) as refused:
        grep("x", include="../*")
    assert refused.value.field == "include"


def test_a_pattern_is_never_taken_for_an_option() -> None:
    Path("-x").write_text("--files\n")
    assert grep("--files", "-x") == "-x\n1:--files\n1 matching lines in 1 files."


def test_binary_files_are_left_out() -> None:
    Path("x").write_bytes(b"HIT\0HIT\n")
    assert grep("HIT", "x") == "No line in x matches HIT.\n… 1 binary files with a match left out …"
    assert grep("HIT").startswith("No line in . matches HIT.")


def test_other_encodings_are_shown_as_far_as_they_can() -> None:
    Path("latin").write_bytes(b"caf\xe9 HIT\n")
    Path("wide").write_bytes("HIT ü\n".encode("utf-16"))
    assert grep("HIT") == "latin\n1:caf\\xe9 HIT\nwide\n1:HIT ü\n2 matching lines in 2 files."


def test_a_long_line_is_cut_around_its_match() -> None:
    Path("x").write_text("é" * 5_000 + "HIT" + "z" * 5_000 + "\n")
    assert grep("HIT").split("\n")[1] == "1:(long line, from byte 9,750) …" + "é" * 125 + "HIT" + "z" * 247 + "…"


def test_lines_and_names_reach_no_terminal() -> None:
    Path("a\nb").write_text("HIT\x1b[2J\rx\tend\r\n")
    assert grep("HIT") == '"a\\nb"\n1:HIT\\x1b[2J\\x0dx\tend\n1 matching lines in 1 files.'


def test_a_line_that_looks_like_a_cut_is_shown() -> None:
    Path("x").write_text("[Omitted long HIT]\n")
    assert "[Omitted long HIT]" in grep("HIT")


def test_links_are_not_followed() -> None:
    Path("loop").symlink_to(".")
    Path("out").symlink_to("/etc")
    assert grep("root") == "No line in . matches root."


@pytest.mark.parametrize("path", ["none", "fifo"])
def test_what_cannot_be_searched_is_told(path: str) -> None:
    os.mkfifo("fifo")
    with pytest.raises(ToolFailedError, match=f"^cannot search {path}: it "):
        grep("x", path)


def test_counting_ends_somewhere() -> None:
    Path("x").write_text("HIT\n" * 20_000)
    assert grep("HIT", limit=1).endswith("\n… at least 9,999 of 10,000 matching lines left out …")


def test_a_search_ends_with_the_time_of_its_call() -> None:
    Path("x").write_text("HIT\n")
    assert grep_in(context(left_s=0.0), "HIT") == (
        "No line in . matches HIT.\n… the search had no more time: name other places, or include fewer files …"
    )


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*)*(.*)*x$", "a*" * 100 + "b"])
def test_no_pattern_is_slow(pattern: str) -> None:
    Path("x").write_text(("a" * 400 + "!\n") * 2_000)
    began = time.process_time()
    assert grep(pattern) == f"No line in . matches {pattern if pattern[0] != '(' else chr(34) + pattern + chr(34)}."
    assert time.process_time() - began < 1.0


def test_warnings_and_long_names_are_read_in_linear_time(tmp_path: Path) -> None:
    def work(binaries: int, name: bytes) -> float:
        warnings = b'./%b: binary file matches (found "\\0" byte around offset 2)\n' % name * binaries
        (tmp_path / "printed").write_bytes(warnings + b"./%b\x001:1:0:HIT\n" % name + warnings)
        took = []
        for _ in range(3):
            with (tmp_path / "printed").open("rb") as printed:
                found = GrepFindings(1)
                began = time.process_time()
                assert [line.text for line in lines_of(printed, found, time.monotonic() + 60)] == [b"HIT"]
                took.append(time.process_time() - began)
                assert found.binary == 2 * binaries
        return min(took)

    # Eight times as much; in quadratic time it is 64 times the work. Some kernels count no less than some milliseconds.
    assert work(16_000, b"x" * 40) < 24 * max(work(2_000, b"x" * 40), TICK_S)
    assert work(100, b"x" * 3_200) < 24 * max(work(100, b"x" * 400), TICK_S)


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)), word=st.sampled_from("aé0 ")
)
def test_every_line_with_the_text_is_found(lines: list[str], word: str) -> None:
    Path("x").write_text("".join(line + "\n" for line in lines))
    told = [line for line in grep(word, literal=True, limit=1000).split("\n") if line[:1].isdigit() and ":" in line]
    assert told == [f"{number}:{line}" for number, line in enumerate(lines, 1) if word in line]
