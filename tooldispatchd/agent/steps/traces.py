"""Traces of OpenTelemetry: a span for each call that waits, below the one that its request names.

A call's own span stands in the `traceparent` that its tool gets, so that what a server, an API's client or a called
agent does lies within it. Ids are made when the call begins, the span when it has ended; a thread of the SDK sends
spans in batches. Conventions: "Execute tool" of GenAI, and those of MCP, as of OpenTelemetry's semantic conventions.
"""

import logging
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from threading import Thread
from typing import Final

import trio
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from tooldispatchd.agent.calls.call import Call
from tooldispatchd.agent.calls.step import Step
from tooldispatchd.agent.log import Log
from tooldispatchd.calls.outcome import Outcome
from tooldispatchd.calls.stages import StepOrder
from tooldispatchd.calls.trace import MAX_ID_CHARS, TracePlace, place_below
from tooldispatchd.catalog.tracesspec import TracesSpec
from tooldispatchd.wire.faults import Fault

# What is not sent when the daemon ends is lost; its end waits for it no longer.
FLUSH_S: Final = 1.0
# A collector that is not there is told of once in that time.
TOLD_S: Final = 60.0
# Spans that wait to be sent; of more the oldest are dropped.
MAX_QUEUED: Final = 8_192
# They come together in the meantime.
GATHER_MS: Final = 1_000
# The one batch that is on its way may take so long: a daemon that ends waits for `FLUSH_S` alone.
EXPORT_S: Final = 5.0
PATH: Final = "/v1/traces"
MCP: Final = "mcp"


class TraceStep(Step):
    """A call has a span of its own from its first step on, until it has ended; `spans` takes it then."""

    __slots__ = ("_parents", "_resource", "_spans")

    def __init__(self, spans: SpanProcessor, resource: Resource) -> None:
        super().__init__(StepOrder.TRACE)
        self._spans = spans
        self._resource = resource
        # Below what each call under way stands; None where its trace begins with it.
        self._parents: dict[Call, str | None] = {}

    def take(self, call: Call) -> None:
        # A call that takes another tool's steps is still the same.
        if call not in self._parents:
            self._parents[call] = call.traceparent
            call.traceparent = place_below(call.traceparent, random.getrandbits).traceparent

    def leave(self, call: Call, outcome: Outcome) -> None:
        above = self._parents.pop(call)
        assert call.traceparent is not None
        own = TracePlace.of(call.traceparent)
        if own.is_sampled:
            self._spans.on_end(span_of(call, outcome, own, above, self._resource))


def span_of(call: Call, outcome: Outcome, own: TracePlace, above: str | None, resource: Resource) -> ReadableSpan:
    """The span of a call that has ended so; `above` is the `traceparent` that it came with."""
    plan = call.plan
    assert plan is not None
    now, now_ns = trio.current_time(), time.time_ns()
    ran_at = now if call.ran_at is None else call.ran_at
    context = call.context
    said: dict[str, str | int | float] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": plan.name,
        "gen_ai.tool.call.id": call.id[:MAX_ID_CHARS],
        "gen_ai.tool.type": "function",
        "tooldispatchd.tool.kind": plan.kind,
        "tooldispatchd.tool.provider": plan.provider,
        "tooldispatchd.profile": context.profile,
        "tooldispatchd.session": context.lineage.number,
        "tooldispatchd.waited_s": round(ran_at - call.started_at, 6),
    }
    if context.agent is not None:
        said["gen_ai.agent.name"] = context.agent[:MAX_ID_CHARS]
    if plan.kind == MCP:
        said["mcp.method.name"] = "tools/call"
    if call.tries > 1:
        said["tooldispatchd.tries"] = call.tries
    error = outcome.code.value if isinstance(outcome, Fault) else "tool_error" if outcome.is_error else None
    if error is not None:
        said["error.type"] = error
    return ReadableSpan(
        f"execute_tool {plan.name}",
        context=_context_of(own, is_remote=False),
        parent=None if above is None else _context_of(TracePlace.of(above), is_remote=call.request is call),
        resource=resource,
        attributes=said,
        kind=SpanKind.CLIENT if plan.kind == MCP else SpanKind.INTERNAL,
        status=Status(StatusCode.UNSET if error is None else StatusCode.ERROR),
        start_time=now_ns - int((now - call.started_at) * 1e9),
        end_time=now_ns,
    )


def _context_of(place: TracePlace, *, is_remote: bool) -> SpanContext:
    return SpanContext(int(place.trace, 16), int(place.span, 16), is_remote, TraceFlags(int(place.flags, 16)))


class _LogHandler(logging.Handler):
    """What the SDK says of a collector that does not take its spans goes to the daemon's log, now and then."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log
        self._told_at = -TOLD_S

    def emit(self, record: logging.LogRecord) -> None:
        if time.monotonic() - self._told_at >= TOLD_S:
            self._told_at = time.monotonic()
            self._log.warning("traces not sent", detail=record.getMessage())


@contextmanager
def open_traces(spec: TracesSpec, log: Log) -> Iterator[TraceStep]:
    """The step that all calls take whose tools must wait; `spec` names a collector.

    Where the SDK's own variables (`OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`) say who this is, they count.
    """
    assert spec.endpoint is not None
    said = logging.getLogger("opentelemetry")
    said.addHandler(handler := _LogHandler(log))
    said.propagate = False
    where = spec.endpoint.rstrip("/")
    where = where if where.endswith(PATH) else where + PATH
    exporter = OTLPSpanExporter(endpoint=where, headers=dict(spec.headers), timeout=EXPORT_S)
    spans = BatchSpanProcessor(exporter, max_queue_size=MAX_QUEUED, schedule_delay_millis=GATHER_MS)
    named = Resource({SERVICE_NAME: "tooldispatchd", SERVICE_VERSION: version("tooldispatchd")})
    try:
        yield TraceStep(spans, Resource.create().merge(named).merge(OTELResourceDetector().detect()))
    finally:
        closing = Thread(target=spans.shutdown, name="traces", daemon=True)
        closing.start()
        closing.join(FLUSH_S)
        if closing.is_alive():
            log.warning("traces not sent", detail="the collector has not taken the last ones in time")
        said.removeHandler(handler)
