"""A tool as it is offered to a model, before it takes the form that a model's provider reads."""

import msgspec
from msgspec import Raw


class Offered(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to say of one tool, whichever form it is said in.

    `name` is the canonical one (a declared name, or `prefix:tool`). `input_schema` is an object's always: another
    input stands wrapped in it as `{"input": …}`. `output_schema` is None where the tool has none; `annotations` are a
    server's own words about its tool. `hint` is a line for the system prompt, `doc` the text that `info` gives.
    `unenforced` are the keys that bound its program and that the machine cannot enforce.
    """

    name: str
    title: str | None = None
    description: str = ""
    input_schema: dict[str, object]
    output_schema: dict[str, object] | None = None
    annotations: Raw | None = None
    hint: str | None = None
    doc: str | None = None
    unenforced: tuple[str, ...] = ()
