"""What stands in a list of tools, in each form beside the plain one: for the JSON Schema of the daemon's lines."""

from typing import Final, Literal

import msgspec
from msgspec import UNSET, UnsetType


class AnthropicTool(msgspec.Struct):
    """One tool in the form `anthropic`."""

    name: str
    description: str
    input_schema: dict[str, object]


class OpenaiFunction(msgspec.Struct):
    """What stands in a tool of the form `openai`."""

    name: str
    description: str
    parameters: dict[str, object]
    strict: bool


class OpenaiTool(msgspec.Struct):
    """One tool in the form `openai`, of chat completions."""

    type: Literal["function"]
    function: OpenaiFunction


class OpenaiResponsesTool(OpenaiFunction, kw_only=True):
    """One tool in the form `openai_responses`."""

    type: Literal["function"]


class GoogleTool(msgspec.Struct):
    """One tool in the form `google`; one that takes nothing has no parameters."""

    name: str
    description: str
    parameters: dict[str, object] | UnsetType = UNSET


class McpTool(msgspec.Struct):
    """One tool in the form `mcp`."""

    name: str
    description: str
    inputSchema: dict[str, object]  # noqa: N815  # MCP's own spelling
    title: str | UnsetType = UNSET
    outputSchema: dict[str, object] | UnsetType = UNSET  # noqa: N815  # as above
    annotations: dict[str, object] | UnsetType = UNSET


FORMS: Final = (AnthropicTool, OpenaiTool, OpenaiResponsesTool, GoogleTool, McpTool)
"""All of them; the plain one is `wire.messages.ToolView`."""
