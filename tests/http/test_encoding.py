import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tooldispatchd.http.errors import WireError
from tooldispatchd.http.reply import STEP_BYTES, decoder


def undone(coding: str, *chunks: bytes) -> bytes:
    found = decoder(coding)
    assert found is not None
    result = b"".join(piece for chunk in chunks for piece in found.decode(chunk))
    found.finish()
    return result


def raw_deflate(content: bytes) -> bytes:
    return zlib.compress(content, wbits=-zlib.MAX_WBITS)


@pytest.mark.parametrize("coding", ["", "identity", " Identity "])
def test_nothing_is_undone_where_nothing_was_done(coding: str) -> None:
    assert decoder(coding) is None


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "gzip, identity"])
def test_another_coding_is_refused_by_name(coding: str) -> None:
    with pytest.raises(WireError, match=coding):
        decoder(coding)


@given(content=st.binary(max_size=200_000), cut=st.integers(0, 5000))
def test_each_coding_is_undone_wherever_it_is_cut(content: bytes, cut: int) -> None:
    for coding, made in (
        ("gzip", gzip.compress(content)),
        ("X-GZIP", gzip.compress(content)),
        ("deflate", zlib.compress(content)),
        ("deflate", raw_deflate(content)),
    ):
        assert undone(coding, made[:cut], made[cut:]) == content


def test_members_of_a_gzip_body_follow_one_another() -> None:
    made = gzip.compress(b"one") + gzip.compress(b"two")
    assert undone("gzip", made) == b"onetwo"
    assert undone("gzip", *(made[n : n + 1] for n in range(len(made)))) == b"onetwo"


def test_a_compressed_body_that_is_cut_short_is_refused() -> None:
    with pytest.raises(WireError, match="cut short"):
        undone("gzip", gzip.compress(b"x" * 1000)[:-4])


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_what_is_not_compressed_is_refused(coding: str) -> None:
    with pytest.raises(WireError, match="cannot read the answer"):
        undone(coding, b'{"jsonrpc": "2.0"}')


def test_an_empty_body_of_any_coding_is_empty() -> None:
    assert undone("gzip") == b""


def test_a_bomb_comes_in_steps_that_are_small() -> None:
    bomb = gzip.compress(bytes(100 * 1024 * 1024), compresslevel=9)
    found = decoder("gzip")
    assert found is not None
    tracemalloc.start()
    largest = max(len(piece) for piece, _ in zip(found.decode(bomb), range(200), strict=False))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert largest <= STEP_BYTES
    # The input that is still to come is held twice for a moment.
    assert peak < 4 * len(bomb) + 8 * STEP_BYTES
