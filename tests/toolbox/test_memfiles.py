import os

import pytest

from tooldispatchd.toolbox.memfiles import content_of, memfile


def test_it_is_read_from_its_beginning_and_closed_behind() -> None:
    with memfile(b"x" * 100_000, lowest=200) as fd:
        assert fd >= 200
        assert os.read(fd, 5) == b"xxxxx"
        assert content_of(fd, 100_000) == b"x" * 100_000
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_what_is_too_large_is_not_read() -> None:
    with memfile(b"x" * 101) as fd:
        assert content_of(fd, 100) == b""
