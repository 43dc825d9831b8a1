from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.toolbox.excerpt import Excerpt, listed


def excerpt(*chunks: bytes, end_bytes: int) -> str:
    one = Excerpt(end_bytes)
    for chunk in chunks:
        one.add(chunk)
    return one.text()


def test_an_output_that_fits_is_whole() -> None:
    assert excerpt(b"01", b"234567", end_bytes=4) == "01234567"


@pytest.mark.parametrize("chunks", [[b"0123456789"], [b"0", b"12345678", b"9"], [b"012", b"3456", b"789"]])
def test_of_a_longer_one_both_ends_are_kept(chunks: list[bytes]) -> None:
    assert excerpt(*chunks, end_bytes=4) == "0123\n… 2 bytes left out …\n6789"


def test_lines_that_are_left_out_are_counted() -> None:
    assert excerpt(b"1\n2\n3\n4\n5\n", end_bytes=4) == "1\n2\n\n… 1 line left out …\n4\n5\n"


def test_what_is_left_out_has_separators_of_thousands() -> None:
    assert "… 12,345 lines left out …" in excerpt(b"a\n" * 2 + b"\n" * 12_345 + b"a\n" * 2, end_bytes=4)


def test_no_character_is_cut() -> None:
    assert excerpt("é€€€é".encode(), end_bytes=4) == "é\n… 5 bytes left out …\né"


def test_what_is_no_utf8_or_null_is_replaced_and_escapes_stay() -> None:
    assert excerpt(b"\xffa\0\x1b[1m", end_bytes=16) == "\ufffda\ufffd\x1b[1m"


@given(
    text=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), cuts=st.lists(st.integers(0, 99))
)
def test_however_it_comes_in_pieces_the_ends_are_those_of_the_output(text: str, cuts: list[int]) -> None:
    raw = text.encode()
    places = sorted({min(cut, len(raw)) for cut in cuts} | {0, len(raw)})
    chunks = [raw[start:end] for start, end in pairwise(places)]
    shown = excerpt(*chunks, end_bytes=12)
    if len(raw) <= 24:
        assert shown == text
        return
    head, tail = raw[:12].decode(errors="ignore"), raw[-12:].decode(errors="ignore")
    assert text.startswith(head)
    assert text.endswith(tail)
    assert shown.startswith(f"{head}\n… ")
    assert shown.endswith(f" left out …\n{tail}")


@given(raw=st.binary(max_size=60), cuts=st.lists(st.integers(0, 60)))
def test_bytes_that_are_no_text_are_told_alike_in_any_pieces(raw: bytes, cuts: list[int]) -> None:
    places = sorted({min(cut, len(raw)) for cut in cuts} | {0, len(raw)})
    chunks = [raw[start:end] for start, end in pairwise(places)]
    assert excerpt(*chunks, end_bytes=12) == excerpt(raw, end_bytes=12)


def test_few_names_are_listed_and_many_counted() -> None:
    assert listed(["a", "b"]) == "a, b"
    assert listed(["x" * 101]) == "x" * 100 + "…"
    assert listed(["x"] * 23) == ", ".join(["x"] * 20) + " and 3 more"
