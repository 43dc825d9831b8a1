from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.toolbox.difference import NO_NEWLINE, lines_of, shown, unified

TEXTS = st.text(alphabet="ab \n\r\u2028", max_size=60)


@given(TEXTS)
def test_lines_with_their_ends_are_the_text(text: str) -> None:
    assert "".join(lines_of(text)) == text


def test_a_change_far_down_has_its_own_line_numbers() -> None:
    old = "".join(f"{number}\n" for number in range(100_000))
    new = old.replace("90000\n", "x\n")
    assert "".join(unified(lines_of(old), lines_of(new), "f")).splitlines()[2:] == [
        "@@ -89998,7 +89998,7 @@",
        " 89997",
        " 89998",
        " 89999",
        "-90000",
        "+x",
        " 90001",
        " 90002",
        " 90003",
    ]


def test_a_last_line_without_its_end_is_told() -> None:
    assert "".join(unified(["a"], ["a\n"], "f")) == f"--- f\n+++ f\n@@ -1 +1 @@\n-a\n{NO_NEWLINE}+a\n"


def test_a_long_diff_is_cut_and_the_rest_counted() -> None:
    said = shown("", "x\n" * 500, "f").splitlines()
    assert len(said) == 201
    assert said[-1] == "… 303 more lines of the diff left out …"


def test_changes_all_over_a_large_text_are_not_compared() -> None:
    old = "".join(f"{number}\n" for number in range(6_000))
    assert shown(old, old.replace("0", "x"), "f").startswith("(the changes reach from line 1 to 5,991:")


def test_equal_texts_have_no_difference() -> None:
    assert shown("a\n", "a\n", "f") == ""


def test_a_long_line_of_a_diff_is_cut() -> None:
    assert len(shown("a" * 15_000_000, "b" * 15_000_000, "f")) < 2_000
