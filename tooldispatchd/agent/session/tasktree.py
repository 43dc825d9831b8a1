"""The tasks of one session, in a nursery of their own, and the two guards around them.

    home ── tree ─┬─ owner of each connection
                  └─ each call that needs a task

A session that needs no task has no tree. Leaving the nursery means that nothing of the session is left: no task, no
descriptor, no child.
"""

from collections.abc import Awaitable, Callable

import trio

from tooldispatchd.agent.log import Log

Task = Callable[[], Awaitable[None]]


class TaskTree:
    """A nursery that opens with its first task and closes after `end`.

    `closing` is called inside of it when the end begins, `ended` when nothing is left, or a defect has ended all.
    """

    __slots__ = ("_closing", "_ended", "_is_over", "_kept", "_log", "_nursery", "_tasks", "_teardown")

    def __init__(self, home: trio.Nursery, log: Log, *, closing: Callable[[], None], ended: Callable[[], None]) -> None:
        self._log = log
        self._closing = closing
        self._ended = ended
        # The session is served synchronously and cannot wait for the nursery: what is started meanwhile lies here,
        # bounded by its calls in flight and its servers.
        self._tasks: list[Task] = []
        self._kept: list[Callable[[], None]] = []
        self._nursery: trio.Nursery | None = None
        self._teardown = trio.Event()
        self._is_over = False
        home.start_soon(self._live)

    def start_soon(self, task: Task) -> None:
        """Run `task`; raises `RuntimeError` once the tree is over."""
        if self._is_over:
            raise RuntimeError("a session that is over starts no tasks")
        if self._nursery is not None:
            self._nursery.start_soon(task)
        else:
            self._tasks.append(task)

    def own(self, run: Task, close: Callable[[], None]) -> None:
        """Run a connection's owner task, under its guard."""

        async def guarded() -> None:
            try:
                await run()
            except Exception as error:  # noqa: BLE001  # guard: a defect in one connection ends only that connection
                self._log.incident("connection failed", error)
                close()

        self.start_soon(guarded)

    def keep(self, run: Task, close: Callable[[], None]) -> None:
        """Run, as a connection's owner, what is to end with the session: `close` is called when the end begins."""
        self._kept.append(close)
        self.own(run, close)

    def end(self) -> None:
        """Begin the teardown. Idempotent."""
        self._teardown.set()

    async def _live(self) -> None:
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                # No name may go on to hold the last of them, and its call with all that came in: this waits for long.
                while self._tasks:
                    nursery.start_soon(self._tasks.pop(0))
                await self._teardown.wait()
                # Each connection has its own bounded ladder; a cancelled scope would only cut it short.
                self._closing()
                for close in self._kept:
                    close()
        except Exception as error:  # noqa: BLE001  # guard: a defect in one session ends only that session
            self._log.incident("session failed", error)
        finally:
            self._is_over = True
            self._nursery = None
            ended = self._ended
            # They mostly hold what holds this.
            del self._closing, self._ended
            try:
                ended()
            except Exception as error:  # noqa: BLE001  # the same guard, for what is told of the end
                self._log.incident("session's end failed", error)
