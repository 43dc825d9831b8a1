"""What a call gave, as an MCP `CallToolResult` of the client's revision; and tools as it lists them."""

import re
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tooldispatchd.mcpface.daemonside import DaemonLine, ToldFault, fault_of
from tooldispatchd.mcpface.jsonrpc import UNREADABLE, is_object, members
from tooldispatchd.mcpface.paramheaders import with_marks
from tooldispatchd.mcpface.revisions import Revision
from tooldispatchd.wire.faults import text_of

_read_parts: Final = msgspec.json.Decoder(list[Raw]).decode
_skim: Final = msgspec.json.Decoder(Raw).decode
_read_fields: Final = msgspec.json.Decoder(dict[str, object]).decode

# The member of `_meta` that has a fault whole.
FAULT: Final = "tooldispatchd/fault"
# Frames of Python and of JavaScript: they are for whoever wrote the tool, who reads them in the log.
_FRAMES: Final = re.compile(
    r"^[ \t|+]*(?:Exception Group )?Traceback \(most recent call last\):\n(?:[ \t].*(?:\n|\Z))*|^[ \t]+at .*(?:\n|\Z)",
    re.MULTILINE,
)


class ListedTool(msgspec.Struct, omit_defaults=True, rename="camel"):
    """A tool of `ready` in the form `mcp`."""

    name: str
    title: Raw | UnsetType = UNSET
    description: Raw | UnsetType = UNSET
    input_schema: Raw | UnsetType = UNSET
    output_schema: Raw | UnsetType = UNSET
    annotations: Raw | UnsetType = UNSET
    execution: Raw | UnsetType = UNSET
    icons: Raw | UnsetType = UNSET
    meta: Raw | UnsetType = msgspec.field(default=UNSET, name="_meta")


class _Ui(msgspec.Struct):
    visibility: tuple[str, ...] = ("model",)


class _ToolMeta(msgspec.Struct):
    ui: _Ui = msgspec.field(default_factory=_Ui)


class _RootType(msgspec.Struct):
    type: str | list[str] = ""


_read_tool: Final = msgspec.json.Decoder(ListedTool).decode
_read_meta: Final = msgspec.json.Decoder(_ToolMeta).decode
_read_root: Final = msgspec.json.Decoder(_RootType).decode


def is_for_models(tool: ListedTool) -> bool:
    """Whether a server means a tool for more than its app (MCP Apps, `visibility`)."""
    try:
        return isinstance(tool.meta, UnsetType) or "model" in _read_meta(tool.meta).ui.visibility
    except UNREADABLE:
        return True


def listed_tool(raw: Raw, revision: Revision) -> ListedTool | None:
    """The tool without what that revision does not know; None for what is none."""
    try:
        tool = _read_tool(raw)
        # Until it could be any schema, it was an object's.
        is_object = not isinstance(tool.output_schema, UnsetType) and _read_root(tool.output_schema).type == "object"
    except UNREADABLE:
        return None
    if not revision.has_structure:
        tool.title = tool.meta = UNSET
    if not revision.has_icons:
        tool.icons = UNSET
    if not revision.has_structure or not (is_object or revision.is_stateless):
        tool.output_schema = UNSET
    if not revision.has_annotations:
        tool.annotations = UNSET
    if not isinstance(tool.input_schema, UnsetType):
        tool.input_schema = with_marks(tool.input_schema, is_kept=revision.is_stateless)
    return tool


def text_part(text: str) -> dict[str, str]:
    """A part that is a text."""
    return {"type": "text", "text": text}


def called(line: DaemonLine, revision: Revision, *, is_structured: bool) -> dict[str, object]:
    """Make the result of `tools/call`; a fault is its code and sentence as text, and whole in `_meta`."""
    fault = fault_of(line)
    if fault is not None:
        fields = _without_frames(line.content or "", fault)
        return {"content": [text_part(text_of(fields))], "isError": True, "_meta": {FAULT: fields}}
    result: dict[str, object] = {"content": _parts(line, revision)}
    if line.is_error:
        return {**result, "isError": True}
    structure = _structure(line, revision) if is_structured else None
    return result if structure is None else {**result, "structuredContent": structure}


def _without_frames(content: str, fault: ToldFault) -> dict[str, object]:
    """Read the fields of a fault, without tracebacks in its tool's last output."""
    try:
        fields = _read_fields(content)
    except UNREADABLE:
        return {"error": fault.error, "detail": fault.detail}
    for name in ("stdout_tail", "stderr_tail"):
        tail = fields.get(name)
        if isinstance(tail, str) and (kept := _FRAMES.sub("", tail)) != tail:
            # What is left repeats the sentence where the daemon knew the exception.
            fields[name] = "" if kept.strip() in fault.detail else kept
    return fields


def _structure(line: DaemonLine, revision: Revision) -> Raw | None:
    # A long value stands in its line only once, as text.
    value = Raw((line.content or "").encode()) if isinstance(line.value, UnsetType) else line.value
    if not revision.is_stateless and not is_object(value):
        return None
    try:
        return _skim(value) if value is not line.value else value
    except UNREADABLE:
        return None


def _parts(line: DaemonLine, revision: Revision) -> object:
    if isinstance(line.blocks, UnsetType):
        return [text_part(line.content or "")]
    if revision.has_structure:
        return line.blocks
    try:
        return [_older(part, revision) for part in _read_parts(line.blocks)]
    except UNREADABLE:
        return [text_part(line.content or "")]


def _older(part: Raw, revision: Revision) -> object:
    """A part as a revision without links and `_meta` knows it: what it does not know becomes a text."""
    fields = members(part)
    fields.pop("_meta", None)
    kind = msgspec.json.decode(fields.get("type", b'""'), type=str)
    if kind == "resource_link":
        return text_part(msgspec.json.decode(fields.get("uri", b'""'), type=str))
    if kind == "audio" and not revision.has_audio:
        return text_part("[audio]")
    return fields
