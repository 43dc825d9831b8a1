"""HTTP APIs and requests as the rest of the package sees them; what compiles them is imported with the first.

An API is a table of `[rest]`, or where a tool's `url` alone says it, the origin of that.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

import msgspec

from tooldispatchd.catalog.expressions.door import Expression
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.restspecs import AnnotationsSpec, RestApiSpec, RestSpec
from tooldispatchd.catalog.specs import Config, ToolSpec


class ApiCredentials(msgspec.Struct, frozen=True):
    """What the daemon shows to an API, as it was read when the configuration was: lines of headers, query entries and
    cookies, each a name and a value, and the secrets of its `oauth`.
    """

    headers: tuple[tuple[str, str], ...] = ()
    query: tuple[tuple[str, str], ...] = ()
    cookies: tuple[tuple[str, str], ...] = ()
    client_secret: str | None = None
    refresh_token: str | None = None

    def __repr__(self) -> str:
        """The names alone."""
        parts = [f"{key}={[name for name, _ in getattr(self, key)]}" for key in ("headers", "query", "cookies")]
        return f"ApiCredentials({', '.join(parts)})"


NO_CREDENTIALS: Final = ApiCredentials()


class RestApi(msgspec.Struct, frozen=True):
    """An API: `name` stands in logs and faults, `origin` is scheme, host and port, `base` the path before all others.

    `credentials` are empty until they are read, which is not done here.
    """

    name: str
    origin: str
    base: str
    spec: RestApiSpec
    credentials: ApiCredentials = NO_CREDENTIALS

    def __repr__(self) -> str:
        """Where it is; a path may hold a key."""
        return f"RestApi({self.name!r}, {self.origin!r})"


class BuiltRequest(msgspec.Struct, frozen=True):
    """A request but for what its API adds: the target's path and query, headers, cookies and the body.

    `media_type` is that of the body; None where there is no body, or a header says it.
    """

    path: str
    query: str
    headers: tuple[tuple[str, str], ...] = ()
    cookies: tuple[str, ...] = ()
    body: bytes = b""
    media_type: str | None = None

    def __repr__(self) -> str:
        """How much there is; all of it may be secret."""
        return f"BuiltRequest({len(self.headers)} headers, {len(self.body)} bytes)"


class UnsendableError(ValueError):
    """An input of which no request can be made; `pointer` leads to what is wrong, `why` says it without the value."""

    def __init__(self, pointer: str, why: str) -> None:
        super().__init__(why)
        self.pointer = pointer
        self.why = why


class RequestBuilder(Protocol):
    """`requests.RequestTemplate`."""

    method: str

    def build(self, values: Mapping[str, object]) -> BuiltRequest:
        """The request of a checked input. Raises `UnsendableError`."""

    def job(self) -> bytes:
        """What `requests.build_request` makes the same of in another process."""


class RestTool(msgspec.Struct, frozen=True):
    """A tool that is a request: to which API, how it is made, and how its answer is read."""

    api: str
    builder: RequestBuilder
    spec: RestSpec
    hints: AnnotationsSpec
    expression: Expression | None = None


class Apis(NamedTuple):
    """The APIs of a configuration by name, that of each tool, warnings for the log, and all that is wrong."""

    apis: Mapping[str, RestApi]
    of_tools: Mapping[str, str]
    warnings: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


_NO_APIS: Final = Apis(MappingProxyType({}), MappingProxyType({}))


def build_apis(config: Config) -> Apis:
    """Every API that the configuration has, or its tools use."""
    if not config.rest and all(tool.rest is None for tool in config.tools.values()):
        return _NO_APIS
    from tooldispatchd.catalog.rest.apis import find_apis  # noqa: PLC0415  # as the module says

    return find_apis(config)


def compile_request(
    name: str, spec: ToolSpec, api: RestApi, schema: Mapping[str, object]
) -> tuple[RequestBuilder | None, AnnotationsSpec, list[Problem]]:
    """The request of a tool that takes what `schema` says, an object's; its hints; and what is wrong with it."""
    from tooldispatchd.catalog.rest.requestchecks import compile_template  # noqa: PLC0415  # likewise
    from tooldispatchd.catalog.rest.requests import hints_of  # noqa: PLC0415  # likewise

    assert spec.rest is not None
    path: Path = ("tools", name, "rest")
    builder, problems = compile_template(spec.rest, api, schema, path)
    return builder, hints_of(spec, "GET" if builder is None else builder.method), problems


def secrets_in(of: RestTool | RestApi) -> Iterator[str]:
    """What is to be masked of the texts of a request, or of what an API is shown: what their names say is secret."""
    from tooldispatchd.catalog.rest.apis import secrets_of_api, secrets_of_request  # noqa: PLC0415  # likewise

    return secrets_of_request(of.spec) if isinstance(of, RestTool) else secrets_of_api(of.credentials)


def kinds_shown_to(api: RestApi) -> list[str]:
    """What kinds of things are shown to an API that identify the daemon; no name of a header or an entry."""
    from tooldispatchd.catalog.rest.apis import credential_kinds  # noqa: PLC0415  # likewise

    return credential_kinds(api)
