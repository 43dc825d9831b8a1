"""Flows for a token: one at a time for all tasks that wait for it, and to their end where a token is under way."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import trio

from tooldispatchd.http.errors import WireError
from tooldispatchd.http.oauth.refusals import AuthorizationError

# All requests of a flow together; the consent of a person has a bound of its own.
FLOW_S: Final = 30.0
# The time that is left to a token request under way when nobody waits for it any more.
FINISH_S: Final = 2.0
# A token that is refused so soon after it was given will be refused again: another flow would only cost.
FRESH_S: Final = 5.0

_Result = TypeVar("_Result")


class SharedFlow:
    """One flow at a time; who waits for it shares its failure too, or each would try in turn."""

    def __init__(self) -> None:
        self._lock = trio.Lock()
        self._ended = 0
        self._failure: AuthorizationError | None = None

    async def run(self, is_needed: Callable[[], bool], flow: Callable[[], Awaitable[None]]) -> None:
        """Run `flow` where it `is_needed` once those before it are over. Raises `AuthorizationError`."""
        before = self._ended
        async with self._lock:
            if self._ended != before and self._failure is not None:
                raise self._failure.again()
            if not is_needed():
                return
            self._failure = None
            try:
                await flow()
            except AuthorizationError as error:
                # One request may want more scopes than were granted: that is no failure of the others.
                self._failure = None if error.extras.get("http_status") == 403 else error.again()
                raise
            finally:
                self._ended += 1


async def carry_through(
    steps: Callable[[], Awaitable[_Result]], limit_s: float, is_at_token: Callable[[], bool]
) -> _Result:
    """Take the steps of a flow in a task that outlives a cancelled caller for as long as a token is under way.

    The server may replace a refresh token when it is used (RFC 6749, 6): to drop its answer would lose the login.
    Raises `AuthorizationError`.
    """
    ended = trio.Event()
    scope = trio.CancelScope(shield=True, deadline=trio.current_time() + limit_s)
    came: list[_Result | AuthorizationError] = []

    async def run() -> None:
        with scope:
            try:
                came.append(await steps())
            except AuthorizationError as error:
                came.append(error)
            except WireError as error:
                came.append(AuthorizationError(f"cannot get a token: {error.why}"))
        ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        try:
            await ended.wait()
        finally:
            # Cancelled, or interrupted at the terminal.
            if not ended.is_set():
                scope.deadline = min(scope.deadline, trio.current_time() + (FINISH_S if is_at_token() else 0.0))
    if not came:
        raise AuthorizationError(f"cannot get a token: it took longer than {limit_s:.0f} s")
    [result] = came
    if isinstance(result, AuthorizationError):
        raise result
    return result
