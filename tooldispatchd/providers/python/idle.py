"""Workers that wait for a call, and which of them are ended meanwhile.

    answered ──▶ waits ──▶ the next call with its key
                   └── too many, too long, its session or its parent is gone ──▶ ended

The rule: a worker that keeps anything of a session is taken for calls of that session alone, and never outlives it.
"""

from collections.abc import Awaitable, Callable, Container, Iterable
from typing import Final, NamedTuple

import trio

from tooldispatchd.forked.policy import Policy
from tooldispatchd.providers.python.peer import WorkerPipes
from tooldispatchd.providers.python.tool import PythonTool, WarmKey

# How long a worker may wait for a call: a thousand times what forking it took, and more. Of those that serve all
# sessions the last one stays; there are never more of them than have run at once, which the places for processes bound.
SPARE_S: Final = 60.0

# Of one session under one policy: an agent that calls more at once has forks for these.
MAX_OF_SESSION: Final = 2
# Of all sessions together: what each has written to since it was forked is a few megabytes.
MAX_OF_SESSIONS: Final = 64


class WorkerKey(NamedTuple):
    """The values that calls must share to be served by one worker."""

    session: int | None
    """The number of the session whose calls alone it serves; None where it keeps nothing of one."""
    workspace: str | None
    """That of this session."""
    surroundings: WarmKey
    policy: Policy
    max_output_bytes: int

    @classmethod
    def of(cls, tool: PythonTool) -> "WorkerKey":
        """That of the tool, for no session."""
        return cls(None, None, tool.surroundings, tool.policy, tool.max_output_bytes)

    @property
    def anywhere(self) -> "WorkerKey":
        """The same for no session."""
        return self._replace(session=None, workspace=None)


class IdleWorkers:
    """The workers of all tools that wait; `end` ends one."""

    def __init__(
        self, nursery: trio.Nursery, end: Callable[[WorkerPipes], Awaitable[object]], *, spare_s: float = SPARE_S
    ) -> None:
        self._nursery = nursery
        self._end = end
        self._spare_s = spare_s
        # The last of each list began to wait last, and is taken first.
        self._waiting: dict[WorkerKey, list[WorkerPipes]] = {}
        self._sessions: set[int] = set()
        self._is_watched = False

    def open(self, session: int) -> None:
        """Keep workers for this session from now on."""
        self._sessions.add(session)

    def has(self, session: int) -> bool:
        """Whether workers are kept for this session."""
        return session in self._sessions

    def close(self, session: int) -> list[WorkerPipes]:
        """Keep none for this session from now on; the ones that waited, to be ended."""
        self._sessions.discard(session)
        return [worker for key in self._keys() if key.session == session for worker in self._waiting.pop(key)]

    def take(self, tool: PythonTool, key: WorkerKey) -> WorkerPipes | None:
        """A worker for a call of the tool. Those of worn parents are ended, or the parents would stay."""
        workers = self._waiting.pop(key, [])
        current = [worker for worker in workers if worker.serves(tool)]
        self._end_all(worker for worker in workers if not worker.serves(tool))
        taken = current.pop() if current else None
        if current:
            self._waiting[key] = current
        return taken

    def put(self, key: WorkerKey, worker: WorkerPipes) -> None:
        """Have a worker wait for a call; it is ended where none may."""
        if key.session is not None and key.session not in self._sessions:
            self._end_all([worker])
            return
        worker.waits_since = now = trio.current_time()
        workers = self._waiting.setdefault(key, [])
        workers.append(worker)
        if key.session is None:
            # It was not needed for so long.
            if workers[0].waits_since < now - self._spare_s:
                self._end_all([workers.pop(0)])
            return
        if len(workers) > MAX_OF_SESSION:
            self._end_all([workers.pop(0)])
        elif sum(len(self._waiting[each]) for each in self._keys()) > MAX_OF_SESSIONS:
            self._end_oldest()
        if not self._is_watched:
            self._is_watched = True
            self._nursery.start_soon(self._watch)

    def drop(self, kept: Container[WorkerKey | None]) -> list[WorkerPipes]:
        """Take all those that serve none of these keys, whatever session is theirs."""
        gone = [key for key in self._waiting if key.anywhere not in kept]
        return [worker for key in gone for worker in self._waiting.pop(key)]

    def count(self, key: WorkerKey) -> int:
        """How many wait for a call with this key."""
        return len(self._waiting.get(key, ()))

    def waiting(self, key: WorkerKey) -> list[WorkerPipes]:
        """Those that wait for a call with this key, in whatever session."""
        return [worker for each in self._waiting if each.anywhere == key for worker in self._waiting[each]]

    def _keys(self) -> list[WorkerKey]:
        """Those of sessions with workers that wait."""
        return [key for key in self._waiting if key.session is not None]

    async def _watch(self) -> None:
        """End each worker of a session when it has waited too long, until none waits."""
        try:
            while keys := self._keys():
                due = min(self._waiting[key][0].waits_since for key in keys) + self._spare_s
                if due > trio.current_time():
                    await trio.sleep_until(due)
                else:
                    self._end_oldest()
        finally:
            self._is_watched = False

    def _end_oldest(self) -> None:
        key = min(self._keys(), key=lambda key: self._waiting[key][0].waits_since, default=None)
        if key is not None:
            workers = self._waiting.pop(key)
            self._end_all([workers.pop(0)])
            if workers:
                self._waiting[key] = workers

    def _end_all(self, workers: Iterable[WorkerPipes]) -> None:
        for worker in workers:
            self._nursery.start_soon(self._end, worker)
