"""`tools/list`: from the server's pages to the tools that a session may use, and warnings about the others.

A tool that cannot be used never keeps the others from being used; each bound is there because the list is a foreign
program's and its tools lie in memory for as long as the session.
"""

import hashlib
from typing import Final
from weakref import WeakValueDictionary

import msgspec
from msgspec import UNSET, Raw, UnsetType

from tooldispatchd.catalog.names import is_server_tool_name
from tooldispatchd.catalog.schemas import MAX_SCHEMA_BYTES, Check, SchemaError, compile_check
from tooldispatchd.providers.mcp.messages import DECODE_ERRORS
from tooldispatchd.providers.mcp.server import McpTool, Server

# More than any model chooses from.
MAX_TOOLS: Final = 1000
# A thousand tools of 16 KiB; what is decoded of it lies in memory at once.
MAX_PAGE_BYTES: Final = 16 * 1024 * 1024
# A page holds a tool at least, so this many pages hold all that is taken.
MAX_PAGES: Final = MAX_TOOLS
# Opaque, and sent back as it came; servers put an offset or a key there.
MAX_CURSOR_CHARS: Final = 4096
# All descriptions go into every model request; one of this size is a mistake already.
MAX_DESCRIPTION_CHARS: Final = 64 * 1024
# Warnings go into `ready`; a server with a thousand bad names has one problem, not a thousand.
MAX_WARNINGS: Final = 20


class _Page(msgspec.Struct):
    tools: list[Raw]
    cursor: str | None = msgspec.field(default=None, name="nextCursor")


class _Named(msgspec.Struct):
    name: str


class _Listed(msgspec.Struct):
    name: str
    title: str | None = None
    description: str | None = None
    input_schema: Raw | UnsetType = msgspec.field(default=UNSET, name="inputSchema")
    output_schema: Raw | UnsetType = msgspec.field(default=UNSET, name="outputSchema")
    annotations: Raw | UnsetType = UNSET


_decode_page: Final = msgspec.json.Decoder(_Page).decode
_decode_named: Final = msgspec.json.Decoder(_Named).decode
_decode_listed: Final = msgspec.json.Decoder(_Listed).decode
_decode_schema: Final = msgspec.json.Decoder(dict[str, object]).decode

# Equal servers of many sessions offer equal tools; a compiled schema is the largest part of an idle connection. By
# digest of the tool's bytes, and only for as long as some connection holds the tool.
_shared: Final[WeakValueDictionary[bytes, McpTool]] = WeakValueDictionary()


class ToolError(Exception):
    """A listed tool that is left out, and why."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Listing:
    """The tools of one server as its pages come in: `tools` by name in the server's order, and `warnings`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._offered: set[str] = set()
        self._cursors: set[str] = set()
        self._unshown = 0
        self.tools: dict[str, McpTool] = {}
        self.warnings: list[str] = []

    def read_page(self, result: Raw) -> tuple[list[Raw], str | None] | None:
        """A page's tools, still to be added, and the cursor of the next page if there is one to ask for.

        None where the page cannot be read, or is too large to be.
        """
        if len(bytes(result)) > MAX_PAGE_BYTES:
            return None
        try:
            page = _decode_page(result)
        except DECODE_ERRORS:
            return None
        if len(page.tools) > MAX_TOOLS:
            self._warn(f"the list of tools is cut short: a server may have {MAX_TOOLS} tools")
            return page.tools[:MAX_TOOLS], None
        # Some servers say "no more" with an empty cursor instead of none.
        return page.tools, self._next(page.cursor) if page.cursor else None

    def add(self, raw: Raw) -> None:
        """Take one listed tool, or warn of why not."""
        try:
            name = _decode_named(raw).name
        except DECODE_ERRORS:
            self._warn("a listed tool has no name that can be read")
            return
        if not self._is_wanted(name):
            return
        try:
            self._check_name(name)
            self._offered.add(name)
            self.tools[name] = _read_tool(raw)
        except ToolError as error:
            self._warn(f"tool {name[:128]!a} is left out: {error.why}")

    def missing(self) -> str | None:
        """The first whitelisted tool that cannot be used; None where all can."""
        wanted = self._server.whitelist or ()
        return next((name for name in wanted if name not in self.tools and name not in self._server.deny), None)

    def all_warnings(self) -> list[str]:
        """The warnings, and how many more there were."""
        more = [f"{self._unshown} more warnings"] if self._unshown else []
        return self.warnings + more

    def _is_wanted(self, name: str) -> bool:
        server = self._server
        is_offered = server.whitelist is None or name in server.whitelist
        return (is_offered or name in server.declared) and name not in server.deny

    def _check_name(self, name: str) -> None:
        if not is_server_tool_name(name):
            raise ToolError("a name has 1 to 128 letters, digits and _ . / -")
        if name in self._offered:
            raise ToolError("it is listed twice, and the first is used")
        if len(self._offered) == MAX_TOOLS:
            raise ToolError(f"a server may have {MAX_TOOLS} tools")

    def _next(self, cursor: str) -> str | None:
        why = self._why_last(cursor)
        if why is not None:
            self._warn(f"the list of tools is cut short: {why}")
            return None
        self._cursors.add(cursor)
        return cursor

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

    def _warn(self, why: str) -> None:
        if len(self.warnings) < MAX_WARNINGS:
            self.warnings.append(why)
        else:
            self._unshown += 1


def _read_tool(raw: Raw) -> McpTool:
    digest = hashlib.blake2b(raw, digest_size=32).digest()
    tool = _shared.get(digest)
    if tool is None:
        tool = _shared[digest] = _compile_tool(raw)
    return tool


def _compile_tool(raw: Raw) -> McpTool:
    try:
        listed = _decode_listed(raw)
    except DECODE_ERRORS:
        raise ToolError("its entry cannot be read") from None
    if isinstance(listed.input_schema, UnsetType):
        raise ToolError("it has no inputSchema")
    input_schema, input_check = _compile_schema(listed.input_schema, "inputSchema")
    output_schema: dict[str, object] | None = None
    output_check: Check | None = None
    if not isinstance(listed.output_schema, UnsetType) and bytes(listed.output_schema) != b"null":
        output_schema, output_check = _compile_schema(listed.output_schema, "outputSchema")
    return McpTool(
        name=listed.name,
        title=listed.title,
        description=(listed.description or "")[:MAX_DESCRIPTION_CHARS],
        input_schema=input_schema,
        output_schema=output_schema,
        # A copy, because a slice would hold the whole page in memory.
        annotations=None if isinstance(listed.annotations, UnsetType) else listed.annotations.copy(),
        input=input_check,
        output=output_check,
    )


def _compile_schema(raw: Raw, field: str) -> tuple[dict[str, object], Check]:
    # The compiler has this bound too; it is looked at before the schema is decoded.
    if len(bytes(raw)) > MAX_SCHEMA_BYTES:
        raise ToolError(f"its {field} is larger than {MAX_SCHEMA_BYTES} bytes")
    try:
        schema = _decode_schema(raw)
    except DECODE_ERRORS:
        raise ToolError(f"its {field} is not an object that can be read") from None
    try:
        return schema, compile_check(schema)
    except SchemaError as error:
        raise ToolError(f"its {field} is broken: {error}") from error
