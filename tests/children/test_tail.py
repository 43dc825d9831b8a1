from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.children.tail import Tail


def test_everything_is_kept_while_it_fits() -> None:
    tail = Tail(8)
    tail.add(b"abc")
    tail.add(b"defgh")
    assert tail.text() == "abcdefgh"


def test_the_front_falls_off() -> None:
    tail = Tail(4)
    tail.add(b"abc")
    tail.add(b"def")
    assert tail.text() == "cdef"
    assert tail.total == 6


def test_a_chunk_larger_than_the_ring_leaves_its_end() -> None:
    tail = Tail(4)
    tail.add(b"x" * 1000 + b"end!")
    assert tail.text() == "end!"


def test_a_character_cut_at_the_front_is_left_out() -> None:
    tail = Tail(4)
    tail.add("€uro".encode())
    assert tail.text() == "uro"


def test_a_character_of_which_only_the_beginning_came_is_left_out() -> None:
    tail = Tail()
    tail.add("10 €".encode()[:-1])
    assert tail.text() == "10 "
    tail.add("€".encode()[-1:])
    assert tail.text() == "10 €"


def test_bytes_that_are_not_utf8_are_replaced() -> None:
    tail = Tail()
    tail.add(b"\x80ok\xff")
    assert tail.text() == "\ufffdok\ufffd"


@given(st.lists(st.binary(max_size=20)), st.integers(1, 30))
def test_any_chunks_leave_the_last_bytes(chunks: list[bytes], size: int) -> None:
    tail = Tail(size)
    for chunk in chunks:
        tail.add(chunk)
    whole = b"".join(chunks)
    assert tail.total == len(whole)
    kept = whole[-size:].decode(errors="replace")
    # The beginning of a character at the end is left out.
    assert kept.endswith(tail.text()) or kept.removesuffix("\ufffd").endswith(tail.text())


@given(st.text(), st.integers(1, 30), st.integers(0, 3))
def test_text_is_never_cut_within_a_character(text: str, size: int, missing: int) -> None:
    tail = Tail(size)
    chunk = text.encode()
    whole = chunk[: len(chunk) - missing].decode(errors="ignore")
    tail.add(chunk[: max(0, len(chunk) - missing)])
    assert whole.endswith(tail.text())
