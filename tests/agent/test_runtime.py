"""Places that tasks wait for."""

import trio
import trio.testing

from tooldispatchd.agent.runtime import FairLimiter


async def test_owners_are_let_in_by_turns(autojump_clock: trio.testing.MockClock) -> None:
    places = FairLimiter(1)
    order: list[str] = []

    async def stay(owner: str) -> None:
        async with places.of((owner, None)):
            order.append(owner)
            await trio.sleep(1)

    async with trio.open_nursery() as nursery:
        for owner in ("flooder", "flooder", "flooder", "flooder", "other"):
            nursery.start_soon(stay, owner)
            await trio.testing.wait_all_tasks_blocked()
    assert order == ["flooder", "other", "flooder", "flooder", "flooder"]


async def test_who_is_cancelled_takes_no_place(autojump_clock: trio.testing.MockClock) -> None:
    places = FairLimiter(1)
    async with places.of(("first", None)):
        with trio.move_on_after(1) as waited:
            async with places.of(("second", None)):
                raise AssertionError("there is no place")
        assert waited.cancelled_caught
    with trio.fail_after(1):
        async with places.of(("third", None)):
            pass


async def test_who_is_let_in_and_cancelled_at_once_gives_the_place_back() -> None:
    places = FairLimiter(1)
    scope = trio.CancelScope()

    async def wait() -> None:
        with scope:
            async with places.of(("second", None)):
                await trio.sleep_forever()

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            async with places.of(("first", None)):
                nursery.start_soon(wait)
                await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
        async with places.of(("third", None)):
            pass
