"""Messages that are too large, or answers too costly to check, for the dispatch thread: read by a checker.

a large message ──▶ checker ──┬──▶ the answer to the call that it was told of ──▶ that call's outcome
                              └──▶ any other ──▶ the message without its largest value, and where that lies
"""

from typing import Final

import msgspec
from msgspec import Raw, UnsetType

from tooldispatchd.calls.outcome import Answer, Outcome
from tooldispatchd.catalog.schemas import ACCEPT, check_of
from tooldispatchd.providers.mcp.content import is_header_mismatch, outcome_of
from tooldispatchd.providers.mcp.messages import Incoming, read_message, request_number
from tooldispatchd.providers.mcp.rounds import InputRequired
from tooldispatchd.providers.mcp.server import McpTool, Result, Server
from tooldispatchd.wire.faults import Fault
from tooldispatchd.wire.heavy import Cut, content_of, cut_largest, quoted

_decode_incoming: Final = msgspec.json.Decoder(Incoming).decode


class ReadJob(msgspec.Struct, frozen=True):
    """The call that a message may answer: the number of its request, and what there is to know of its tool."""

    server: str
    max_content_bytes: int
    number: int | None = None
    method: str = ""
    result: Result = Result.LISTED
    schemas: bytes | None = None


class MessageRead(msgspec.Struct, frozen=True):
    """The result of a checker: an outcome of the call, or the message as a `light` one; neither for no message.

    Of the message a value may have been `cut` out. Of an answer the content is the job's payload, `size` bytes of text,
    quoted where it is long.
    """

    light: bytes | None = None
    cut: Cut | None = None
    fault: Fault | None = None
    size: int | None = None
    is_error: bool = False
    is_quoted: bool = False
    is_mismatch: bool = False


_read: Final = msgspec.msgpack.Decoder(MessageRead).decode


def job_for(server: Server, number: int | None, tool: McpTool | None) -> bytes:
    """The arguments of `read_large`."""
    if tool is None:
        return msgspec.msgpack.encode(ReadJob(server.name, server.max_content_bytes))
    schemas = None if tool.output is None else tool.output.text
    job = ReadJob(server.name, server.max_content_bytes, number, tool.method, tool.result, schemas)
    return msgspec.msgpack.encode(job)


class ReadMessage(msgspec.Struct, frozen=True):
    """A message; with an `outcome` it is the answer to the call that was asked for."""

    message: Incoming | None
    outcome: Outcome | None = None
    is_mismatch: bool = False


def found_in(reply: bytes, content: bytearray, line: bytes | bytearray | Raw) -> ReadMessage:
    read = _read(reply)
    if read.fault is not None:
        return ReadMessage(None, read.fault, read.is_mismatch)
    if read.size is not None:
        text = content_of(content, read.size, is_quoted=read.is_quoted)
        return ReadMessage(None, Answer(text, read.is_error))
    if read.light is None:
        return ReadMessage(None)
    message = _decode_incoming(read.light)
    if read.cut is not None:
        read.cut.put_back(message, line)
    return ReadMessage(message)


def read_large(arguments: bytes, payload: bytearray) -> tuple[bytes, bytes]:
    """Read a message (a job of a checker). Gives `MessageRead`, and the content of an answer."""
    job = msgspec.msgpack.decode(arguments, type=ReadJob)
    line = bytes(payload)
    message = read_message(line)
    if message is None:
        return msgspec.msgpack.encode(MessageRead()), b""
    if job.number is not None and not isinstance(message.method, str) and request_number(message.id) == job.number:
        outcome = _outcome(job, message)
        if not isinstance(outcome, InputRequired):
            return _told(outcome, message)
    return msgspec.msgpack.encode(_without_largest(message, line)), b""


def _outcome(job: ReadJob, message: Incoming) -> Outcome | InputRequired:
    tool = McpTool(
        name="",
        title=None,
        description="",
        input_schema={},
        output_schema=None,
        annotations=None,
        input=ACCEPT,
        output=None if job.schemas is None else check_of(job.schemas),
        result=job.result,
        method=job.method,
    )
    server = Server(name=job.server, max_line_bytes=0, max_content_bytes=job.max_content_bytes)
    return outcome_of(message, tool, server)


def _told(outcome: Outcome, message: Incoming) -> tuple[bytes, bytes]:
    if isinstance(outcome, Fault):
        is_mismatch = not isinstance(message.error, UnsetType) and is_header_mismatch(message)
        return msgspec.msgpack.encode(MessageRead(fault=outcome, is_mismatch=is_mismatch)), b""
    assert isinstance(outcome.content, str)
    content = outcome.content.encode()
    is_quoted, text = quoted(content)
    read = MessageRead(size=len(content), is_error=outcome.is_error, is_quoted=is_quoted)
    return msgspec.msgpack.encode(read), text


def _without_largest(message: Incoming, line: bytes) -> MessageRead:
    try:
        cut = cut_largest(message, line)
    except ValueError:
        # Halves of surrogates were mended in a copy: the line itself cannot be told as a message.
        return MessageRead()
    return MessageRead(msgspec.json.encode(message), cut)
