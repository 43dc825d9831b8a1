"""The outbox by itself: order, places, and what a server leaves undone."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
import trio.testing

from tests.providers.mcp.linking import LEGACY, MODERN, SHARE, Speaks
from tooldispatchd.providers.mcp.http import posting
from tooldispatchd.providers.mcp.http.posting import Outbox, Sent
from tooldispatchd.providers.mcp.http.tasks import Tasks
from tooldispatchd.providers.mcp.link import MAX_QUEUED_BYTES


class Server:
    """Takes messages; those named in `stuck` never."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.stuck: set[str] = set()
        self.waiting: set[int] = set()

    async def post(self, sent: Sent) -> None:
        name = str(sent.message.number or sent.message.method)
        self.began.append(name)
        if name in self.stuck:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()


@asynccontextmanager
async def opened(server: Server) -> AsyncIterator[Outbox]:
    async with trio.open_nursery() as nursery:
        tasks = Tasks(nursery)
        box = Outbox(
            tasks,
            SHARE,
            post_request=server.post,
            post_notice=server.post,
            is_waiting=server.waiting.__contains__,
            notice_s=5,
        )
        yield box
        box.drop()
        tasks.cancel()
        await tasks.ended()


def ask(box: Outbox, number: int, dialect: Speaks = LEGACY) -> None:
    box.add(dialect.request(number, "tools/call", {}), dialect)


def tell(box: Outbox, method: str) -> None:
    box.add(LEGACY.notification(method), LEGACY)


async def test_nothing_leaves_before_it_is_flushed() -> None:
    server = Server()
    async with opened(server) as box:
        ask(box, 1)
        tell(box, "a")
        await trio.testing.wait_all_tasks_blocked()
        assert server.began == []
        assert box.flush()
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(server.began) == ["1", "a"]


async def test_a_notification_that_is_stuck_is_passed_over_in_time(autojump_clock: trio.testing.MockClock) -> None:
    server = Server()
    server.stuck = {"a", posting.INITIALIZED}
    async with opened(server) as box:
        for method in ("a", posting.INITIALIZED, "c"):
            tell(box, method)
        ask(box, 1)
        box.flush()
        await box.initialized()
        assert trio.current_time() == 10
        await trio.testing.wait_all_tasks_blocked()
        assert server.began[:2] == ["a", posting.INITIALIZED]
        # A request and a notification have no order between them.
        assert sorted(server.began[2:]) == ["1", "c"]


async def test_what_is_given_up_is_told_by_it_only_where_it_was_not_sent_or_closing_says_it() -> None:
    server = Server()
    server.stuck = {"1", "2"}
    async with opened(server) as box:
        ask(box, 1)
        ask(box, 2, MODERN)
        box.flush()
        ask(box, 3)
        await trio.testing.wait_all_tasks_blocked()
        assert box.give_up(1) is False
        assert box.give_up(2) is True
        assert box.give_up(3) is True
        assert box.give_up(4) is None
        box.flush()
        await trio.testing.wait_all_tasks_blocked()
        assert box.give_up(1) is None
        assert sorted(server.began) == ["1", "2"]


async def test_a_place_whose_request_nobody_waits_for_goes_to_the_next() -> None:
    server = Server()
    numbers = range(1, posting.MAX_AT_ONCE + 1)
    server.stuck = {str(number) for number in numbers}
    server.waiting = set(numbers)
    async with opened(server) as box:
        for number in numbers:
            ask(box, number)
        box.flush()
        ask(box, 999)
        box.flush()
        await trio.testing.wait_all_tasks_blocked()
        assert "999" not in server.began
        server.waiting.remove(5)
        box.flush()
        await trio.testing.wait_all_tasks_blocked()
        assert server.began[-1] == "999"


async def test_bytes_beyond_the_bound_are_told() -> None:
    server = Server()
    server.stuck = {"a"}
    async with opened(server) as box:
        tell(box, "a")
        assert box.flush()
        box.add(LEGACY.notification("b", {"text": "x" * MAX_QUEUED_BYTES}), LEGACY)
        assert not box.flush()
        box.drop()
        assert box.flush()


async def test_what_was_spoken_when_a_message_was_queued_is_what_it_goes_out_with() -> None:
    seen: list[Sent] = []

    async def post(sent: Sent) -> None:
        seen.append(sent)

    async with trio.open_nursery() as nursery:
        box = Outbox(Tasks(nursery), SHARE, post_request=post, post_notice=post, is_waiting=lambda number: True)
        ask(box, 1, MODERN)
        ask(box, 2, LEGACY)
        box.add(LEGACY.request(3, "initialize", {}), None)
        box.flush()
    assert {sent.message.number: (sent.revision, sent.is_modern, sent.headers) for sent in seen} == {
        1: ("2026-07-28", True, [("MCP-Protocol-Version", "2026-07-28")]),
        2: ("2025-11-25", False, [("MCP-Protocol-Version", "2025-11-25")]),
        3: ("", False, []),
    }


async def test_of_what_is_dropped_only_cancellations_are_said_in_the_end() -> None:
    server = Server()
    async with opened(server) as box:
        tell(box, "a")
        ask(box, 1)
        for _ in range(posting.MAX_LAST + 5):
            tell(box, posting.CANCELLED)
        box.drop()
        tell(box, posting.CANCELLED)
        box.flush()
        await box.say_last()
        assert server.began == [posting.CANCELLED] * posting.MAX_LAST


class Watched(set[int]):
    """A set that counts how often it is asked."""

    asked = 0

    def __contains__(self, number: object) -> bool:
        self.asked += 1
        return super().__contains__(number)


async def test_to_give_up_many_while_others_wait_is_no_search_through_all_for_each() -> None:
    server = Server()
    numbers = range(1, posting.MAX_AT_ONCE + 51)
    server.stuck = {str(number) for number in numbers}
    server.waiting = Watched(numbers)
    async with opened(server) as box:
        for number in numbers:
            ask(box, number)
        box.flush()
        await trio.testing.wait_all_tasks_blocked()
        server.waiting.asked = 0
        for number in range(1, posting.MAX_AT_ONCE + 1):
            server.waiting.remove(number)
            box.give_up(number)
            box.flush()
        assert server.waiting.asked < 60 * posting.MAX_AT_ONCE
        await trio.testing.wait_all_tasks_blocked()
        assert len(server.began) == len(numbers)
