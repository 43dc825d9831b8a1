"""What happens to an agent's calls, jobs, servers and sub-agents, as lines for who asked for them in `hello.events`.

    session ── Events ──┬──▶ its own agent
                        └──▶ Events of its root, the agent that came in from outside, with where the session stands

A session of which nobody wants to hear has none, and costs what it did. An event never bears a payload; one for an
agent that does not read is dropped, and counted in the next.
"""

import time
from typing import Final

from tooldispatchd.agent.calls.sessionchannel import SessionChannel
from tooldispatchd.agent.faults import without_secrets
from tooldispatchd.agent.runtime import Runtime
from tooldispatchd.agent.session.lineage import Lineage
from tooldispatchd.calls.jobs import Job
from tooldispatchd.calls.outcome import Outcome, content_in, utf8_size
from tooldispatchd.wire.faults import Fault
from tooldispatchd.wire.messages import EventKind, EventLine
from tooldispatchd.wire.session import SessionMachine, State

# This many lie unread at most, some 64 KiB: what a turn of calls has to tell to a reader that is only slow.
MAX_UNREAD: Final = 256


class Events:
    """The events of one session; `lineage` is where it stands, if another agent called it."""

    __slots__ = ("__weakref__", "_channel", "_dropped", "_lineage", "_machine", "_masker", "_owed", "_unread")

    def __init__(
        self, runtime: Runtime, machine: SessionMachine, channel: SessionChannel, lineage: Lineage | None
    ) -> None:
        self._machine = machine
        self._channel = channel
        self._lineage = lineage
        self._masker = runtime.setup.catalog.masker
        self._owed = runtime.state.owed
        self._unread = 0
        self._dropped = 0

    # --- what happens ---

    def tool_started(self, names: dict[str, object], tool: str, *, provider: str, queued_s: float) -> None:
        """A call runs from now on; `names` is its id, or its job."""
        self._report(EventKind.TOOL_STARTED, names, tool=tool, provider=provider, queued_ms=_ms(queued_s))

    def tool_finished(self, names: dict[str, object], tool: str, outcome: Outcome, *, took_s: float) -> None:
        """A call is answered next, or its job is done."""
        size = utf8_size(content_in(outcome))
        ended = {"took_ms": _ms(took_s), "bytes": size}
        self._report(EventKind.TOOL_FINISHED, names, tool=tool, **_end(outcome), **ended)

    def job_done(self, job: Job) -> None:
        """The result of a job can be read."""
        assert job.outcome is not None
        self._report(EventKind.JOB_DONE, {"job": job.id}, tool=job.name, **_end(job.outcome))

    def server_moved(self, server: str, fault: Fault | None) -> None:
        """A server can be called from now on, or the `fault` says why not."""
        if fault is None:
            self._report(EventKind.SERVER_UP, {"server": server})
        else:
            fault = without_secrets(fault, self._masker)
            reason = str(fault.extras.get("reason", fault.detail))
            self._report(EventKind.SERVER_DEAD, {"server": server}, reason=reason)

    def breaker_moved(self, of: dict[str, object], *, is_open: bool) -> None:
        """A tool, or a server, is not called for a while, or is called again; sent at once."""
        self._report(EventKind.BREAKER_OPENED if is_open else EventKind.BREAKER_CLOSED, of)
        self._channel.flush()

    def _report(self, kind: EventKind, names: dict[str, object], **fields: object) -> None:
        fields = names | fields
        self.tell(kind, fields)
        lineage = self._lineage
        if lineage is not None and lineage.account.events is not None:
            lineage.account.events.tell(kind, fields | {"child": lineage.number, **lineage.names()})
            # Sent once a turn, however many there are in it.
            self._owed.add(lineage.account.events)

    # --- telling it (`lineage.EventSink`) ---

    def tell(self, kind: EventKind, fields: dict[str, object]) -> None:
        """Tell the session's own agent, if it asked for this kind and reads what it is told."""
        machine = self._machine
        if kind not in machine.asked.events or machine.is_gone or machine.state is State.CLOSED:
            return
        self._unread = self._unread + 1 if self._channel.is_behind else 0
        if self._unread > MAX_UNREAD or self._channel.crowding(0) is not None:
            self._dropped += 1
            return
        dropped, self._dropped = self._dropped or None, 0
        at = round(time.time(), 3)
        line = EventLine(kind=kind, at=at, agent=machine.agent, dropped=dropped, **fields)  # type: ignore[arg-type]
        machine.outgoing.append(line)

    def flush(self) -> None:
        """Send what was told."""
        self._channel.flush()


def _end(outcome: Outcome) -> dict[str, object]:
    if isinstance(outcome, Fault):
        return {"is_error": True, "code": outcome.code.value}
    return {"is_error": outcome.is_error}


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
