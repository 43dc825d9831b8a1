"""Calls of the sample tools, as a daemon makes them."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import trio

from tests.conftest import children, open_descriptors
from tests.unread import settled
from tooldispatchd.calls.outcome import Update
from tooldispatchd.children.endings import Limits
from tooldispatchd.children.family import Family
from tooldispatchd.forked.policy import Policy
from tooldispatchd.providers.python.tool import CallHeader, CallSide, PythonTool, ReturnedValue
from tooldispatchd.providers.python.warm import Warm
from tooldispatchd.wire.faults import Code, Fault

SAMPLES: Final = str(Path(__file__).with_name("samples"))


def sample(name: str, **fields: Any) -> PythonTool:
    """The tool of a sample's function, `function` or `module:function`."""
    function = name if ":" in name else f"sample_tools:{name}"
    fields.setdefault("max_output_bytes", 1 << 20)
    return PythonTool(function=function, interpreter=sys.executable, path=(SAMPLES,), **fields)


def limited(name: str, **policy: Any) -> PythonTool:
    """The same with a policy, whose limits it is said to have."""
    limits = {key: value for key, value in policy.items() if key in Limits.__struct_fields__}
    return sample(name, policy=Policy(**policy), limits=Limits(**limits))


class Runs:
    """A daemon's warm parents."""

    def __init__(self, family: Family, warm: Warm) -> None:
        self.family = family
        self.warm = warm

    async def outcome(
        self,
        tool: PythonTool | str,
        *,
        id: str = "c1",  # noqa: A002  # the word of the protocol
        agent: str | None = "a1",
        deadline_s: float | None = 20.0,
        scratch: str | None = None,
        session: int = 0,
        workspace: str | None = None,
        leaf: str | None = None,
        update: Callable[[Update], None] | None = None,
        **arguments: object,
    ) -> ReturnedValue | Fault:
        """What a call comes to, within a bound."""
        tool = sample(tool) if isinstance(tool, str) else tool
        line = msgspec.json.encode(arguments) + b"\n"
        with trio.fail_after(20):
            call = CallHeader(
                id=id,
                agent=agent,
                session=session,
                left_s=deadline_s,
                scratch=scratch,
                workspace=workspace,
                updates=update is not None,
            )
            result = await self.warm.run(tool, line, call, CallSide(update), leaf=leaf)
            return settled(result, ReturnedValue)

    async def value(self, tool: PythonTool | str, **arguments: Any) -> Any:
        """What the function returns."""
        outcome = await self.outcome(tool, **arguments)
        assert isinstance(outcome, ReturnedValue), outcome
        return outcome.value

    async def fault(self, tool: PythonTool | str, **arguments: Any) -> Fault:
        """The fault of a tool that failed."""
        outcome = await self.outcome(tool, **arguments)
        assert isinstance(outcome, Fault), outcome
        return outcome

    async def failure(self, tool: PythonTool | str, **arguments: Any) -> Fault:
        """The same, of the usual code."""
        fault = await self.fault(tool, **arguments)
        assert fault.code is Code.TOOL_FAILED
        return fault

    async def parent(self) -> int:
        """The pid of the warm parent."""
        pid: int = (await self.value("pids"))[1]
        return pid

    async def settled(self) -> None:
        """Wait until all children are reaped, and the parent alone is left."""
        with trio.fail_after(10):
            while len(self.family) > 1:  # noqa: ASYNC110  # nobody tells it
                await trio.sleep(0.002)


async def until_written(path: Path) -> int:
    """The number of the file's one line, once it is there."""
    with trio.fail_after(10):
        while not (path.exists() and path.read_text().endswith("\n")):  # noqa: ASYNC110  # the file tells nobody
            await trio.sleep(0.002)
    return int(path.read_text())


def held() -> tuple[set[str], set[int]]:
    """This process's descriptors and children."""
    return open_descriptors(), children()
