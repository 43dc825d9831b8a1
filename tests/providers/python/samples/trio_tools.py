"""Functions of a module that uses trio."""

import trio


async def under_trio(wait_s: float) -> str:
    await trio.sleep(wait_s)
    return trio.lowlevel.current_trio_token().__class__.__module__


async def fail_in_a_nursery() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fail)
        nursery.start_soon(trio.sleep, 60)


async def fail() -> None:
    await trio.lowlevel.checkpoint()
    raise MemoryError
