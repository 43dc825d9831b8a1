import pytest

from tooldispatchd.catalog.sizes import SizeError, size_of
from tooldispatchd.catalog.speckinds import TIB, Size


@pytest.mark.parametrize(
    ("written", "means"),
    [
        (4096, 4096),
        ("4096", 4096),
        ("1K", 1024),
        ("512M", 512 * 1024 * 1024),
        ("1 GiB", 1024**3),
        ("2GB", 2 * 1024**3),
        ("1T", TIB),
    ],
)
def test_a_size_is_a_number_of_bytes_with_or_without_a_binary_unit(written: Size, means: int) -> None:
    assert size_of(written) == means


@pytest.mark.parametrize("written", ["", "M", "1.5G", "1 gigabyte", "-1", "1KK", "٣", "1M ", "9999999999999999"])
def test_other_text_is_no_size(written: str) -> None:
    with pytest.raises(SizeError, match="not a size"):
        size_of(written)


@pytest.mark.parametrize("written", [0, -1, "0", TIB + 1, "2T"])
def test_a_size_has_bounds(written: Size) -> None:
    with pytest.raises(SizeError, match="out of range: at least 1 bytes"):
        size_of(written)


def test_the_least_is_the_callers() -> None:
    assert size_of(0, least=0) == 0
    with pytest.raises(SizeError, match="at least 1024 bytes"):
        size_of("1000", least=1024)
