"""A server's resources and prompts as three tools of its own prefix (MCP, "Resources" and "Prompts").

Each tool's arguments are the parameters of the request that it stands for, so they are closed to everything else. What
the server says of its prompts goes into the description of `get_prompt`, which is bounded like any other.
"""

from typing import Final
from weakref import WeakValueDictionary

import msgspec
from msgspec import Raw

from tooldispatchd.catalog.schemas import compile_check
from tooldispatchd.providers.mcp.messages import DECODE_ERRORS, MAX_CURSOR_CHARS
from tooldispatchd.providers.mcp.server import McpTool

# More than a model reads in one description.
MAX_PROMPTS: Final = 200
MAX_PROMPT_PAGES: Final = 16
MAX_PAGE_BYTES: Final = 512 * 1024
# As of tools: MCP's guidance on names.
MAX_NAME_CHARS: Final = 128
# Forms have fewer fields.
MAX_ARGUMENTS: Final = 32
# In the description of `get_prompt`, which stands in every model request: of one prompt or argument, and of all.
MAX_SENTENCE_CHARS: Final = 300
MAX_DESCRIPTION_CHARS: Final = 16 * 1024

READ_ONLY: Final = Raw(b'{"readOnlyHint":true}')


class PromptArgument(msgspec.Struct, frozen=True):
    """One argument of a prompt; its value is text."""

    name: str
    description: str = ""
    is_required: bool = False


class Prompt(msgspec.Struct, frozen=True):
    """One prompt that a server listed."""

    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


class _Page(msgspec.Struct):
    prompts: list[Raw]
    cursor: str | None = msgspec.field(default=None, name="nextCursor")


class _Argument(msgspec.Struct):
    name: str
    description: str | None = None
    required: bool | None = None


class _Prompt(msgspec.Struct):
    name: str
    description: str | None = None
    arguments: list[_Argument] | None = None


_decode_page: Final = msgspec.json.Decoder(_Page).decode
_decode_prompt: Final = msgspec.json.Decoder(_Prompt).decode


def _tool(
    name: str, method: str, *, description: str, properties: dict[str, object], required: list[str] | None = None
) -> McpTool:
    schema: dict[str, object] = {
        "type": "object",
        "properties": properties,
        "required": required or [],
        "additionalProperties": False,
    }
    return McpTool(
        name=name,
        description=description,
        input_schema=schema,
        annotations=READ_ONLY,
        input=compile_check(schema),
        method=method,
    )


_URI: Final = {
    "type": "string",
    "minLength": 1,
    "description": "The resource's URI, as list_resources or another tool of this server gave it.",
}
_READ: Final = _tool(
    "read_resource",
    "resources/read",
    description="Read one resource of this server by its URI. A single text comes back as it is, anything else as a "
    "JSON array of contents, with binary ones in base64.",
    properties={"uri": _URI},
    required=["uri"],
)
_CURSOR: Final = {"type": "string", "description": "The nextCursor of the answer before, if it had one."}
_LIST: Final = _tool(
    "list_resources",
    "resources/list",
    description="List the resources of this server: their URIs, names, descriptions and types. Where the answer has a "
    "nextCursor, call again with it for more.",
    properties={"cursor": _CURSOR},
)

# Equal servers of many sessions list equal prompts; for as long as some connection holds the tool.
_shared: Final[WeakValueDictionary[str, McpTool]] = WeakValueDictionary()


def resource_tools(*, has_resources: bool, prompts: list[Prompt] | None) -> list[McpTool]:
    """The tools that stand for a server's resources and prompts; none for prompts where it has, or listed, none."""
    tools = [_READ, _LIST] if has_resources else []
    if not prompts:
        return tools
    description = _describe(prompts)
    key = "\n".join([description, *(prompt.name for prompt in prompts)])
    tool = _shared.get(key)
    if tool is None:
        name: dict[str, object] = {
            "type": "string",
            "minLength": 1,
            "description": "The prompt's name, as listed above.",
        }
        names = list(dict.fromkeys(prompt.name for prompt in prompts))
        if len(names) < MAX_PROMPTS:
            # They are all known, so that a slip is told with what there is.
            name["enum"] = names
        arguments = {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "The prompt's arguments by name; every value is text.",
        }
        tool = _shared[key] = _tool(
            "get_prompt",
            "prompts/get",
            description=description,
            properties={"name": name, "arguments": arguments},
            required=["name"],
        )
    return [*tools, tool]


def read_prompts(result: Raw, *, is_modern: bool = False) -> tuple[list[Prompt], str | None] | None:
    """One page of `prompts/list`: its prompts, without those that cannot be read, and the cursor of the next page.

    None where the page cannot be read, or is larger than `MAX_PAGE_BYTES`. Whoever asks for the pages stops after
    `MAX_PROMPT_PAGES` of them, and at `MAX_PROMPTS`.
    """
    if len(memoryview(result)) > MAX_PAGE_BYTES:
        return None
    try:
        page = _decode_page(result)
    except DECODE_ERRORS:
        return None
    read = [_read_prompt(each) for each in page.prompts[:MAX_PROMPTS]]
    # One that is too long to be sent back ends the list, as none does, and as an empty one does up to 2025-11-25.
    is_last = page.cursor is None or not (page.cursor or is_modern) or len(page.cursor) > MAX_CURSOR_CHARS
    return [each for each in read if each is not None], None if is_last else page.cursor


def _read_prompt(raw: Raw) -> Prompt | None:
    try:
        said = _decode_prompt(raw)
    except DECODE_ERRORS:
        return None
    if not 0 < len(said.name) <= MAX_NAME_CHARS or not said.name.isprintable():
        return None
    # An argument that cannot be named can be left out, too.
    arguments = [
        PromptArgument(each.name, _sentence(each.description), bool(each.required))
        for each in (said.arguments or [])[:MAX_ARGUMENTS]
        if 0 < len(each.name) <= MAX_NAME_CHARS and each.name.isprintable()
    ]
    return Prompt(said.name, _sentence(said.description), tuple(arguments))


def _sentence(text: str | None) -> str:
    """`text` on one line, cut to a sentence's length."""
    # Cut before it is looked at, as it may be long; blanks between words are few.
    words = "".join(each if each.isprintable() else " " for each in (text or "")[: MAX_SENTENCE_CHARS * 2]).split()
    line = " ".join(words)
    return line if len(line) <= MAX_SENTENCE_CHARS else line[: MAX_SENTENCE_CHARS - 1] + "…"


def _describe(prompts: list[Prompt]) -> str:
    lines = ["Get a prompt that this server has prepared: a list of messages, filled in with your arguments. It has:"]
    room = MAX_DESCRIPTION_CHARS
    shown = prompts[:MAX_PROMPTS]
    for count, prompt in enumerate(shown):
        arguments = [
            each.name + ("" if each.is_required else "?") + (f" ({each.description})" if each.description else "")
            for each in prompt.arguments
        ]
        line = f"- {prompt.name}({', '.join(arguments)})" + (f": {prompt.description}" if prompt.description else "")
        room -= len(line)
        if room < 0:
            lines.append(f"- and {len(shown) - count} more")
            break
        lines.append(line)
    return "\n".join(lines)
