import re
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.forked.python.test_context import context
from tests.toolbox.pdfs import encrypted, pdf
from tooldispatchd.forked.python.context import InvalidInputError, ToolFailedError
from tooldispatchd.toolbox.pdf import pages_of

THREE = pdf("The first page", "", "The third page")


def pages(data: bytes, *, offset: int = 1, limit: int = 2_000, max_bytes: int = 65_536) -> str:
    return pages_of(context(), "x.pdf", BytesIO(data), offset=offset, limit=limit, max_bytes=max_bytes)


def test_pages_have_their_numbers_above_their_text() -> None:
    assert pages(THREE).splitlines() == [
        "[pages 1-3 of 3]",
        "--- page 1 ---",
        "The first page",
        "--- page 2 ---",
        "(no text: it may be a picture)",
        "--- page 3 ---",
        "The third page",
    ]


def test_a_window_of_pages_says_how_to_go_on() -> None:
    assert pages(THREE, offset=1, limit=1).splitlines()[0] == "[pages 1-1 of 3; go on with offset=2]"
    assert pages(THREE, offset=3, limit=1).splitlines()[0] == "[pages 3-3 of 3]"


def test_at_most_twenty_pages_are_read_at_once() -> None:
    assert pages(pdf(*["a"] * 25)).splitlines()[0] == "[pages 1-20 of 25; go on with offset=21]"


def test_pages_that_would_be_too_much_wait_for_the_next_call() -> None:
    assert pages(pdf("a" * 60, "b" * 60, "c"), max_bytes=100).splitlines()[0] == "[pages 1-1 of 3; go on with offset=2]"


def test_a_page_that_is_too_long_is_cut_and_says_so() -> None:
    assert pages(pdf("a" * 1_150), max_bytes=100).endswith(f"{'a' * 100}… 1,050 characters left out …")


def test_a_page_behind_the_last_is_told_with_how_many_there_are() -> None:
    with pytest.raises(InvalidInputError, match=r"^x\.pdf has 3 pages$") as told:
        pages(THREE, offset=4)
    assert told.value.field == "offset"


def test_an_encrypted_pdf_is_told_as_one() -> None:
    with pytest.raises(ToolFailedError, match=r"^cannot read x\.pdf: it is a PDF that is encrypted$"):
        pages(encrypted(THREE, "secret"))


def test_a_pdf_that_needs_no_password_to_be_read_is_read() -> None:
    assert "The first page" in pages(encrypted(THREE, ""))


@pytest.mark.parametrize(
    "data",
    [
        b"%PDF-1.7\n",
        b"%PDF-1.7\n" + b"x" * 5_000,
        THREE[:200],
        THREE[:9] + THREE[300:],
        THREE.replace(b"/Length", b"/Filter /Fl /Length"),
    ],
)
def test_a_broken_pdf_is_told_as_one(data: bytes) -> None:
    with pytest.raises(
        ToolFailedError, match=r"^cannot read x\.pdf: it is a PDF that is broken, or of an unknown form$"
    ):
        pages(data)


@pytest.mark.filterwarnings("ignore")
@given(st.lists(st.tuples(st.integers(9, len(THREE) - 1), st.binary(max_size=4)), max_size=4))
def test_whatever_is_broken_in_a_pdf_it_is_read_or_refused(changes: list[tuple[int, bytes]]) -> None:
    data = bytearray(THREE)
    for at, part in changes:
        data[at : at + len(part)] = part
    try:
        told = pages(bytes(data))
    except (ToolFailedError, InvalidInputError) as error:
        told = str(error)
    assert re.match(r"\[pages 1-|cannot read x\.pdf: |x\.pdf has 0 pages$", told)
