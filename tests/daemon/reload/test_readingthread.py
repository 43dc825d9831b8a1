import threading

import pytest
import trio

from tooldispatchd.daemon.reload.readingthread import EndlessReadingError, ReadingThread


async def test_a_reading_that_does_not_end_is_given_up_and_there_is_no_other_until_it_has_ended() -> None:
    answers, dropped = threading.Event(), list[int]()

    def read() -> int:
        answers.wait()
        return 1

    thread = ReadingThread(read, dropped.append, within_s=0.05)
    with pytest.raises(EndlessReadingError, match=r"not read within 0\.05 s"):
        await thread.make()
    with pytest.raises(EndlessReadingError, match="the reading before has not ended"):
        await thread.make()
    answers.set()
    with trio.fail_after(5):
        while not dropped:
            await trio.sleep(0.001)
    assert await thread.make() == 1
    assert dropped == [1]
