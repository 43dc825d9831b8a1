import os
import resource
import threading

import pytest

from tooldispatchd.forked.policy import Policy
from tooldispatchd.forked.python.warm import Load, allow_cpu, enter_given, free_descriptor, threads


def test_a_load_is_read_as_it_was_written() -> None:
    load = Load(("a:b", "c:d"), (Policy(cpu_s=1).to_json(),), ("/lib/ä",))
    assert Load.from_json(load.to_json()) == load


def test_threads_are_counted() -> None:
    before, stop = threads(), threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    during = threads()
    stop.set()
    thread.join()
    assert during == before + 1


def test_the_free_descriptor_is_free() -> None:
    number = free_descriptor()
    assert number >= 100
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


def test_a_free_descriptor_is_found_where_few_are_allowed() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (90, before[1]))
        assert 45 <= free_descriptor() < 90
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_without_a_scratch_directory_nothing_changes() -> None:
    before = dict(os.environ)
    enter_given(None)
    assert dict(os.environ) == before


def test_processor_time_is_allowed_on_top_of_what_was_used() -> None:
    before = resource.getrlimit(resource.RLIMIT_CPU)
    try:
        allow_cpu(100)
        assert resource.getrlimit(resource.RLIMIT_CPU)[0] > 100
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, before)
