"""A server's answer to a call as the call's outcome (docs/mcp.md, "What an agent is told").

`structuredContent` where the tool declares an output schema (checked), else the text of a lone text block, else the
content blocks as a JSON array. A tool whose type the configuration declares gives a value of that type: it is
`structuredContent`, else what a lone text block says as JSON, else, for the type `string`, that text itself.

A wrong answer is a fault at once: no better one will come. Unknown kinds of blocks are passed on as they are. A server
that must know more first (MCP 2026-07-28, `input_required`) has given no outcome yet; what it needs is given instead.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tooldispatchd.calls.jobs import utf8_size
from tooldispatchd.calls.outcome import Answer, Outcome
from tooldispatchd.calls.violations import fault_at, fault_of
from tooldispatchd.catalog.schemas import Check
from tooldispatchd.catalog.violations import Violation
from tooldispatchd.providers.mcp.faults import too_large
from tooldispatchd.providers.mcp.messages import DECODE_ERRORS, Incoming, decoded
from tooldispatchd.providers.mcp.resources import READ_RESOURCE, content_of
from tooldispatchd.providers.mcp.rounds import InputRequired, read_input_required
from tooldispatchd.providers.mcp.server import McpTool, Result, Server
from tooldispatchd.wire.faults import Code, Fault

# A server's own words in a fault: enough for a reason, too few for a stack trace to fill the model's context.
MAX_MESSAGE_CHARS: Final = 2000
# As much of a code that is a text, and of a list within an error: codes are numbers, and such lists have few items.
MAX_CODE_CHARS: Final = 64
MAX_ITEMS: Final = 8
# An error's data, where it is looked at.
MAX_DATA_BYTES: Final = 64 * 1024
# Content that says nothing, as it is written without blanks.
EMPTY: Final = frozenset({"[]", "null"})
# Servers of revisions before 2026-07-28 do not say it.
COMPLETE: Final = frozenset({b'"complete"', b"null"})

# MCP 2026-07-28, "Error codes"; the last two were in 2025-11-25 and before.
HEADER_MISMATCH: Final = -32020
MISSING_CAPABILITY: Final = -32021
UNSUPPORTED_REVISION: Final = -32022
RESOURCE_NOT_FOUND: Final = -32002
URL_ELICITATION: Final = -32042
INVALID_PARAMS: Final = -32602


class _Result(msgspec.Struct):
    content: Raw | UnsetType = UNSET
    structured: Raw | UnsetType = msgspec.field(default=UNSET, name="structuredContent")
    is_error: Raw | UnsetType = msgspec.field(default=UNSET, name="isError")
    kind: Raw | UnsetType = msgspec.field(default=UNSET, name="resultType")


class _Text(msgspec.Struct):
    type: str
    text: str


class _Error(msgspec.Struct):
    code: int | float | str | None = None
    message: str | None = None
    data: Raw | UnsetType = UNSET


class _Page(msgspec.Struct):
    url: str


class _Pages(msgspec.Struct):
    pages: list[_Page] = msgspec.field(name="elicitations")


class _Lacking(msgspec.Struct):
    capabilities: dict[str, Raw] = msgspec.field(name="requiredCapabilities")


class _Speaks(msgspec.Struct):
    supported: list[str]


_decode: Final = msgspec.json.Decoder().decode
_decode_result: Final = msgspec.json.Decoder(_Result).decode
_decode_texts: Final = msgspec.json.Decoder(list[_Text]).decode
_decode_error: Final = msgspec.json.Decoder(_Error).decode
_decode_pages: Final = msgspec.json.Decoder(_Pages).decode
_decode_lacking: Final = msgspec.json.Decoder(_Lacking).decode
_decode_speaks: Final = msgspec.json.Decoder(_Speaks).decode
_encode: Final = msgspec.json.Encoder().encode


def outcome_of(reply: Incoming, tool: McpTool, server: Server) -> Outcome | InputRequired:
    """The outcome of a call of `tool` that `server` answered with `reply`, or what the server needs to know first."""
    try:
        outcome = _read(reply, tool, server)
    except DECODE_ERRORS:
        return failed(server, "its answer cannot be decoded")
    if isinstance(outcome, Answer) and utf8_size(outcome.content) > server.max_content_bytes:
        return too_large(server)
    return outcome


def failed(server: Server, why: str, *, rpc_code: int | float | str | None = None) -> Fault:
    """The call failed at the server, and why: a phrase that follows its name."""
    extras: dict[str, object] = {"server": server.name}
    if rpc_code is not None:
        extras["rpc_code"] = rpc_code
    return Fault(Code.TOOL_FAILED, f"the call failed at server {server.name}: {why}", extras)


def error_in(reply: Incoming) -> Raw | None:
    """The error in `reply`, if any; some servers write `"error": null` beside a result."""
    if isinstance(reply.error, UnsetType) or bytes(reply.error) == b"null":
        return None
    return reply.error


def is_header_mismatch(reply: Incoming) -> bool:
    """Whether the server says that headers and body differ: its list of tools is newer than ours (MCP 2026-07-28)."""
    error = error_in(reply)
    return error is not None and error_words(error)[1] == HEADER_MISMATCH


def error_words(error: Raw, method: str = "") -> tuple[str, int | float | str | None]:
    """The words of a JSON-RPC error to a request of `method`, with its code, and the code alone."""
    try:
        said = _decode_error(error)
    except DECODE_ERRORS:
        return "an error that cannot be read", None
    code = said.code[:MAX_CODE_CHARS] if isinstance(said.code, str) else said.code
    message = (said.message or "an error without a message")[:MAX_MESSAGE_CHARS]
    meaning = _meaning(code, said.data, method)
    words = f"{meaning}: {message}" if meaning else message
    return words if code is None else f"{words} (code {code})", code


def _meaning(code: int | float | str | None, data: Raw | UnsetType, method: str) -> str:
    """The meaning of a code of MCP's own, in words for the caller; "" for others, whose message must do."""
    if code == RESOURCE_NOT_FOUND or (code == INVALID_PARAMS and method == READ_RESOURCE):
        return "there is no such resource"
    if code == HEADER_MISMATCH:
        return "it finds headers that do not match the call"
    if code == MISSING_CAPABILITY:
        lacking = decoded(_decode_lacking, data, MAX_DATA_BYTES)
        return _with("it needs what this agent does not offer", lacking.capabilities if lacking else ())
    if code == UNSUPPORTED_REVISION:
        speaks = decoded(_decode_speaks, data, MAX_DATA_BYTES)
        return _with("it speaks other revisions of the protocol", speaks.supported if speaks else ())
    if code == URL_ELICITATION:
        pages = decoded(_decode_pages, data, MAX_DATA_BYTES)
        return _with("a person must visit a page before this call", [each.url for each in pages.pages] if pages else ())
    return ""


def _with(words: str, items: Iterable[str]) -> str:
    listed = ", ".join(islice(items, MAX_ITEMS))[:MAX_MESSAGE_CHARS]
    return f"{words} ({listed})" if listed else words


def _read(reply: Incoming, tool: McpTool, server: Server) -> Outcome | InputRequired:
    error = error_in(reply)
    if error is not None:
        words, code = error_words(error, tool.method)
        return failed(server, words, rpc_code=code)
    if isinstance(reply.result, UnsetType):
        return failed(server, "its answer holds neither a result nor an error")
    try:
        result = _decode_result(reply.result)
    except msgspec.ValidationError:
        # Most often `null`, from a server whose function returned nothing.
        return failed(server, "its result is not an object")
    if not isinstance(result.kind, UnsetType) and bytes(result.kind) not in COMPLETE:
        return _incomplete(reply.result, result.kind, server)
    if tool.method != "tools/call":
        content = content_of(reply.result, tool.method)
        return failed(server, f"its answer is no result of {tool.method}") if content is None else Answer(content)
    # Anything but a plain no counts as an error: a failure must not pass for a success.
    is_error = not isinstance(result.is_error, UnsetType) and bytes(result.is_error) not in {b"false", b"null"}
    if tool.output is not None:
        if not is_error:
            if tool.result is Result.LISTED:
                return _checked(result.structured, tool.output)
            return _typed(result, tool, tool.output)
        if not isinstance(result.structured, UnsetType) and bytes(result.structured) != b"null":
            return Answer(_compact(result.structured), is_error)
    text = _text_of(result.content)
    return failed(server, "its content is not a list") if text is None else Answer(text, is_error)


def _incomplete(result: Raw, kind: Raw, server: Server) -> Fault | InputRequired:
    if bytes(kind) == b'"input_required"':
        required = read_input_required(result)
        return failed(server, "it asks for more input in a form that cannot be read") if required is None else required
    # MCP 2026-07-28: what is not known is no result.
    said = bytes(kind)[:MAX_CODE_CHARS].decode(errors="replace")
    return failed(server, f"its result is of a kind that is not known: {said}")


def _checked(structured: Raw | UnsetType, output: Check) -> Outcome:
    if isinstance(structured, UnsetType):
        return _invalid("structuredContent is missing, though the tool declares an output schema")
    value = _decode(structured)
    return _delivered(value, output)


def _typed(result: _Result, tool: McpTool, output: Check) -> Outcome:
    """The value of a tool whose type is declared; a server that says nothing at all has said null."""
    structured = result.structured
    if not isinstance(structured, UnsetType) and bytes(structured) != b"null":
        return _checked(structured, output)
    text = None if isinstance(result.content, UnsetType) else _lone_text(result.content)
    if text is None:
        if isinstance(result.content, UnsetType) or _compact(result.content) in EMPTY:
            return _delivered(None, output)
        return _invalid("its answer is neither structuredContent nor one block of text")
    try:
        value: object = _decode(text)
    except DECODE_ERRORS:
        if tool.result is not Result.TEXT:
            return _invalid("its text is not JSON, as its declared type needs")
        value = text
    if tool.result is Result.TEXT and not isinstance(value, str):
        # A text that happens to be JSON too: `42`, or a file of settings.
        value = text
    return _delivered(value, output)


def _invalid(why: str) -> Fault:
    return fault_at(Code.INVALID_OUTPUT, [Violation("", why)])


def _delivered(value: object, output: Check) -> Outcome:
    if not output.is_valid(value):
        return fault_of(Code.INVALID_OUTPUT, output, value)
    # Encoded anew: what is delivered is what was checked, also where a key stood twice.
    content = _encode(value)
    return Answer(content.decode())


def _text_of(content: Raw | UnsetType) -> str | None:
    """The content blocks as text; None where they are no list."""
    if isinstance(content, UnsetType):
        return ""
    text = _lone_text(content)
    if text is not None:
        return text
    blocks = _compact(content)
    if blocks in EMPTY:
        return ""
    return blocks if blocks.startswith("[") else None


def _lone_text(content: Raw) -> str | None:
    """The text of the one block that there is; None where there are others."""
    try:
        texts = _decode_texts(content)
    except DECODE_ERRORS:
        # Not all of them are text blocks, or not all can be decoded; the latter shows again where they are encoded.
        return None
    return texts[0].text if len(texts) == 1 and texts[0].type == "text" else None


def _compact(raw: Raw) -> str:
    return msgspec.json.format(raw, indent=-1).decode()
