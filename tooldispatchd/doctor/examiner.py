"""An examiner looks at one thing, and has a limit: what does not answer by then is wrong."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec
import trio

from tooldispatchd.doctor.diagnosis import Diagnosis

# A hung file system, a name server that is silent: what takes longer is wrong, and told so.
EXAMINE_S: Final = 15.0


class Examiner(msgspec.Struct, frozen=True):
    """One thing to look at, the way to do it, and its limit."""

    part: str
    name: str
    run: Callable[[], Awaitable[Sequence[Diagnosis]]]
    limit_s: float = EXAMINE_S


def aside(examine: Callable[[], Diagnosis]) -> Callable[[], Awaitable[Sequence[Diagnosis]]]:
    """Examine in a thread, which is left alone where it hangs: in a file system, as a rule."""

    async def run() -> Sequence[Diagnosis]:
        return [await trio.to_thread.run_sync(examine, abandon_on_cancel=True)]

    return run
