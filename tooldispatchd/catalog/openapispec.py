"""The table of an API that is described by a document of OpenAPI: where that is, and which of its operations are tools.

Everything that says how the API is reached is as in `[rest.NAME]`, of which such a table makes one.
"""

from typing import Annotated, Final

from msgspec import Meta

from tooldispatchd.catalog.answerspec import OutputCheck
from tooldispatchd.catalog.restspecs import RestApiSpec, RestMethod
from tooldispatchd.catalog.secrecy import Secret
from tooldispatchd.catalog.speckinds import NAME_PATTERN, SomeWord

# Of a table of `[rest]`, and before the names of tools.
ApiName = Annotated[str, Meta(pattern=NAME_PATTERN, max_length=32)]
PREFIX_PATTERN: Final = rf"{NAME_PATTERN}|^$"
ApiPrefix = Annotated[str, Meta(pattern=PREFIX_PATTERN, max_length=32)]


class OpenApiSpec(RestApiSpec, frozen=True, kw_only=True):
    """`[openapi.NAME]`: an HTTP API each of whose operations is a tool, as a document of OpenAPI describes them.

    An operation is offered where all of `operations`, `tags`, `paths` and `methods` that are given admit it. All keys
    of [`[rest.NAME]`](#restname) may stand beside these.
    """

    spec: Secret[SomeWord]
    """The document, OpenAPI 3.0 to 3.2 or Swagger 2.0, in JSON or YAML: a file, or a URL from which `tooldispatchd
    openapi NAME --update` fetches it."""
    base_url: Secret[SomeWord] = ""
    """Where the API is; by default the first of the document's `servers`."""
    operations: tuple[str, ...] | None = None
    """Which operations, by `operationId` or by the tool's name without its prefix; also
    [patterns](agents.md#patterns). One that is deprecated is a tool only where it is named here."""
    tags: tuple[str, ...] | None = None
    """Operations with one of these tags; also patterns. A tool has all tags of its operation."""
    paths: tuple[str, ...] | None = None
    """Operations at these paths, as the document writes them; also patterns: `"/repos/*"`."""
    methods: tuple[RestMethod, ...] | None = None
    """Operations with these methods: with `["GET"]` what only reads."""
    deny: tuple[str, ...] = ()
    """Never these operations, as in `operations`, nor what is at these paths, which begin with a slash."""
    prefix: ApiPrefix | None = None
    """What stands before the tools' names, with an underscore; by default the table's name. `""` is none."""
    output_check: OutputCheck = "warn"
    """What is done where an answer breaks what the document says: by default it is given, with a warning in `meta` and
    in the log. With `strict` the call has failed (`invalid_output`), and the fault carries the answer."""
    flatten: bool = False
    """With `true` a JSON body that is a flat record is merged into the parameters; by default it is the field
    `body`."""
