"""What waits for a peer leaves in the order in which it came, whatever pieces it came in."""

from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.wire.backlog import JOINED_BYTES, Backlog

PIECES = st.lists(st.sampled_from([b"a", b"bc" * 10, b"d" * JOINED_BYTES, b"e" * (JOINED_BYTES + 1)]), max_size=8)


@given(PIECES, st.integers(1, 3 * JOINED_BYTES))
def test_all_bytes_leave_once_and_in_order(pieces: list[bytes], step: int) -> None:
    backlog = Backlog(b"first")
    for piece in pieces:
        backlog.add(bytearray(piece))
    whole = b"first" + b"".join(pieces)
    assert len(backlog) == len(whole)
    left = bytearray()
    while backlog:
        taken = bytes(backlog.first()[:step])
        left += taken
        backlog.drop(len(taken))
    assert left == whole


def test_what_was_taken_before_is_not_kept() -> None:
    for size in (10, 2 * JOINED_BYTES):
        backlog = Backlog(b"x" * size + b"rest", size)
        assert bytes(backlog.first()) == b"rest"
        assert len(backlog) == 4


def test_a_large_piece_is_not_copied() -> None:
    large = bytearray(2 * JOINED_BYTES)
    backlog = Backlog(b"first")
    backlog.add(large)
    backlog.drop(5)
    assert backlog.first().obj is large


def test_a_piece_that_has_left_is_given_back() -> None:
    piece = bytearray(2 * JOINED_BYTES)
    backlog = Backlog(piece)
    assert backlog.drop(1) is None
    assert backlog.drop(len(piece) - 1) is piece
    backlog.add(piece)
    backlog.add(b"x")
    assert [len(each) for each in backlog.take_all()] == [len(piece), 1]
    assert len(backlog) == 0
