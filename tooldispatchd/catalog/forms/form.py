"""The door of the forms: `render` shows a tool in one of them. The two that take schemas as they are stand here too."""

from collections.abc import Callable
from typing import Final

import msgspec

from tooldispatchd.catalog.forms.anthropic import render_anthropic
from tooldispatchd.catalog.forms.drafts import REFERENCES, is_short
from tooldispatchd.catalog.forms.evident import evident
from tooldispatchd.catalog.forms.google import render_google
from tooldispatchd.catalog.forms.merging import as_object, properties_of, types_alone
from tooldispatchd.catalog.forms.openai import render_openai, render_openai_responses
from tooldispatchd.catalog.forms.propertynames import PROPERTY_NAMES, shown_properties, with_shown
from tooldispatchd.catalog.forms.rendered import MAX_NOTES, Notes, Rendered
from tooldispatchd.catalog.forms.rewriting import Allowance, rewrite
from tooldispatchd.catalog.names import is_plain, split_name
from tooldispatchd.catalog.offered import Offered, annotations_in, is_object, read_words
from tooldispatchd.catalog.problems import cut
from tooldispatchd.catalog.schemakeywords import subschemas


def render_plain(tool: Offered, name: str) -> Rendered:
    """`{name, title?, description, input_schema, tags?, unenforced?}`; what may be left out only where there is any."""
    entry: dict[str, object] = {"name": name}
    if tool.title is not None:
        entry["title"] = tool.title
    entry["description"] = tool.description
    entry["input_schema"] = tool.input_schema
    if tool.tags:
        entry["tags"] = list(tool.tags)
    if tool.unenforced:
        entry["unenforced"] = list(tool.unenforced)
    return Rendered(entry)


_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


def render_mcp(tool: Offered, name: str) -> Rendered:
    """Show a tool as the specification's `Tool` is, with `icons` and `_meta` as its server wrote them.

    MCP wants `type: object` at both roots: it is added to an input's, and another output's schema is left out.
    """
    schema, notes = tool.input_schema, Notes()
    if not is_object(schema):
        # Where a reference may lead to the root, a type added there would hold for what refers to it too.
        if is_short(schema) and all(
            str(node[key]).startswith("#/") for node in subschemas(schema) for key in REFERENCES & node.keys()
        ):
            schema = {**schema, "type": "object"}
        else:
            notes.add("any object may stand at", (), "but is not described: it refers to itself, or is long")
            schema = {"type": "object"}
    entry: dict[str, object] = {"name": name}
    if tool.title is not None:
        entry["title"] = tool.title
    entry["description"] = tool.description
    entry["inputSchema"] = schema
    if tool.output_schema is not None and is_object(tool.output_schema):
        entry["outputSchema"] = tool.output_schema
    annotations = _annotations(tool.annotations)
    if annotations:
        entry["annotations"] = annotations
    icons, meta = read_words(tool.icons), read_words(tool.meta)
    if isinstance(icons, list):
        entry["icons"] = icons
    if isinstance(meta, dict):
        entry["_meta"] = meta
    return Rendered(entry, notes.phrases())


def _annotations(said: msgspec.Raw | None) -> dict[str, object]:
    """The annotations of a server's tool that the specification knows, where they have the right type."""
    known = annotations_in(said)
    title = known.get("title")
    kept: dict[str, object] = {"title": title} if isinstance(title, str) else {}
    return kept | {hint: known[hint] for hint in _HINTS if isinstance(known.get(hint), bool)}


_RENDERERS: Final[dict[str, Callable[[Offered, str], Rendered]]] = {
    "plain": render_plain,
    "text": render_plain,
    "anthropic": render_anthropic,
    "openai": render_openai,
    "openai_responses": render_openai_responses,
    "google": render_google,
    "mcp": render_mcp,
}

_UNTITLED: Final = frozenset({"anthropic", "openai", "openai_responses", "google"})
# Of a name that stands in its tool's description.
MAX_OWN_NAME: Final = 200

FORMS: Final = frozenset(_RENDERERS)
"""The names of all forms; `openai` is that of chat completions, `text` goes with a prompt (`textcalls`)."""


def render(form: str, tool: Offered, name: str) -> Rendered:
    """A tool in a form of `FORMS`, under `name`, which is spelled for the form already. `KeyError` at another form.

    Every object that the tool's own schema admits is admitted by the shown one: what a form cannot say is left open,
    and noted. One thing is not: `google` cannot describe arrays in an array of anything. The tool's schemas must be
    ones that compile (`compile_check`), which bounds them; rendering a hostile one takes some 10 ms.
    """
    tool = msgspec.structs.replace(tool, input_schema=evident(tool.input_schema))
    if form == "mcp" and tool.output_schema is not None:
        # No other form shows it.
        tool = msgspec.structs.replace(tool, output_schema=evident(tool.output_schema))
    return _render(form, tool, name, tool.input_schema)


def _render(form: str, tool: Offered, name: str, described: dict[str, object]) -> Rendered:
    """The tool with its input as a schema describes it that says as much as its own, or less."""
    notes = Notes()
    shown = with_shown(form, described, notes, tool.input_schema)
    rendered = _RENDERERS[form](_named(form, msgspec.structs.replace(tool, input_schema=shown)), name)
    return Rendered(rendered.entry, (*notes.phrases(), *rendered.notes)[:MAX_NOTES])


def _named(form: str, tool: Offered) -> Offered:
    """The tool with its own name in its description, where a form spells that beyond recognition and has no title."""
    own = split_name(tool.name)[1]
    if form not in _UNTITLED or is_plain(own) or own in tool.description:
        return tool
    shown = "".join(each if each.isprintable() else " " for each in cut(own, MAX_OWN_NAME))
    return msgspec.structs.replace(tool, description=f"{shown}: {tool.description}" if tool.description else shown)


MENDING: Final = frozenset(PROPERTY_NAMES)
"""The forms that show some properties by other names than their own."""


def own_names(schema: dict[str, object]) -> dict[str, str]:
    """Map each mended name of a property to the tool's own."""
    return {shown: name for name, shown in shown_properties(schema).items()}


IN_BRIEF: Final = "its input is described in brief: the list is too long"
# Each property of an ordinary tool with its type, and a line about the first hundred: some 15 KiB of JSON at most.
BRIEF: Final = Allowance(parts=300, chars=8 * 1024, text=80)


# Of a description; a page of advice is no reason to say nothing of a hundred inputs.
BRIEF_CHARS: Final = 1024


def render_brief(form: str, tool: Offered, name: str) -> Rendered:
    """A tool as `render` shows it, less said of it and its input, and nothing of its output; its note says so."""
    return _in_brief(form, tool, name, as_object(rewrite(tool.input_schema, Notes(), BRIEF), Notes()))


def render_terse(form: str, tool: Offered, name: str) -> Rendered:
    """Render a tool as `render_brief` does, with the types of the input's properties alone."""
    brief = as_object(rewrite(tool.input_schema, Notes(), BRIEF), Notes())
    types = {key: types_alone(one) for key, one in properties_of(brief).items()}
    return _in_brief(form, tool, name, {**brief, "properties": types})


def _in_brief(form: str, tool: Offered, name: str, described: dict[str, object]) -> Rendered:
    short = msgspec.structs.replace(tool, output_schema=None, description=cut(tool.description, BRIEF_CHARS))
    rendered = _render(form, short, name, described)
    return Rendered(rendered.entry, (IN_BRIEF,))


NOT_DESCRIBED: Final = "its input is not described: the list is too long"


def render_open(form: str, tool: Offered, name: str) -> Rendered:
    """A tool as `render` shows it, its input any object, and nothing said of its output; `KeyError` likewise.

    It takes the same time for every tool, for lists of tools that have taken too long already. Its note says so.
    """
    bare = msgspec.structs.replace(
        tool,
        description=cut(tool.description, BRIEF_CHARS),
        input_schema={"type": "object", "properties": {}},
        output_schema=None,
        annotations=None,
        icons=None,
        meta=None,
    )
    return Rendered(_RENDERERS[form](_named(form, bare), name).entry, (NOT_DESCRIBED,))


CUTS: Final = (render, render_brief, render_terse, render_open)
"""How a tool is shown, less and less said of its input."""
