"""The trio client: `TOOLDISPATCHD_SOCKET=PATH python3 with_trio.py`."""
# ruff: noqa: T201  # what an agent does with an answer, an example prints

import trio

from tooldispatchd.client import FaultError
from tooldispatchd.client.concurrent import Agent, connect


async def work(agent: Agent) -> None:
    """One agent's life on the channel that it shares with the others."""
    await agent.hello("default")
    print(agent.name, (await agent.call("greet", {"name": agent.name})).content)
    with trio.move_on_after(5):  # a call whose task is cancelled is cancelled in the daemon
        try:
            await agent.call("greet", {"nom": agent.name})
        except FaultError as fault:
            print(agent.name, fault.code, fault.retryable)
    await agent.bye()


async def main() -> None:
    """Three agents, one channel, all at once."""
    async with connect() as client, trio.open_nursery() as nursery:
        for name in ("Ada", "Grace", "Edsger"):
            nursery.start_soon(work, client.agent(name))


trio.run(main)
