"""The daemon's own form: the schema as it is."""

from tooldispatchd.catalog.forms.rendered import Rendered
from tooldispatchd.catalog.offered import Offered


def render_plain(tool: Offered, name: str) -> Rendered:
    """`{name, title?, description, input_schema, unenforced?}`; `title` and `unenforced` only where there is any."""
    entry: dict[str, object] = {"name": name}
    if tool.title is not None:
        entry["title"] = tool.title
    entry["description"] = tool.description
    entry["input_schema"] = tool.input_schema
    if tool.unenforced:
        entry["unenforced"] = list(tool.unenforced)
    return Rendered(entry)
