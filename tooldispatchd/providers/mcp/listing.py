"""`tools/list`: from the server's pages to the tools that a session may use, and warnings about the others.

A tool that cannot be used never keeps the others from being used; each bound is there because the list is a foreign
program's and its tools lie in memory for as long as the session.
"""

import hashlib
from contextlib import suppress
from typing import Final, NamedTuple
from weakref import WeakValueDictionary, finalize

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tooldispatchd.calls.memory import Share
from tooldispatchd.catalog.foreignschemas import ForeignSchema, NoObjectError, read_foreign
from tooldispatchd.catalog.globs import NameList, insisted
from tooldispatchd.catalog.names import MAX_SERVER_TOOL, is_plain, is_server_tool_name, nearest
from tooldispatchd.catalog.schemas import (
    ACCEPT,
    LIGHT_PATTERNS,
    LIGHT_SCHEMA_BYTES,
    MAX_SCHEMA_BYTES,
    Check,
    ExternalReferenceError,
    LazyCheck,
    SchemaError,
    bound_schema,
    is_light,
)
from tooldispatchd.catalog.serverdenials import ServerDenials
from tooldispatchd.checkers.pool import CheckerError, Running
from tooldispatchd.providers.mcp.greeting import is_complete
from tooldispatchd.providers.mcp.headers import ParamHeaderError, read_param_headers
from tooldispatchd.providers.mcp.messages import DECODE_ERRORS, MAX_CURSOR_CHARS, decoded
from tooldispatchd.providers.mcp.server import McpTool, Server

# More than any model chooses from.
MAX_TOOLS: Final = 1000
# As of all tools; what is decoded of it lies in memory at once.
MAX_PAGE_BYTES: Final = 4 * 1024 * 1024
# Two schemas of the largest size, and a description.
MAX_TOOL_BYTES: Final = 640 * 1024
# What is larger is cut into its tools by a checker.
LIGHT_PAGE_BYTES: Final = 64 * 1024
# A page holds a tool at least, so this many pages hold all that is taken.
MAX_PAGES: Final = MAX_TOOLS
# Of all tools that are wanted: a thousand of 4 KiB. Decoded and compiled they take some forty times as much.
MAX_LIST_BYTES: Final = 4 * 1024 * 1024
# Measured: what a byte of a tool's entry takes once its schemas are decoded and compiled, and a state of a pattern.
COMPILED_BYTES: Final = 40
PATTERN_STATE_BYTES: Final = 400
# All descriptions go into every model request; one of this size is a mistake already.
MAX_DESCRIPTION_CHARS: Final = 64 * 1024
# A name for people, and four yes or no about the tool with a title of their own: longer annotations are something else.
MAX_TITLE_CHARS: Final = 1024
MAX_ANNOTATIONS_BYTES: Final = 16 * 1024
# Icons may be pictures as `data:` URIs; `_meta` names a page of an app.
MAX_META_BYTES: Final = 64 * 1024
# Warnings go into `ready`; a server with a thousand bad names has one problem, not a thousand.
MAX_WARNINGS: Final = 20
# A list that a server calls good for longer is asked for once a day all the same.
MAX_TTL_S: Final = 24 * 3600.0


class _Page(msgspec.Struct):
    tools: list[Raw]
    cursor: str | None = msgspec.field(default=None, name="nextCursor")
    kind: Raw | UnsetType = msgspec.field(default=UNSET, name="resultType")
    ttl_ms: Raw | UnsetType = msgspec.field(default=UNSET, name="ttlMs")


class _NamingPage(msgspec.Struct):
    tools: dict[str, dict[str, Raw]]


class _CutPage(msgspec.Struct):
    """A page whose tools lie at these places."""

    spans: list[tuple[int, int]]
    cursor: str | None = None
    kind: Raw | UnsetType = UNSET
    ttl_ms: Raw | UnsetType = UNSET


class _Named(msgspec.Struct):
    name: str


class _Listed(msgspec.Struct):
    name: str
    title: object = None
    description: object = None
    input_schema: Raw | UnsetType = msgspec.field(default=UNSET, name="inputSchema")
    output_schema: Raw | UnsetType = msgspec.field(default=UNSET, name="outputSchema")
    annotations: Raw | UnsetType = UNSET
    execution: Raw | UnsetType = UNSET
    icons: Raw | UnsetType = UNSET
    meta: Raw | UnsetType = msgspec.field(default=UNSET, name="_meta")


class _Schemas(msgspec.Struct):
    """The schemas of a listed tool, read; or why it is left out."""

    input: ForeignSchema | None = None
    output: ForeignSchema | None = None
    why: str = ""

    @property
    def unchecked(self) -> str:
        """A sentence's end that names the keywords that are not checked, if any."""
        parts = (("inputSchema", self.input), ("outputSchema", self.output))
        told = [f"its {field} at {', '.join(read.unchecked)}" for field, read in parts if read and read.unchecked]
        return f"not checked are {'; '.join(told)}" if told else ""


class _Entry(NamedTuple):
    """A listed tool, with its schemas as they are written: `{}` and None where there is none."""

    listed: _Listed
    input_schema: object
    output_schema: object


class _Execution(msgspec.Struct):
    task: str = msgspec.field(default="", name="taskSupport")


_decode_exact_page: Final = msgspec.json.Decoder(_Page).decode
_decode_naming_page: Final = msgspec.json.Decoder(_NamingPage).decode
_decode_raws: Final = msgspec.json.Decoder(list[Raw]).decode
_decode_named: Final = msgspec.json.Decoder(_Named).decode
_decode_listed: Final = msgspec.json.Decoder(_Listed).decode
_decode_execution: Final = msgspec.json.Decoder(_Execution).decode
_decode_number: Final = msgspec.json.Decoder(float).decode
_decode_schema: Final = msgspec.json.Decoder().decode
_decode_schemas: Final = msgspec.json.Decoder(_Schemas).decode

# Equal servers of many sessions offer equal tools; a compiled schema is the largest part of an idle connection. By
# digest of the tool's bytes, and of whether headers repeat its arguments there; only for as long as some connection
# holds the tool.
_shared: Final[WeakValueDictionary[bytes, McpTool]] = WeakValueDictionary()


class ToolError(Exception):
    """A listed tool that is left out, and why."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Listing:
    """The tools of one server as its pages come in.

    `tools` are those that can be used, by name in the server's order; `left_out` and `warnings` say why others cannot.
    `listed` are the names of all that it offers, also of those that are not wanted. What is too large to be read in the
    dispatch thread goes to the `checkers`.
    """

    def __init__(
        self, server: Server, share: Share, checkers: Running, *, is_http: bool = False, is_modern: bool = False
    ) -> None:
        self._server = server
        self._wanted = [NameList(names) for names in (server.whitelist, server.allow) if names is not None]
        self._declared = NameList(server.declared)
        self._denied = ServerDenials(server.deny, server.prefixes)
        self._share = share
        self._checkers = checkers
        # Other transports have no headers, and other revisions none of arguments.
        self._has_headers = is_http and is_modern
        self._is_modern = is_modern
        self._ttl_s: float | None = None
        self._offered: set[str] = set()
        self._cursors: set[str] = set()
        self._unshown = 0
        self._bytes = 0
        # In the server's order, each once.
        self.listed: dict[str, None] = {}
        self.tools: dict[str, McpTool] = {}
        self.left_out: dict[str, str] = {}
        self.warnings: list[str] = []
        # Told behind the others, which say what cannot be called.
        self._unchecked: list[str] = []

    @property
    def ttl_s(self) -> float:
        """How long the list is good for, in seconds, as far as the server says (2026-07-28, "Caching"); 0 else."""
        return self._ttl_s or 0.0

    async def read_page(self, result: Raw) -> tuple[list[Raw], str | None] | None:
        """A page's tools, still to be added, and the cursor of the next page if there is one to ask for.

        None where the page cannot be read.
        """
        page = decoded(_decode_page, result) if len(result) <= LIGHT_PAGE_BYTES else await self._cut_page(result)
        if page is None or not is_complete(page.kind):
            return None
        ttl_s = _ttl_s(page.ttl_ms)
        self._ttl_s = ttl_s if self._ttl_s is None else min(self._ttl_s, ttl_s)
        if len(page.tools) > MAX_TOOLS:
            self.warn(f"the list of tools is cut short: a server may have {MAX_TOOLS} tools")
            return page.tools[:MAX_TOOLS], None
        # Up to 2025-11-25 some servers say "no more" with an empty cursor; from 2026-07-28 on it is one like any other.
        if page.cursor is None or not (page.cursor or self._is_modern):
            return page.tools, None
        why = self._why_last(page.cursor)
        if why is not None:
            self.warn(f"the list of tools is cut short: {why}")
            return page.tools, None
        self._cursors.add(page.cursor)
        return page.tools, page.cursor

    async def _cut_page(self, result: Raw) -> _Page | None:
        """Have a checker cut a page into its tools."""
        view = memoryview(result)
        try:
            reply, _, _ = await self._checkers.run(split_page, b"", view, turns=(self, self))
        except CheckerError:
            return None
        if not reply:
            return None
        cut = msgspec.json.decode(reply, type=_CutPage)
        return _Page([Raw(view[start:end]) for start, end in cut.spans], cut.cursor, cut.kind, cut.ttl_ms)

    async def add(self, raw: Raw) -> None:
        """Take one listed tool, or warn of why not."""
        if len(raw) > MAX_TOOL_BYTES:
            self.warn(f"a listed tool is larger than {MAX_TOOL_BYTES} bytes")
            return
        raw = _legible(raw)
        try:
            name = _decode_named(raw).name
        except DECODE_ERRORS:
            self.warn("a listed tool has no name that can be read")
            return
        if len(self.listed) < MAX_TOOLS and is_server_tool_name(name):
            self.listed[name] = None
        if not self._is_wanted(name):
            return
        try:
            self._admit(name, raw)
            tool = self.tools[name] = await self._tool_of(raw)
            if tool.unchecked:
                self.warn(f"tool {name[:128]!a}: {tool.unchecked}", self._unchecked)
        except ToolError as error:
            self.warn(f"tool {name[:128]!a} is left out: {error.why}")
            # Of one that is listed twice the first reason counts.
            if name in self.listed and name not in self.tools:
                self.left_out.setdefault(name, error.why)

    async def _tool_of(self, raw: Raw) -> McpTool:
        """The tool of an entry: one that is there, or a new one, which is held on the share for as long as it lives."""
        digest = _digest(raw, has_headers=self._has_headers)
        tool = _shared.get(digest)
        if tool is not None:
            return tool
        is_small = len(raw) <= LIGHT_SCHEMA_BYTES and is_light(raw, ACCEPT)
        entry = _read_entry(raw) if is_small else None
        if entry is not None and _is_quick(raw, entry):
            schemas, checks = _read_schemas(entry)
        else:
            schemas, checks = await self._read_apart(raw), None
            # Another connection may have made it meanwhile.
            tool = _shared.get(digest)
            if tool is not None:
                return tool
        size = COMPILED_BYTES * len(raw)
        # Before it is compiled too: a thousand that are then refused would take their time.
        if self._share.has_room(size):
            tool = _make_tool(_decode_listed(raw), schemas, checks, has_headers=self._has_headers)
            size += PATTERN_STATE_BYTES * (tool.input.patterns + (0 if tool.output is None else tool.output.patterns))
        if tool is None or not self._share.draw(size):
            raise ToolError("its schemas take more than limits.buffered_bytes has room for")
        _shared[digest] = tool
        finalize(tool, self._share.add, -size).atexit = False
        return tool

    async def _read_apart(self, raw: Raw) -> _Schemas:
        """Have a checker read the schemas of a tool that takes too long here. Raises `ToolError` where that fails."""
        try:
            reply, _, _ = await self._checkers.run(read_tool, b"", memoryview(raw), turns=(self, self))
        except CheckerError as error:
            raise ToolError(f"its schemas cannot be compiled: {error.why}") from error
        schemas = _decode_schemas(reply)
        if schemas.why:
            raise ToolError(schemas.why)
        return schemas

    def add_made(self, tool: McpTool) -> None:
        """Take a tool that is made of something else than an entry, where it is wanted; one that is listed wins."""
        if tool.name not in self.listed:
            self.listed[tool.name] = None
            if self._is_wanted(tool.name):
                self.tools[tool.name] = tool

    def missing(self) -> str | None:
        """The first whitelisted tool that cannot be used; None where all can."""
        wanted = self._server.whitelist or ()
        lacks = insisted(wanted, usable=self.tools, listed=self.listed, keeps=self._is_wanted)
        return lacks[0] if lacks else None

    def all_warnings(self) -> list[str]:
        """The warnings, with those of denied names that the server does not have, and how many more there were."""
        warnings = [*self.warnings, *self._unchecked]
        idle = self._denied.missing(self.listed) if len(self.listed) < MAX_TOOLS else []
        for name in idle[:MAX_WARNINGS]:
            # A slip would offer what was meant.
            meant = nearest(name, self.listed)
            hint = f"; did you mean {meant}?" if meant else ""
            warnings.append(f"deny names {name[:128]!a}, which it does not offer{hint}")
        return [*warnings, f"{self._unshown} more warnings"] if self._unshown else warnings

    def _is_wanted(self, name: str) -> bool:
        is_offered = all(each.admits(name) for each in self._wanted)
        return (is_offered or self._declared.admits(name)) and not self._denied.admits(name)

    def _admit(self, name: str, raw: Raw) -> None:
        if not is_server_tool_name(name):
            raise ToolError(f"a name has 1 to {MAX_SERVER_TOOL} characters")
        if name in self._offered:
            raise ToolError("it is listed twice, and the first is used")
        if len(self._offered) == MAX_TOOLS:
            raise ToolError(f"a server may have {MAX_TOOLS} tools")
        self._offered.add(name)
        if self._bytes + len(raw) > MAX_LIST_BYTES:
            raise ToolError(f"the tools of a server may have {MAX_LIST_BYTES} bytes together")
        self._bytes += len(raw)

    def _why_last(self, cursor: str) -> str | None:
        if len(cursor) > MAX_CURSOR_CHARS:
            return f"a cursor is longer than {MAX_CURSOR_CHARS} characters"
        if cursor in self._cursors:
            return "a cursor came twice"
        if len(self._cursors) + 1 == MAX_PAGES:
            return f"it has more than {MAX_PAGES} pages"
        if len(self._offered) == MAX_TOOLS:
            return f"a server may have {MAX_TOOLS} tools"
        return None

    def warn(self, why: str, warnings: list[str] | None = None) -> None:
        """Add a warning; past `MAX_WARNINGS` they are counted."""
        warnings = self.warnings if warnings is None else warnings
        if len(warnings) < MAX_WARNINGS:
            warnings.append(why)
        else:
            self._unshown += 1


def _decode_page(text: Raw | bytes) -> _Page:
    """Decode a page, also one that is a bare list, or whose tools stand by their names."""
    try:
        return _decode_exact_page(text)
    except msgspec.ValidationError:
        if bytes(memoryview(text)[:1]) == b"[":
            return _Page(_decode_raws(text))
        named = _decode_naming_page(text).tools
        if not named:
            raise
    return _Page([Raw(msgspec.json.encode({"name": name, **tool})) for name, tool in named.items()])


def _ttl_s(ttl_ms: Raw | UnsetType) -> float:
    """Seconds, within bounds; 0 where the server says nothing, or nothing that is a time."""
    if isinstance(ttl_ms, UnsetType):
        return 0.0
    try:
        said = _decode_number(ttl_ms)
    except DECODE_ERRORS:
        return 0.0
    return min(max(said / 1000, 0.0), MAX_TTL_S)


def _legible(raw: Raw) -> Raw:
    """Put U+FFFD in the place of each byte that is no UTF-8, as of a server with another encoding."""
    try:
        str(memoryview(raw), "utf-8")
    except UnicodeDecodeError:
        return Raw(bytes(raw).decode(errors="replace").encode())
    return raw


def _digest(raw: Raw, *, has_headers: bool) -> bytes:
    return hashlib.blake2b(raw, digest_size=32, person=b"headers" if has_headers else b"").digest()


def read_tool(_arguments: bytes, payload: bytearray) -> tuple[bytes, bytes]:
    """Read the schemas of a listed tool, or tell why it cannot be used (a job of a checker)."""
    try:
        schemas, _ = _read_schemas(_read_entry(Raw(payload)))
    except ToolError as error:
        schemas = _Schemas(why=error.why)
    return msgspec.json.encode(schemas), b""


def split_page(_arguments: bytes, payload: bytearray) -> tuple[bytes, bytes]:
    """The spans of the tools in a page, empty where it cannot be read (a job of a checker)."""
    text = bytes(payload)
    try:
        page = _decode_page(text)
    except DECODE_ERRORS:
        return b"", b""
    spans, start = [], 0
    # One more than is taken, so that too many are seen as such.
    for raw in page.tools[: MAX_TOOLS + 1]:
        start = text.find(bytes(raw), start)
        if start < 0:
            # Named by where it stands.
            return b"", b""
        spans.append((start, start + len(raw)))
        start += len(raw)
    small = (
        value if isinstance(value, UnsetType) or len(value) < 1000 else UNSET for value in (page.kind, page.ttl_ms)
    )
    cursor = None if page.cursor is None else page.cursor[: MAX_CURSOR_CHARS + 1]
    return msgspec.json.encode(_CutPage(spans, cursor, *small)), b""


def _read_entry(raw: Raw) -> _Entry:
    """Decode an entry with its schemas. Raises `ToolError`."""
    try:
        listed = _decode_listed(raw)
    except DECODE_ERRORS:
        raise ToolError("its entry cannot be read") from None
    execution = decoded(_decode_execution, listed.execution)
    if execution is not None and execution.task == "required":
        raise ToolError("it can only be called as a task, which is not spoken here")
    output_schema = _decoded_schema(listed.output_schema, "outputSchema")
    return _Entry(listed, _decoded_schema(listed.input_schema, "inputSchema"), output_schema)


def _decoded_schema(raw: Raw | UnsetType, field: str) -> object:
    """Decode a schema of an entry; None where there is none. Raises `ToolError`."""
    if isinstance(raw, UnsetType):
        return None
    # The compiler has this bound too; it is looked at before the schema is decoded.
    if len(memoryview(raw)) > MAX_SCHEMA_BYTES:
        raise ToolError(f"its {field} is larger than {MAX_SCHEMA_BYTES} bytes")
    try:
        schema = _decode_schema(raw)
    except DECODE_ERRORS:
        raise ToolError(f"its {field} is not an object that can be read") from None
    if isinstance(schema, str):
        with suppress(*DECODE_ERRORS):
            return _decode_schema(schema)
    return schema


def _is_quick(raw: Raw, entry: _Entry) -> bool:
    """Whether the patterns of a small tool may be compiled in the dispatch thread."""
    text = bytes(raw)
    # Nearly all tools are without; what is written with escapes may have any name.
    if b"attern" not in text and b"content" not in text and b"\\u" not in text:
        return True
    try:
        return sum(bound_schema(each) for each in entry[1:] if isinstance(each, dict)) <= LIGHT_PATTERNS
    except SchemaError:
        # What is wrong with one may be found after the other has been compiled.
        return False


def _read_schemas(entry: _Entry) -> tuple[_Schemas, tuple[Check, Check | None]]:
    """Read and compile the schemas of an entry. Raises `ToolError`."""
    source, check = _read_schema(entry.input_schema, "inputSchema", is_input=True)
    if entry.output_schema is None:
        return _Schemas(source), (check, None)
    target, output_check = _read_schema(entry.output_schema, "outputSchema", is_input=False)
    return _Schemas(source, target), (check, output_check)


def _read_schema(schema: object, field: str, *, is_input: bool) -> tuple[ForeignSchema, Check]:
    try:
        return read_foreign(schema, is_input=is_input)
    except ExternalReferenceError as error:
        raise ToolError(f"its {field} refers to {error.place}, which is never fetched") from error
    except NoObjectError as error:
        raise ToolError(f"its {field} takes no object: {error}") from error
    except SchemaError as error:
        raise ToolError(f"its {field} is broken: {error}") from error


def _make_tool(
    listed: _Listed, schemas: _Schemas, checks: tuple[Check, Check | None] | None, *, has_headers: bool
) -> McpTool:
    """Make a listed tool of its schemas; without `checks` they are compiled later. Raises `ToolError`."""
    source, target = schemas.input, schemas.output
    assert source is not None, "nobody can call a tool without it"
    if target is not None and not target.shown:
        # A schema that says nothing asks for no structured content.
        target, checks = None, checks and (checks[0], None)
    if checks is None:
        checks = LazyCheck(source.checked), None if target is None else LazyCheck(target.checked)
    try:
        params = read_param_headers(source.shown) if has_headers else ()
    except ParamHeaderError as error:
        raise ToolError(f"its {error.where} {error.why}") from error
    # What is spelt otherwise for a model is still known by its own name to people.
    said = listed.title if isinstance(listed.title, str) else ""
    title = said or (None if is_plain(listed.name) else listed.name)
    return McpTool(
        name=listed.name,
        title=title[:MAX_TITLE_CHARS] if title is not None else None,
        description=listed.description[:MAX_DESCRIPTION_CHARS] if isinstance(listed.description, str) else "",
        input_schema=source.shown,
        output_schema=None if target is None else target.shown,
        annotations=_kept(listed.annotations, MAX_ANNOTATIONS_BYTES),
        icons=_kept(listed.icons, MAX_META_BYTES),
        meta=_kept(listed.meta, MAX_META_BYTES),
        input=checks[0],
        output=checks[1],
        params=params,
        unchecked=schemas.unchecked,
    )


def _kept(said: Raw | UnsetType, max_bytes: int) -> Raw | None:
    # A copy, because a slice would hold the whole page in memory.
    return None if isinstance(said, UnsetType) or len(said) > max_bytes else said.copy()
