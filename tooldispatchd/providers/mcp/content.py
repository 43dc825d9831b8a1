"""A server's answer to `tools/call` as the call's outcome (PROTOCOL.md, "content").

`structuredContent` where the tool declares an output schema (checked), else the text of a lone text block, else the
content blocks as a JSON array. A tool whose type the configuration declares gives a value of that type: it is
`structuredContent`, else what a lone text block says as JSON, else, for the type `string`, that text itself.

What the server got wrong is a fault at once: nobody waits for a better answer. Unknown kinds of blocks are passed on as
they are.
"""

from collections.abc import Generator
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tooldispatchd.calls.outcome import Answer, Outcome
from tooldispatchd.catalog.schemas import Check
from tooldispatchd.providers.mcp.decoding import decode_in_steps
from tooldispatchd.providers.mcp.messages import DECODE_ERRORS, Incoming
from tooldispatchd.providers.mcp.server import McpTool, Result, Server
from tooldispatchd.wire.faults import Code, Fault

# A server's own words in a fault: enough for a reason, too few to bury the model in a stack trace.
MAX_MESSAGE_CHARS: Final = 2000
# Content that says nothing, as it is written without blanks.
EMPTY: Final = frozenset({"[]", "null"})


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


_decode_result: Final = msgspec.json.Decoder(_Result).decode
_decode_texts: Final = msgspec.json.Decoder(list[_Text]).decode
_decode_error: Final = msgspec.json.Decoder(_Error).decode
_encode: Final = msgspec.json.Encoder().encode


def outcome_of(reply: Incoming, tool: McpTool, server: Server) -> Outcome:
    """The outcome of a call of `tool` that `server` answered with `reply`."""
    steps = outcome_in_steps(reply, tool, server)
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            outcome: Outcome = ended.value
            return outcome


def outcome_in_steps(reply: Incoming, tool: McpTool, server: Server) -> Generator[None, None, Outcome]:
    """The same, with a stop after each pass over the bytes: a large answer must not hold up the loop whole."""
    try:
        outcome = yield from _read(reply, tool, server)
    except DECODE_ERRORS:
        return _failed(server, "its answer cannot be decoded")
    if isinstance(outcome, Answer) and _is_longer(outcome.content, server.max_content_bytes):
        return too_large(server)
    return outcome


def too_large(server: Server) -> Fault:
    """The answer was over the bound on one answer."""
    detail = f"the answer is larger than {server.max_content_bytes} bytes"
    return Fault(Code.TOOL_FAILED, detail, {"server": server.name, "limit": "content_bytes"})


def error_in(reply: Incoming) -> Raw | None:
    """The error that `reply` bears, if any; some servers write `"error": null` beside a result."""
    if isinstance(reply.error, UnsetType) or bytes(reply.error) == b"null":
        return None
    return reply.error


def error_words(error: Raw) -> tuple[str, int | float | str | None]:
    """What a JSON-RPC error says, as a phrase with its code, and the code alone."""
    try:
        said = _decode_error(error)
    except DECODE_ERRORS:
        return "an error that cannot be read", None
    message = (said.message or "an error without a message")[:MAX_MESSAGE_CHARS]
    return message if said.code is None else f"{message} (code {said.code})", said.code


def _read(reply: Incoming, tool: McpTool, server: Server) -> Generator[None, None, Outcome]:
    error = error_in(reply)
    if error is not None:
        words, code = error_words(error)
        return _failed(server, words, rpc_code=code)
    if isinstance(reply.result, UnsetType):
        return _failed(server, "its answer holds neither a result nor an error")
    try:
        result = _decode_result(reply.result)
    except msgspec.ValidationError:
        # Most often `null`, from a server whose function returned nothing.
        return _failed(server, "its result is not an object")
    yield
    if not isinstance(result.kind, UnsetType) and bytes(result.kind) not in {b'"complete"', b"null"}:
        return _failed(server, "its result is not complete: it asks for what this client does not offer")
    # Anything but a plain no counts as an error: a failure must not pass for a success.
    is_error = not isinstance(result.is_error, UnsetType) and bytes(result.is_error) not in {b"false", b"null"}
    if tool.output is not None and not is_error:
        if tool.result is Result.LISTED:
            return (yield from _checked(result.structured, tool.output))
        return (yield from _typed(result, tool, tool.output))
    if tool.output is not None and not isinstance(result.structured, UnsetType) and bytes(result.structured) != b"null":
        return Answer(_compact(result.structured), is_error)
    text = _text_of(result.content)
    if text is None:
        return _failed(server, "its content is not a list")
    return Answer(text, is_error)


def _checked(structured: Raw | UnsetType, output: Check) -> Generator[None, None, Outcome]:
    if isinstance(structured, UnsetType):
        return _invalid("structuredContent is missing, though the tool declares an output schema")
    value = yield from decode_in_steps(structured)
    yield
    return (yield from _delivered(value, output))


def _typed(result: _Result, tool: McpTool, output: Check) -> Generator[None, None, Outcome]:
    """The value of a tool whose type is declared; a server that says nothing at all has said null."""
    structured = result.structured
    if not isinstance(structured, UnsetType) and bytes(structured) != b"null":
        return (yield from _checked(structured, output))
    text = None if isinstance(result.content, UnsetType) else _lone_text(result.content)
    if text is None:
        if isinstance(result.content, UnsetType) or _compact(result.content) in EMPTY:
            return (yield from _delivered(None, output))
        return _invalid("its answer is neither structuredContent nor one block of text")
    yield
    try:
        value: object = yield from decode_in_steps(Raw(text.encode()))
    except DECODE_ERRORS:
        if tool.result is not Result.TEXT:
            return _invalid("its text is not JSON, as its declared type needs")
        value = text
    yield
    if tool.result is Result.TEXT and not isinstance(value, str):
        # A text that happens to be JSON too: `42`, or a file of settings.
        value = text
    return (yield from _delivered(value, output))


def _invalid(why: str) -> Fault:
    return Fault(Code.INVALID_OUTPUT, why, {"violations": [{"path": "", "message": why}]})


def _delivered(value: object, output: Check) -> Generator[None, None, Outcome]:
    if not output.is_valid(value):
        violations = [{"path": each.path, "message": each.message} for each in output.violations(value)]
        first = violations[0] if violations else {"path": "", "message": "does not match the output schema"}
        detail = f"{first['path']}: {first['message']}" if first["path"] else first["message"]
        return Fault(Code.INVALID_OUTPUT, detail, {"violations": violations})
    yield
    # Encoded anew: what is delivered is what was checked, also where a key stood twice.
    content = _encode(value)
    yield
    # Freeing a million parts is a pass of its own.
    del value
    yield
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


def _is_longer(text: str, max_bytes: int) -> bool:
    """Whether `text` takes more than `max_bytes` in UTF-8; encodes it only where its length cannot tell."""
    if len(text) * 4 <= max_bytes:
        return False
    return len(text) > max_bytes or (not text.isascii() and len(text.encode()) > max_bytes)


def _failed(server: Server, why: str, *, rpc_code: int | float | str | None = None) -> Fault:
    extras: dict[str, object] = {"server": server.name}
    if rpc_code is not None:
        extras["rpc_code"] = rpc_code
    return Fault(Code.TOOL_FAILED, f"the call failed at server {server.name}: {why}", extras)
