import trio
from trio.testing import wait_all_tasks_blocked

from tooldispatchd.mcpface.web.budget import ByteBudget
from tooldispatchd.mcpface.web.feeds import KEPT_BYTES, KEPT_MESSAGES, MessageFeed


async def test_a_reader_gets_what_comes_and_the_end() -> None:
    feed = MessageFeed(1)
    reader = feed.attach()
    heard: list[list[tuple[int, bytes]]] = []

    async def read() -> None:
        while messages := await feed.take(reader, heard[-1][-1][0] if heard else 0):
            heard.append(messages)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await wait_all_tasks_blocked()
        feed.put(b"a")
        await wait_all_tasks_blocked()
        feed.put(b"b")
        feed.close()
    assert heard == [[(1, b"a")], [(2, b"b")]]


async def test_the_latest_reader_is_the_only_one() -> None:
    feed = MessageFeed(1)
    first = feed.attach()
    feed.put(b"a")
    second = feed.attach()
    assert await feed.take(first, 0) == []
    assert await feed.take(second, 0) == [(1, b"a")]


async def test_what_was_read_can_be_read_again_for_a_while() -> None:
    feed = MessageFeed(1)
    reader = feed.attach()
    for number in range(KEPT_MESSAGES + 10):
        feed.put(b"%d" % number)
    feed.taken(KEPT_MESSAGES + 10)
    kept = await feed.take(reader, 0)
    assert len(kept) == KEPT_MESSAGES
    assert kept[-1] == (KEPT_MESSAGES + 10, b"%d" % (KEPT_MESSAGES + 9))


async def test_what_a_reader_has_still_to_take_is_kept_whatever_its_size() -> None:
    feed = MessageFeed(1)
    reader = feed.attach()
    feed.put(b"x" * KEPT_BYTES)
    feed.put(b"y" * KEPT_BYTES)
    assert [len(message) for _, message in await feed.take(reader, 0)] == [KEPT_BYTES, KEPT_BYTES]
    assert feed.unread == feed.held == 2 * KEPT_BYTES
    feed.taken(2)
    assert feed.unread == 0
    assert feed.held == KEPT_BYTES


async def test_without_a_reader_there_is_a_bounded_history_and_the_answer() -> None:
    feed = MessageFeed(1)
    for _ in range(1000):
        feed.put(b"x" * 1000)
    assert feed.held <= KEPT_BYTES
    feed.close()
    feed.put(b"y" * 2 * KEPT_BYTES)
    assert [message[:1] for _, message in await feed.take(feed.attach(), 0)] == [b"y"]


def test_one_owner_has_a_third_of_the_account() -> None:
    budget = ByteBudget(300)
    budget.change("a", 100)
    assert budget.is_full("a")
    assert not budget.is_full("b")
    budget.change("b", 100)
    budget.change("c", 100)
    assert budget.is_full("d")
    budget.change("a", -100)
    assert not budget.is_full("a")
