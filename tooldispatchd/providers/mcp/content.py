"""A server's answer to a call as the call's outcome (docs/mcp.md, "What an agent is told").

`structuredContent` where the tool declares an output schema (checked) or no block says anything, else the text of a
lone text block, else the content blocks as a JSON array, unless the call wants them as a text or as parts
(`calls.content`). A tool whose type the configuration declares gives a value of that type: it is `structuredContent`,
else what a lone text block says as JSON, else, for the type `string`, that text itself.

An answer that breaks its schema is a fault that carries it, or with `output_check = "warn"` an answer with a warning:
no better one will come. Unknown kinds of blocks are passed on as they are. A server
that must know more first (MCP 2026-07-28, `input_required`) has given no outcome yet; what it needs is given instead.

A message that is too large, or an answer that is too costly to check, for the dispatch thread is read by a checker:

    a large message ──▶ checker ──┬──▶ the answer to the call that it was told of ──▶ that call's outcome
                                  └──▶ any other ──▶ the message without its largest value, and where that lies
"""

from contextlib import suppress
from typing import Final, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tooldispatchd.calls.content import (
    AS_JSON,
    MAX_DETAIL_BYTES,
    AnswerHead,
    Wanted,
    of_json,
    of_parts,
    read_answer,
    rendered,
    written,
)
from tooldispatchd.calls.outcome import Answer, Outcome, UnreadableError
from tooldispatchd.calls.violations import fault_at, fault_of, with_answer
from tooldispatchd.catalog.schemas import ACCEPT, Check, check_of
from tooldispatchd.catalog.violations import Violation
from tooldispatchd.providers.mcp.greeting import is_complete
from tooldispatchd.providers.mcp.messages import (
    DECODE_ERRORS,
    MAX_CODE_CHARS,
    Incoming,
    InputRequired,
    decoded,
    error_data,
    error_in,
    error_words,
    read_input_required,
    read_message,
    request_number,
)
from tooldispatchd.providers.mcp.server import McpTool, Result, Server, too_large
from tooldispatchd.wire.faults import Code, Fault
from tooldispatchd.wire.heavy import Cut, cut_largest
from tooldispatchd.wire.messages import ContentKind

# JSON-RPC 2.0, "Error object".
ERROR_MEMBERS: Final = ("code", "message", "data")
# Content that says nothing, as it is written without blanks.
EMPTY: Final = frozenset({"[]", "null"})
# How the output schema of a FastMCP server says that an object holds the value and nothing else.
WRAPS: Final = "x-fastmcp-wrap-result"
# Values that say no more than that there are none.
_HOLLOW: Final = frozenset(("{}", "[]"))
# How servers write that a result is no error.
_NO: Final = frozenset((b"false", b"null", b"0", b'"false"', b'""'))
# Members of a result beside its content.
_BESIDE: Final = ("_meta", "isError", "resultType")


class _Result(msgspec.Struct):
    content: Raw | UnsetType = UNSET
    structured: Raw | UnsetType = msgspec.field(default=UNSET, name="structuredContent")
    is_error: Raw | UnsetType = msgspec.field(default=UNSET, name="isError")
    kind: Raw | UnsetType = msgspec.field(default=UNSET, name="resultType")
    meta: Raw | UnsetType = msgspec.field(default=UNSET, name="_meta")


class _Text(msgspec.Struct):
    type: str
    text: str


class _OnlyText(msgspec.Struct):
    text: str
    type: Literal["text"]


class _TextResult(msgspec.Struct, forbid_unknown_fields=True):
    """Nearly all results: one block of text and nothing that says more."""

    content: tuple[_OnlyText]
    is_error: bool = msgspec.field(default=False, name="isError")
    kind: Literal["complete"] = msgspec.field(default="complete", name="resultType")


class _Block(msgspec.Struct):
    type: Raw | UnsetType = UNSET
    text: Raw | UnsetType = UNSET


class _Contents(msgspec.Struct):
    contents: Raw


class _ResourceText(msgspec.Struct):
    text: str


class _Resources(msgspec.Struct):
    resources: Raw
    cursor: str | None = msgspec.field(default=None, name="nextCursor")


class _Messages(msgspec.Struct):
    messages: Raw
    description: str | None = None


_decode: Final = msgspec.json.Decoder().decode
_decode_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_result: Final = msgspec.json.Decoder(_Result).decode
_decode_text_result: Final = msgspec.json.Decoder(_TextResult).decode
_decode_texts: Final = msgspec.json.Decoder(list[_Text]).decode
_decode_block: Final = msgspec.json.Decoder(_Block).decode
_decode_raws: Final = msgspec.json.Decoder(list[Raw]).decode
_decode_contents: Final = msgspec.json.Decoder(_Contents).decode
_decode_resource_texts: Final = msgspec.json.Decoder(list[_ResourceText]).decode
_decode_resources: Final = msgspec.json.Decoder(_Resources).decode
_decode_messages: Final = msgspec.json.Decoder(_Messages).decode
_encode: Final = msgspec.json.Encoder().encode


def outcome_of(reply: Incoming, tool: McpTool, server: Server, wanted: Wanted = AS_JSON) -> Outcome | InputRequired:
    """The outcome of a call of `tool` that `server` answered with `reply`, or what the server needs to know first."""
    raw = reply.result
    is_open = tool.output is None and tool.result is Result.LISTED and tool.method == "tools/call"
    if is_open and wanted is AS_JSON and type(raw) is Raw and len(raw) <= server.max_content_bytes:
        try:
            said = _decode_text_result(raw)
            if reply.error is UNSET:
                return Answer(said.content[0].text, said.is_error, ContentKind.TEXT)
        except DECODE_ERRORS:
            pass  # it says more, or something else: read in full
    try:
        outcome = _read(reply, tool, server, wanted)
    except DECODE_ERRORS:
        return failed(server, "its answer cannot be decoded")
    except UnreadableError as error:
        return failed(server, f"its content {error}")
    if isinstance(outcome, Answer) and outcome.size > server.max_content_bytes:
        return too_large(server)
    return outcome


def failed(server: Server, why: str, **rpc: object) -> Fault:
    """The call failed at the server, and why: a phrase that follows its name; `rpc` is what its error says as it is."""
    extras = {"server": server.name, **{key: value for key, value in rpc.items() if value is not None}}
    return Fault(Code.TOOL_FAILED, f"the call failed at server {server.name}: {why}", extras)


def _read(reply: Incoming, tool: McpTool, server: Server, wanted: Wanted) -> Outcome | InputRequired:
    error = error_in(reply)
    if error is not None:
        if tool.result is Result.WHOLE:
            return _own_error(error, server)
        words, code = error_words(error, tool.method)
        return failed(server, words, rpc_code=code, rpc_data=error_data(error))
    if isinstance(reply.result, UnsetType):
        return failed(server, "its answer holds neither a result nor an error")
    try:
        result = _decode_result(reply.result)
    except msgspec.ValidationError:
        # Most often `null`, from a server whose function returned nothing.
        fault = failed(server, "its result is not an object")
        return fault if bytes(reply.result) == b"null" else with_answer(fault, Answer(_compact(reply.result)))
    if not isinstance(result.kind, UnsetType) and not is_complete(result.kind):
        if bytes(result.kind) == b'"input_required"':
            return read_input_required(reply.result) or failed(
                server, "it asks for more input in a form that cannot be read"
            )
        # MCP 2026-07-28: what is not known is no result.
        kind = bytes(result.kind)[:MAX_CODE_CHARS].decode(errors="replace")
        return failed(server, f"its result is of a kind that is not known: {kind}")
    if tool.result is Result.WHOLE:
        return Answer(_compact(reply.result))
    if tool.method != "tools/call":
        said = _resource_content(reply.result, tool.method)
        return failed(server, f"its answer is no result of {tool.method}") if said is None else said
    # Anything but a plain no counts as an error: a failure must not pass for a success.
    is_error = not isinstance(result.is_error, UnsetType) and bytes(result.is_error) not in _NO
    if isinstance(result.content, UnsetType) and isinstance(result.structured, UnsetType):
        # A server that returns its value itself.
        own = {name: value for name, value in _decode_members(reply.result).items() if name not in _BESIDE}
        result.structured = Raw(_encode(own)) if own else UNSET
    outcome = _answer_of(result, tool, server, wanted.kind, is_error=is_error)
    if wanted.details and isinstance(outcome, Answer):
        outcome = msgspec.structs.replace(outcome, details=_details(result))
    return outcome


def _own_error(error: Raw, server: Server) -> Outcome:
    """A JSON-RPC error as the server's own answer."""
    try:
        said = _decode_members(error)
    except msgspec.ValidationError:
        return failed(server, "its error is not an object")
    return Answer(_compact(Raw(_encode({key: said[key] for key in ERROR_MEMBERS if key in said}))), is_error=True)


def _answer_of(result: _Result, tool: McpTool, server: Server, kind: ContentKind, *, is_error: bool) -> Outcome:
    """Make the answer of a result: by the tool's output schema, else of its content, else of its value."""
    structured = None
    if isinstance(result.structured, Raw) and bytes(result.structured) != b"null":
        structured = Answer(_compact(result.structured), is_error)
    if is_error or tool.output is None:
        if structured is not None and _is_blank(result.content):
            return structured
        return _shown(result.content, kind, is_error=is_error)
    value = _checked(result, tool, tool.output)
    if kind is ContentKind.TEXT and isinstance(value, Answer) and (text := _unwrapped(value, result, tool.output)):
        return text
    if isinstance(value, Fault):
        if structured is not None and str(structured.content) in _HOLLOW and not _is_blank(result.content):
            structured = None
        answer = structured or _shown(result.content, kind, is_error=False)
        if not server.warns_of_outputs or tool.result is not Result.LISTED:
            return with_answer(value, answer)
        value = msgspec.structs.replace(answer, warning=f"the answer breaks the tool's output schema: {value.detail}")
        if structured is None:
            return value
    if kind is not ContentKind.BLOCKS:
        return value
    # They are what the server shows of the value.
    shown = _shown(result.content, kind, is_error=False)
    if shown.blocks is None:
        return value
    return msgspec.structs.replace(shown, value=str(value.content), warning=value.warning)


def _unwrapped(value: Answer, result: _Result, output: Check) -> Answer | None:
    """Make the text of a value that its server wrapped in an object, as servers of functions do; None for another.

    The object's one field is `result`, which the only text block repeats, or the output schema says that it wraps.
    """
    content = str(value.content)
    is_marked = any(isinstance(each, dict) and each.get(WRAPS) is True for each in output.schemas)
    field = _decode(content) if is_marked or content.startswith('{"result":') else None
    if not isinstance(field, dict) or len(field) != 1:
        return None
    (inner,) = field.values()
    written, text = _encode(inner).decode(), _lone_text(_listed(result.content))
    # A text is itself; any other value is JSON, in whichever way that is written.
    if text is not None and (text == inner or _rewritten(text) == written):
        return Answer(text, kind=ContentKind.TEXT, value=content)
    return msgspec.structs.replace(of_json(written, ContentKind.TEXT), value=content) if is_marked else None


def _rewritten(text: str) -> str | None:
    """Write a text that is JSON compactly; None for any other."""
    with suppress(*DECODE_ERRORS):
        return _encode(_decode(text)).decode()
    return None


def _listed(content: Raw | UnsetType) -> str:
    """Write the content blocks as a compact JSON list; one block or a text becomes a list of one."""
    written = "[]" if isinstance(content, UnsetType) else _compact(content)
    if written.startswith("[") or written == "null":
        return written
    if written.startswith("{"):
        return f"[{written}]"
    text = written if written.startswith('"') else f'"{written}"'
    return f'[{{"type":"text","text":{text}}}]'


def _mended(listed: str) -> str:
    """Write the blocks of a list, with a text block in the place of whatever is none."""
    if listed == "null" or _texts_in(listed) is not None:
        return listed
    return f"[{','.join(_block(each) for each in _decode_raws(listed) if bytes(each) != b'null')}]"


def _block(raw: Raw) -> str:
    """Write a block as it is, or the text block that a value or an untyped text stands for."""
    block = decoded(_decode_block, raw) or _Block()
    kind, said = bytes(block.type or b""), block.text or raw
    is_text = isinstance(block.text, Raw) and bytes(said).startswith(b'"')
    if kind.startswith(b'"') and (kind != b'"text"' or is_text):
        return bytes(raw).decode()
    text = bytes(said).decode()
    if not text.startswith('"'):
        text = '""' if text == "null" else _encode(text).decode()
    return f'{{"type":"text","text":{text}}}'


def _is_blank(content: Raw | UnsetType) -> bool:
    """Tell whether there are no blocks, or nothing but blank texts."""
    listed = _mended(_listed(content))
    texts = _texts_in(listed)
    return listed in EMPTY or (texts is not None and not any(each.text.strip() for each in texts))


def _shown(blocks: Raw | UnsetType, kind: ContentKind, *, is_error: bool) -> Answer:
    """Make the answer of content blocks: as JSON the text of a lone text block, else the blocks."""
    if kind is ContentKind.JSON and isinstance(blocks, Raw) and (text := _lone_text(blocks)) is not None:
        # Nearly all answers: neither written anew nor read twice.
        return Answer(text, is_error, kind=ContentKind.TEXT)
    content = _listed(blocks)
    if content in EMPTY:
        return Answer("", is_error, kind=ContentKind.TEXT)
    if kind is not ContentKind.JSON:
        return of_parts(_mended(content).encode(), kind, is_error=is_error)
    text = _lone_text(content)
    return Answer(content, is_error) if text is None else Answer(text, is_error, kind=ContentKind.TEXT)


def _details(result: _Result) -> Raw | None:
    """What the server says to the runtime; what would be long is left out, and named."""
    fields = {
        name: value
        for name, value in (("_meta", result.meta), ("structuredContent", result.structured))
        if isinstance(value, Raw) and bytes(value) != b"null"
    }
    omitted = [name for name, value in fields.items() if len(value) > MAX_DETAIL_BYTES]
    kept = {name: Raw(_compact(value).encode()) for name, value in fields.items() if name not in omitted}
    return Raw(_encode(kept | ({"omitted": omitted} if omitted else {}))) if fields else None


def _checked(result: _Result, tool: McpTool, output: Check) -> Outcome:
    """The value that a schema asks for; of a tool whose type is declared a text may hold it too."""
    structured, content = result.structured, result.content
    value: object = None
    if isinstance(structured, Raw) and (
        bytes(structured) != b"null" or (tool.result is Result.LISTED and output.is_valid(None))
    ):
        try:
            value = _decode(structured)
        except msgspec.DecodeError as error:
            return _invalid(f"structuredContent cannot be read: {error}")
    elif tool.result is Result.LISTED:
        with suppress(*DECODE_ERRORS):
            value = _decode(_lone_text(_listed(content)) or "")
        if value is None or not output.is_valid(value):
            return _invalid("structuredContent is missing, though the tool declares an output schema")
    elif isinstance(content, Raw) and (text := _lone_text(content)) is not None:
        try:
            value = _decode(text)
        except DECODE_ERRORS:
            if tool.result is not Result.TEXT:
                return _invalid("its text is not JSON, as its declared type needs")
        if tool.result is Result.TEXT and not isinstance(value, str):
            # A text that is no JSON, or happens to be some: `42`, or a file of settings.
            value = text
    elif isinstance(content, Raw) and _compact(content) not in EMPTY:
        return _invalid("its answer is neither structuredContent nor one block of text")
    # A server that says nothing at all has said null.
    if not output.is_valid(value):
        return fault_of(Code.INVALID_OUTPUT, output, value)
    # Encoded anew: what is delivered is what was checked, also where a key stood twice.
    return Answer(_encode(value).decode())


def _invalid(why: str) -> Fault:
    return fault_at(Code.INVALID_OUTPUT, [Violation("", why)])


def _texts_in(content: Raw | str) -> list[_Text] | None:
    """Read the blocks where all of them are texts; None else."""
    try:
        texts = _decode_texts(content)
    except DECODE_ERRORS:
        # Not all of them are text blocks, or not all can be decoded; the latter shows again where they are encoded.
        return None
    return texts if all(each.type == "text" for each in texts) else None


def _lone_text(content: Raw | str) -> str | None:
    """The text of the one block that there is; None where there are others."""
    texts = _texts_in(content)
    return texts[0].text if texts is not None and len(texts) == 1 else None


def _compact(raw: Raw) -> str:
    return msgspec.json.format(raw, indent=-1).decode()


def _resource_content(result: Raw, method: str) -> Answer | None:
    """The answer that a result of one of the tools of `resources` is; None where it is no result of `method`."""
    try:
        if method == "resources/list":
            page = _decode_resources(result)
            return _object(page.resources, "resources", "nextCursor", page.cursor or UNSET)
        if method == "prompts/get":
            said = _decode_messages(result)
            return _object(said.messages, "messages", "description", said.description or UNSET)
        contents = _decode_contents(result).contents
    except msgspec.ValidationError:
        return None
    try:
        texts = _decode_resource_texts(contents)
    except DECODE_ERRORS:
        # Not all of them are texts, or not all can be decoded; the latter shows where they are written.
        texts = []
    if len(texts) == 1:
        return Answer(texts[0].text, kind=ContentKind.TEXT)
    written = _list(contents)
    return None if written is None else Answer(written)


def _object(items: Raw, name: str, other: str, value: str | UnsetType) -> Answer | None:
    written = _list(items)
    if written is None:
        return None
    more = "" if isinstance(value, UnsetType) else f',"{other}":{_encode(value).decode()}'
    return Answer(f'{{"{name}":{written}{more}}}')


def _list(raw: Raw) -> str | None:
    written = _compact(raw)
    return written if written.startswith("[") else None


# --- by a checker -----------------------------------------------------------------------------------------------------


class ReadJob(msgspec.Struct, frozen=True):
    """The call that a message may answer: the number of its request, and what there is to know of its tool."""

    server: str
    max_content_bytes: int
    number: int | None = None
    method: str = ""
    result: Result = Result.LISTED
    schemas: bytes | None = None
    wanted: Wanted = AS_JSON
    warns_of_outputs: bool = False


class MessageRead(msgspec.Struct, frozen=True):
    """The result of a checker: an outcome of the call, or the message as a `light` one; neither for no message.

    Of the message a value may have been `cut` out. Of an answer this is the head; the rest stands beside it.
    """

    light: bytes | None = None
    cut: Cut | None = None
    fault: Fault | None = None
    head: AnswerHead | None = None


_decode_read: Final = msgspec.msgpack.Decoder(MessageRead).decode
_decode_incoming: Final = msgspec.json.Decoder(Incoming).decode


def job_for(server: Server, number: int | None, tool: McpTool | None, wanted: Wanted = AS_JSON) -> bytes:
    """The arguments of `read_large`."""
    if tool is None:
        return msgspec.msgpack.encode(ReadJob(server.name, server.max_content_bytes))
    schemas = None if tool.output is None else tool.output.text
    read = (tool.method, tool.result, schemas, wanted, server.warns_of_outputs)
    job = ReadJob(server.name, server.max_content_bytes, number, *read)
    return msgspec.msgpack.encode(job)


def found_in(
    reply: bytes, content: bytearray, parts: bytearray, line: bytes | bytearray | Raw
) -> Incoming | Outcome | None:
    """The outcome of the call that a checker was told of, or any other message, which may lie in `line`."""
    read = _decode_read(reply)
    if read.fault is not None:
        return read.fault
    if read.head is not None:
        return read_answer(read.head, content, parts)
    if read.light is None:
        return None
    message = _decode_incoming(read.light)
    if read.cut is not None:
        read.cut.put_back(message, line)
    return message


def read_large(arguments: bytes, payload: bytearray) -> tuple[bytes, bytes, bytes]:
    """Read a message (a job of a checker). Gives `MessageRead`, and content and parts of an answer."""
    job = msgspec.msgpack.decode(arguments, type=ReadJob)
    line = bytes(payload)
    message = read_message(line)
    if message is None:
        return msgspec.msgpack.encode(MessageRead()), b"", b""
    if job.number is not None and not isinstance(message.method, str) and request_number(message.id) == job.number:
        output = None if job.schemas is None else check_of(job.schemas)
        tool = McpTool(name="", input_schema={}, input=ACCEPT, output=output, result=job.result, method=job.method)
        server = Server(
            name=job.server,
            max_line_bytes=0,
            max_content_bytes=job.max_content_bytes,
            warns_of_outputs=job.warns_of_outputs,
        )
        outcome = outcome_of(message, tool, server, job.wanted)
        if isinstance(outcome, Fault):
            return msgspec.msgpack.encode(MessageRead(fault=outcome)), b"", b""
        if not isinstance(outcome, InputRequired):
            head, content, parts = written(rendered(outcome, job.wanted.kind))
            return msgspec.msgpack.encode(MessageRead(head=head)), content, parts
    try:
        cut = cut_largest(message, line)
    except ValueError:
        # Halves of surrogates were mended in a copy: the line itself cannot be told as a message.
        return msgspec.msgpack.encode(MessageRead()), b"", b""
    return msgspec.msgpack.encode(MessageRead(msgspec.json.encode(message), cut)), b"", b""
