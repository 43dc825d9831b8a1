"""Asynchronous functions of a module that uses asyncio."""

import asyncio


async def under_asyncio(wait_s: float) -> str:
    await asyncio.sleep(wait_s)
    return type(asyncio.get_running_loop()).__name__


async def fail_under_asyncio() -> None:
    await asyncio.sleep(0)
    raise KeyError("lost")
