"""What the plans of tools share."""

import trio
from trio.testing import wait_all_tasks_blocked

from tests.agent.fakes import PATIENCE_S, Agent, BusyCheckers, HeldPlan, open_runtime, small_catalog
from tooldispatchd.agent.calls.plans import shaped
from tooldispatchd.calls.outcome import Unread, UnreadableError
from tooldispatchd.catalog.outputs import Output
from tooldispatchd.catalog.schemas import ACCEPT
from tooldispatchd.wire.faults import Code, Fault


def unreadable(error: UnreadableError) -> Fault:
    return Fault(Code.TOOL_FAILED, str(error))


async def test_what_a_program_wrote_is_let_go_of_where_its_call_is_cancelled_while_it_is_checked() -> None:
    held, written, let_go = HeldPlan(), bytearray(2 * 1024 * 1024), list[object]()
    async with open_runtime(small_catalog(), held, patience_s=PATIENCE_S, checkers=BusyCheckers()) as runtime:
        runtime.state.memory.let_go = let_go.append
        agent = Agent(runtime)
        await agent.call("1", "held", input=None)
        await wait_all_tasks_blocked()
        async with trio.open_nursery() as nursery:
            result = Unread(written, Output.JSON, len(written), unreadable)
            nursery.start_soon(shaped, runtime, held.running["1"], result, ACCEPT)
            await wait_all_tasks_blocked()
            assert let_go == []
            nursery.cancel_scope.cancel()
        assert len(let_go) == 1
        assert let_go[0] is written
        held.finish("1")
        await agent.end_input()
