"""The built-in tools for long answers that were stored: `output_read`, `output_grep`, `output_json`.

A checker looks into the file, so that a search of any length holds nobody up; it is killed at the call's deadline.
"""

from functools import partial
from typing import Final

import msgspec
from msgspec import Raw

from tooldispatchd.agent.calls.agentcall import AgentCall
from tooldispatchd.agent.calls.call import Call, Plan
from tooldispatchd.agent.calls.checking import Reader
from tooldispatchd.agent.faults import SHOWN_NAME
from tooldispatchd.agent.steps.sizes import SizeStep
from tooldispatchd.agent.steps.windows import MAX_QUERY, Look, LookReply, grep_output, query_output, read_output
from tooldispatchd.calls.outcome import Answer, Outcome
from tooldispatchd.catalog.offered import Offered
from tooldispatchd.catalog.schemas import MAX_LIGHT_BYTES, MAX_PATTERN, compile_check
from tooldispatchd.checkers.pool import CheckerError
from tooldispatchd.checkers.worker import Work
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.heavy import content_of

KIND: Final = "builtin"
# What a model reads at once where it does not say.
READ_BYTES: Final = 16 * 1024
MATCHES: Final = 50
MAX_MATCHES: Final = 1_000
# Beside the text of a window stand some numbers.
MIN_READ_BYTES: Final = 512
# As every reader of JSON has it.
MAX_WHOLE: Final = 2**53

_WHOLE: Final[dict[str, object]] = {"type": "integer", "minimum": 1, "maximum": MAX_WHOLE}
_HANDLE: Final = {"type": "string", "description": "The handle that the stored answer was given with."}
_READ: Final[dict[str, object]] = {
    "handle": _HANDLE,
    "offset": {
        "type": "integer",
        "minimum": 0,
        "maximum": MAX_WHOLE,
        "description": "The first byte, from 0 on; next_offset goes on.",
    },
    "bytes": {
        "type": "integer",
        "minimum": 1,
        "maximum": MAX_WHOLE,
        "description": f"At most so many bytes, {READ_BYTES:,} by default.",
    },
    "line": {
        "type": "integer",
        "minimum": 1,
        "maximum": MAX_WHOLE,
        "description": "In the place of offset: the first line, from 1 on.",
    },
    "lines": {**_WHOLE, "description": "At most so many lines."},
}
_GREP: Final[dict[str, object]] = {
    "handle": _HANDLE,
    "pattern": {"type": "string", "minLength": 1, "maxLength": MAX_PATTERN, "description": "A regular expression."},
    "ignore_case": {"type": "boolean", "description": "Whether capitals do not matter."},
    "limit": {
        "type": "integer",
        "minimum": 1,
        "maximum": MAX_MATCHES,
        "description": f"At most so many lines, {MATCHES} by default.",
    },
}
_JSON: Final[dict[str, object]] = {
    "handle": _HANDLE,
    "query": {"type": "string", "minLength": 1, "maxLength": MAX_QUERY, "description": "An expression in JMESPath."},
}


class _Asked(msgspec.Struct):
    handle: str = ""
    # A whole number may be written as 5.0 in JSON.
    offset: int | float | None = None
    bytes: int | float | None = None
    line: int | float | None = None
    lines: int | float | None = None
    pattern: str = ""
    ignore_case: bool = False
    limit: int | float = MATCHES
    query: str = ""


# MCP 2025-03-26, "ToolAnnotations".
_ONLY_READS: Final = Raw(b'{"readOnlyHint":true}')
_decode: Final = msgspec.json.Decoder(_Asked).decode
_read_reply: Final = msgspec.msgpack.Decoder(LookReply).decode
_write: Final = msgspec.msgpack.Encoder().encode


def output_plans(*, limit_s: float, size: SizeStep) -> list[Plan]:
    """The three tools, whose own answers `size` bounds."""
    read = "Read a stored answer from an offset or a line on."
    grep = "Find the lines of a stored answer in which a regular expression has a match."
    query = "Give what a JMESPath expression finds in a stored answer that is JSON."
    return [
        OutputPlan("output_read", read, _READ, read_output, limit_s=limit_s, size=size),
        OutputPlan("output_grep", grep, _GREP, grep_output, limit_s=limit_s, size=size),
        OutputPlan("output_json", query, _JSON, query_output, limit_s=limit_s, size=size),
    ]


class OutputPlan(Plan):
    """A tool on the stored answer whose handle its input names."""

    __slots__ = ("_max_bytes", "_work")

    def __init__(
        self, name: str, description: str, properties: dict[str, object], work: Work, *, limit_s: float, size: SizeStep
    ) -> None:
        schema: dict[str, object] = {
            "type": "object",
            "properties": properties,
            "required": [key for key in properties if key in {"handle", "pattern", "query"}],
            "additionalProperties": False,
        }
        read = Reader(compile_check(schema), missing={}, wrapped=False)
        offered = Offered(name=name, description=description, input_schema=schema, annotations=_ONLY_READS)
        super().__init__(offered, kind=KIND, limit_s=limit_s, read=read, provider="outputs")
        self.gives_json = False
        self._work = work
        self._max_bytes = size.max_bytes
        self.add(size)

    def start(self, call: Call) -> None:
        """Look into the file."""
        call.work(partial(self._look, call, _decode(call.line)))

    async def _look(self, call: Call, asked: _Asked) -> Outcome:
        context, shown = call.context, asked.handle[:SHOWN_NAME]
        stored = context.outputs.get(asked.handle)
        unknown = Fault(
            Code.UNKNOWN_HANDLE,
            "no answer is stored under this handle; an old one may have been forgotten for newer ones",
            {"source": shown},
        ).ran(may_have=False)
        if stored is None:
            return unknown
        room = min(self._max_bytes or call.max_output, call.room) if isinstance(call, AgentCall) else READ_BYTES
        look = Look(
            stored.path,
            max_bytes=int(max(MIN_READ_BYTES, min(room, MAX_LIGHT_BYTES))),
            offset=_whole(asked.offset),
            bytes=_whole(asked.bytes) or READ_BYTES,
            line=_whole(asked.line),
            lines=_whole(asked.lines),
            pattern=asked.pattern,
            ignore_case=asked.ignore_case,
            limit=int(asked.limit),
            query=asked.query,
        )
        try:
            # All looks of a channel have the turns of one agent: however many it has, they hold one checker.
            channel = context.account.channel
            reply, said, _ = await context.checking.run(self._work, _write(look), b"", turns=(channel, channel))
        except CheckerError as error:
            limit: dict[str, object] = {} if error.limit is None else {"limit": error.limit}
            return Fault(Code.TOOL_FAILED, f"the stored answer cannot be looked into: {error.why}", limit)
        found = _read_reply(reply)
        if found.why is None:
            return Answer(content_of(said, found.size, is_quoted=found.is_quoted))
        if not found.key:
            return unknown
        violations = [{"path": f"/{found.key}", "message": found.why}]
        return Fault(Code.INVALID_INPUT, found.why, {"violations": violations})


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)
