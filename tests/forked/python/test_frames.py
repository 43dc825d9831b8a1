import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.forked.python.frames import MAX_WORDS_BYTES, FrameError, FrameKind, FrameReader, frame

FRAMES = st.lists(st.tuples(st.sampled_from(FrameKind), st.binary(max_size=40)), max_size=6)


@given(FRAMES, st.lists(st.integers(0, 300), max_size=8))
def test_frames_come_out_as_they_went_in_however_they_are_cut(
    frames: list[tuple[FrameKind, bytes]], cuts: list[int]
) -> None:
    stream = b"".join(frame(kind, payload) for kind, payload in frames)
    reader = FrameReader(40)
    found = []
    ends = [*sorted(cuts), len(stream)]
    for start, end in zip([0, *ends], ends, strict=False):
        reader.add(stream[start:end])
        while (one := reader.next()) is not None:
            found.append(one)
    assert found == frames
    assert reader.is_between


@given(st.binary(max_size=64))
def test_any_bytes_are_frames_or_an_error(chunk: bytes) -> None:
    reader = FrameReader(16)
    reader.add(chunk)
    try:
        while reader.next() is not None:
            pass
    except FrameError:
        assert chunk


def test_a_frame_that_is_too_long_is_known_by_its_beginning() -> None:
    reader = FrameReader(10)
    reader.add(frame(FrameKind.VALUE, b"x" * 11)[:9])
    with pytest.raises(FrameError, match="a frame of 11 bytes is over 10") as caught:
        reader.next()
    assert caught.value.kind is FrameKind.VALUE


def test_what_begins_no_frame_is_known_by_its_beginning() -> None:
    reader = FrameReader(10)
    reader.add(b'{"a": 123}')
    with pytest.raises(FrameError, match="no frame begins with 123"):
        reader.next()


def test_a_frame_that_is_cut_off_is_none() -> None:
    reader = FrameReader(10)
    reader.add(frame(FrameKind.VALUE, b"12")[:-1])
    assert reader.next() is None
    assert not reader.is_between


@pytest.mark.parametrize("kind", [FrameKind.UPDATE, FrameKind.LEAVING, FrameKind.ERROR])
def test_words_are_bounded_however_large_an_answer_may_be(kind: FrameKind) -> None:
    reader = FrameReader(1 << 30)
    reader.add(frame(kind, bytes(MAX_WORDS_BYTES)))
    assert reader.next() == (kind, bytes(MAX_WORDS_BYTES))
    reader.add(frame(kind, bytes(MAX_WORDS_BYTES + 1))[:9])
    with pytest.raises(FrameError, match="is over 65536"):
        reader.next()
