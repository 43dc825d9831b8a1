"""`render` shows a tool in one of the forms; which forms there are."""

from collections.abc import Callable
from typing import Final

import msgspec

from tooldispatchd.catalog.forms.anthropic import render_anthropic
from tooldispatchd.catalog.forms.google import render_google
from tooldispatchd.catalog.forms.mcp import render_mcp
from tooldispatchd.catalog.forms.openai import render_openai, render_openai_responses
from tooldispatchd.catalog.forms.plain import render_plain
from tooldispatchd.catalog.forms.rendered import Rendered
from tooldispatchd.catalog.offered import Offered

_RENDERERS: Final[dict[str, Callable[[Offered, str], Rendered]]] = {
    "plain": render_plain,
    "anthropic": render_anthropic,
    "openai": render_openai,
    "openai_responses": render_openai_responses,
    "google": render_google,
    "mcp": render_mcp,
}

FORMS: Final = frozenset(_RENDERERS)
"""The names of all forms; `openai` is that of chat completions."""


def render(form: str, tool: Offered, name: str) -> Rendered:
    """A tool in a form of `FORMS`, under `name`, which is spelled for the form already. `KeyError` at another form.

    Every object that the tool's own schema admits is admitted by the shown one: what a form cannot say is left open,
    and noted. One thing is not: `google` cannot describe arrays in an array of anything. The tool's schemas must be
    ones that compile (`compile_check`), which bounds them; rendering a hostile one takes some 10 ms.
    """
    return _RENDERERS[form](tool, name)


NOT_DESCRIBED: Final = "its input is not described: the list is too long"


def render_open(form: str, tool: Offered, name: str) -> Rendered:
    """A tool as `render` shows it, its input any object, and nothing said of its output; `KeyError` likewise.

    It takes the same time for every tool, for lists of tools that have taken too long already. Its note says so.
    """
    bare = msgspec.structs.replace(
        tool, input_schema={"type": "object", "properties": {}}, output_schema=None, annotations=None
    )
    return Rendered(_RENDERERS[form](bare, name).entry, (NOT_DESCRIBED,))
