import mmap

from tooldispatchd.forked.python import largepages

PAGES = 8


def test_memory_holds_the_same_once_it_is_gathered() -> None:
    with mmap.mmap(-1, PAGES * largepages.LARGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        for at in range(0, len(memory), mmap.PAGESIZE):
            memory[at : at + 8] = at.to_bytes(8, "little")
        largepages.gather()
        assert all(
            memory[at : at + 8] == at.to_bytes(8, "little") and not any(memory[at + 8 : at + mmap.PAGESIZE])
            for at in range(0, len(memory), mmap.PAGESIZE)
        )


def test_memory_that_is_mostly_untouched_is_left_so() -> None:
    before = sum(end - start for start, end in largepages.regions())
    with mmap.mmap(-1, PAGES * largepages.LARGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory[0] = 1
        # Beside another region it is one with that, and then the whole of both is hardly touched.
        assert sum(end - start for start, end in largepages.regions()) <= before


def test_regions_are_whole_large_pages() -> None:
    with mmap.mmap(-1, PAGES * largepages.LARGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory[:] = b"x" * len(memory)
        found = list(largepages.regions())
    assert sum(end - start for start, end in found) >= (PAGES - 1) * largepages.LARGE_BYTES
    assert all(
        start % largepages.LARGE_BYTES == end % largepages.LARGE_BYTES == 0 < end - start for start, end in found
    )
