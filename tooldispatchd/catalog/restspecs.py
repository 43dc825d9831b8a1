"""The tables of HTTP APIs: `[rest.NAME]`, what several tools share, and `rest` of a tool, which is one request.

In `base_url`, `headers` and `query` of an API, and in every text of a tool's request but its `styles`, `${VAR}` is a
variable, and `${file:PATH}` what a file holds; in those of a tool `${parameters.NAME}` is a field of the input.
"""

from typing import Annotated, Final, Literal

from msgspec import Meta

from tooldispatchd.catalog.answerspec import OutputCheck
from tooldispatchd.catalog.policyspec import PriorityWord
from tooldispatchd.catalog.secrecy import Secret, SecretChoice, SecretFile, SecretVariable, Spec
from tooldispatchd.catalog.speckinds import (
    KIB,
    MEDIA_TYPE_PATTERN,
    MEMBER_PATTERN,
    MIB,
    POINTER_PATTERN,
    STYLE_PATTERN,
    TIB,
    BindingName,
    BreakerText,
    CacheTime,
    ExclusiveName,
    HeaderName,
    HeaderValue,
    HostPort,
    QueueName,
    Seconds,
    SomeWord,
    Tags,
)

# In which key what is secret may stand; of each group a table has one at most.
PASSWORDS: Final = ("password", "password_env", "password_file")
KEY_VALUES: Final = ("value", "value_env", "value_file")
REFRESH_TOKENS: Final = ("refresh_token_env", "refresh_token_file")

# QUERY is OpenAPI 3.2's. CONNECT and TRACE ask for no resource.
RestMethod = Literal["GET", "HEAD", "OPTIONS", "QUERY", "POST", "PUT", "PATCH", "DELETE"]
WireName = Annotated[str, Meta(min_length=1, max_length=256)]
# A header's value before its placeholders are filled in; what it is then is looked at in each call.
HEADER_PATTERN: Final = r"^[^\x00-\x08\x0a-\x1f\x7f]*$"
HeaderText = Annotated[str, Meta(pattern=HEADER_PATTERN)]
Pointer = Annotated[str, Meta(pattern=POINTER_PATTERN, max_length=1_024)]
Style = Annotated[str, Meta(pattern=STYLE_PATTERN)]
MemberName = Annotated[str, Meta(pattern=MEMBER_PATTERN)]


class RestBasicSpec(Spec, frozen=True, kw_only=True):
    """`basic` of an API: a user and a password."""

    user: Secret[str]
    """The user's name."""
    password: Secret[str] | None = None
    """The password, taken as it is written. At most one of `password`, `password_env` and `password_file`; without any
    it is empty, as some APIs with keys for users want it."""
    password_env: SecretVariable[SomeWord] | None = None
    """The variable of the daemon's environment that holds the password."""
    password_file: SecretFile[SomeWord] | None = None
    """The file that holds the password; a newline at its end does not count."""


class RestKeySpec(Spec, frozen=True, kw_only=True):
    """`api_key` of an API: a key in exactly one of a header, the query and a cookie."""

    header: HeaderName | None = None
    """The name of the header with the key."""
    query: WireName | None = None
    """The name of the query entry with the key."""
    cookie: HeaderName | None = None
    """The name of the cookie with the key."""
    value: Secret[SomeWord] | None = None
    """The key, taken as it is written. Exactly one of `value`, `value_env` and `value_file`."""
    value_env: SecretVariable[SomeWord] | None = None
    """The variable of the daemon's environment that holds the key."""
    value_file: SecretFile[SomeWord] | None = None
    """The file that holds the key; a newline at its end does not count."""


class RestOAuthSpec(Spec, frozen=True, kw_only=True):
    """`oauth` of an API with `auth = "oauth"`: how the daemon gets tokens. It needs no person."""

    grant: Literal["client_credentials", "refresh_token"] = "client_credentials"
    """What is shown for a token: the client's own secret, or a refresh token."""
    token_url: Secret[SomeWord]
    """Where tokens are given out. Its host may be another one than the API's."""
    client_id: Secret[SomeWord]
    """The client as it was registered."""
    client_secret_env: SecretVariable[SomeWord] | None = None
    """The variable of the daemon's environment that holds the client's secret. At most one of it and the file."""
    client_secret_file: SecretFile[SomeWord] | None = None
    """The file that holds the client's secret; a newline at its end does not count."""
    refresh_token_env: SecretVariable[SomeWord] | None = None
    """The variable that holds the refresh token of that grant. Exactly one of it and the file."""
    refresh_token_file: SecretFile[SomeWord] | None = None
    """The file that holds the refresh token of that grant."""
    scopes: tuple[Secret[SomeWord], ...] = ()
    """The scopes that are asked for; by default what the server gives."""


class RestApiSpec(Spec, frozen=True, kw_only=True):
    """`[rest.NAME]`: an HTTP API that several tools use: where it is, credentials, and bounds.

    Its connections are kept for all agents. At most one of `token`, `basic` and `auth`; an `api_key` may stand beside.
    """

    base_url: Secret[SomeWord]
    """Where it is: `https://` or `http://`, a host, and the path before the `path` of each tool."""
    headers: dict[HeaderName, Secret[HeaderValue]] = {}
    """Headers of every request, which never go to another origin."""
    query: dict[WireName, Secret[str]] = {}
    """Query entries of every request, which never go to another origin."""
    token: Secret[str] | None = None
    """The bearer token; taken as it is written. At most one of `token`, `token_env` and `token_file`."""
    token_env: SecretVariable[SomeWord] | None = None
    """The variable of the daemon's environment that holds the token."""
    token_file: SecretFile[SomeWord] | None = None
    """The file that holds the token; a newline at its end does not count."""
    basic: RestBasicSpec | None = None
    """A user and a password, [below](#credentials-of-an-api)."""
    api_key: RestKeySpec | None = None
    """A key in a header, the query or a cookie, [below](#credentials-of-an-api)."""
    auth: SecretChoice[Literal["oauth"]] | None = None
    """With `oauth` the daemon gets tokens by itself, as `oauth` says."""
    oauth: RestOAuthSpec | None = None
    """The particulars of `auth = "oauth"`, [below](#credentials-of-an-api)."""
    ca: SecretFile[SomeWord] | None = None
    """The PEM file of the authorities that are trusted, in the place of the system's."""
    cert: SecretFile[SomeWord] | None = None
    """The PEM file of the certificate that the daemon shows, to the API's own origin alone, and of its key unless `key`
    names it."""
    key: SecretFile[SomeWord] | None = None
    """The PEM file of the key to `cert`."""
    hosts: tuple[Secret[HostPort], ...] = ()
    """Further hosts, as `HOST` or `HOST:PORT`, that redirects may lead to. Credentials never go there."""
    private: bool = False
    """With `true` names among `hosts` may have a private address; the API itself, and addresses among `hosts`, always
    may."""
    call_s: Seconds | None = None
    """The limit of each of its tools, in seconds, in the place of `limits.call_s`."""
    max_bytes: Annotated[int, Meta(ge=KIB, le=TIB)] = 8 * MIB
    """One answer, decompressed, and all pages of one together; never more than `limits.max_content_bytes`. By default
    as much as one line of an agent."""
    # As in `PolicySpec`, which has the keys of a sandbox too: a Struct has one base, and a request no program.
    queue: QueueName | None = None
    """The [queue](#queuesname) in which calls of its tools wait for their turn."""
    priority: PriorityWord | None = None
    """How soon they have it, see [policy](#policy)."""
    exclusive: ExclusiveName | None = None
    """What its tools touch, see [policy](#policy). Those that only read share it, by method or by `annotations`."""
    breaker: BreakerText | None = None
    """The [breaker](#policy) that its tools have together."""
    output_check: OutputCheck = "strict"
    """With `warn` an answer that breaks a tool's type is given all the same, with a warning in `meta` and in the log;
    by default the call has failed (`invalid_output`), and the fault carries the answer."""
    redact: bool = False
    """With `true` [known secrets](security.md#secrets) are masked in what its tools answer."""
    cache: CacheTime | dict[str, CacheTime] | None = None
    """For how long answers of those of its tools are kept that only read, see [policy](#policy); also by the names of
    tools or patterns: `{ "search_*" = "5m" }`. What a tool says comes before."""
    cache_scope: Literal["own", "shared"] | None = None
    """To whom they are given again, see [policy](#policy)."""
    single_flight: bool | None = None
    """With `true` equal calls wait for the one that runs, see [policy](#policy)."""
    tags: Tags | None = None
    """Tags of each of its tools, see [tags](agents.md#tags-and-hints)."""
    idempotent: bool = False
    """With `true` those of its requests may be [tried again](policy.md#trying-again) that may be sent twice by their
    method (`GET`, `HEAD`, `OPTIONS`, `QUERY`, `PUT`, `DELETE`), or by `annotations`."""


class RestStreamSpec(Spec, frozen=True, kw_only=True):
    """`stream` of a request: an answer that comes as JSON objects, each a token, the end, or neither."""

    format: Literal["sse", "json-lines"] = "sse"
    """How the objects come: as the data of server-sent events, or one a line."""
    line_prefix: str = ""
    """With `json-lines`: what is taken away before a line is read, where the line begins so."""
    discriminator_field: MemberName = "type"
    """The field that says what an object is."""
    token_value: str = "token"  # noqa: S105  # what a field holds
    """What that field holds in an object with a token."""
    token_field: MemberName = "content"  # noqa: S105  # a field's name
    """The field with the token, a text; each is told at once, as an update."""
    done_value: str = "done"
    """What the field holds in the last object."""
    answer_field: MemberName = "answer"
    """The field of the last object with the answer; without it the answer is all tokens."""


class RestPagesSpec(Spec, frozen=True, kw_only=True):
    """`paginate` of a request: how further pages are asked for. The answer is one list of what is on all of them."""

    by: Literal["link", "cursor", "page"]
    """By the `Link` header with `rel="next"`, by a cursor that each page holds, or by numbers up to an empty page."""
    cursor: Pointer | None = None
    """With `by = "cursor"`: where the next cursor stands in a page, as a JSON Pointer. Without one there, or with an
    empty one, that page is the last."""
    query: WireName | None = None
    """The query entry for the cursor, or for the number of the page; by default `"cursor"` and `"page"`."""
    first: Annotated[int, Meta(ge=0, le=1_000_000)] = 1
    """With `by = "page"`: the number of the first page."""
    max_pages: Annotated[int, Meta(ge=1, le=1_000)] = 10
    """How many are asked for at most. The default is as much as a model reads."""


class RestSpec(Spec, frozen=True, kw_only=True):
    """`rest` of a tool: the request that a call is; either `url`, or `api` and `path`.

    A parameter that no placeholder names is a query entry of its name; with POST, PUT and PATCH and no body here it is
    a field of a JSON object that is the body.
    """

    method: RestMethod | None = None
    """What is asked; by default `GET`, and `POST` where there is a body."""
    api: BindingName | None = None
    """The table of `[rest]` that has what is not said here. With `url` that must have the same origin."""
    path: Secret[SomeWord] | None = None
    """With `api`: the path after its `base_url`, and a query where there is one. It begins with a slash."""
    url: Secret[SomeWord] | None = None
    """The whole URL. Placeholders may stand in its path and its query."""
    query: dict[WireName, Secret[str]] = {}
    """Query entries, in this order, after those of the URL. One is left out where a parameter in it is not given."""
    headers: dict[HeaderName, Secret[HeaderText]] = {}
    """Headers, which never go to another origin. One is left out where a parameter in it is not given."""
    cookies: dict[HeaderName, Secret[str]] = {}
    """Cookies, likewise."""
    styles: dict[WireName, Style] = {}
    """How lists and records are written, by the parameter's name, see [styles](rest.md#what-is-sent)."""
    body: Secret[object] = None
    """A JSON body: any value, in whose texts placeholders may stand. A text that is one placeholder is the parameter
    with its type; a field, or an item, in which a parameter is not given is left out."""
    form: dict[WireName, Secret[str]] = {}
    """In its place, the fields of a form (`application/x-www-form-urlencoded`)."""
    multipart: dict[WireName, Secret[str]] = {}
    """In its place, the parts of a form (`multipart/form-data`). A parameter whose schema says `contentEncoding:
    base64` or `format: binary` is a file, and so is `{"base64": …, "filename": …, "media_type": …}`."""
    text: Secret[str] | None = None
    """In its place, a text (`text/plain`)."""
    octets: Secret[str] | None = None
    """In its place, bytes (`application/octet-stream`): one placeholder, whose parameter holds them in base64."""
    content_type: Annotated[str, Meta(pattern=MEDIA_TYPE_PATTERN)] | None = None
    """The media type of the body, where it is another one than these."""
    pick: Pointer | None = None
    """The part of a JSON answer that the model sees, as a JSON Pointer (`"/data/items"`)."""
    map: str | None = None
    """In its place, an expression in CEL over the answer, which is `input`."""
    paginate: RestPagesSpec | None = None
    """How further pages are asked for, see [pages](rest.md#pages)."""
    stream: RestStreamSpec | None = None
    """How an answer is read that comes bit by bit, see [streams](rest.md#streams)."""


class AnnotationsSpec(Spec, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """`annotations` of a tool with `rest`: hints for whoever decides about calls, as those of MCP servers' tools."""

    title: str | None = None
    """A name for people."""
    read_only_hint: bool | None = None
    """It changes nothing. By default so for `GET`, `HEAD` and `OPTIONS`."""
    destructive_hint: bool | None = None
    """It may destroy something. By default so for `DELETE`."""
    idempotent_hint: bool | None = None
    """To call it twice does no more than to call it once. By default so for `PUT` and `DELETE`."""
    open_world_hint: bool | None = None
    """It reaches beyond the daemon's own machine."""


class ForeignStreamSpec(Spec, frozen=True, kw_only=True, rename="camel"):
    """`streaming` of a request as ai-agent writes it: as `stream` with `json-lines`."""

    mode: Literal["json-stream"]
    """There is no other."""
    line_prefix: str = ""
    """As `line_prefix`."""
    discriminator_field: MemberName = "type"
    """As `discriminator_field`."""
    done_value: str = "done"
    """As `done_value`."""
    token_value: str = "token"  # noqa: S105  # what a field holds
    """As `token_value`."""
    token_field: MemberName = "content"  # noqa: S105  # a field's name
    """As `token_field`."""
    answer_field: MemberName = "answer"
    """As `answer_field`."""
    timeout_ms: Annotated[float, Meta(gt=0, le=86_400_000)] | None = None
    """As `call_s` of the tool, in milliseconds."""


class ForeignRestSpec(Spec, frozen=True, kw_only=True, rename="camel"):
    """`[restTools.NAME]`: a request as netdata's ai-agent writes it; it is a tool of that name with `rest`."""

    description: str = ""
    """As `description` of a tool."""
    method: Literal["GET", "POST", "PUT", "DELETE", "PATCH"]
    """What is asked."""
    url: Secret[SomeWord]
    """As `url`."""
    headers: dict[HeaderName, Secret[HeaderText]] = {}
    """As `headers`."""
    parameters_schema: dict[str, object] = {}
    """As `input_schema` of the tool."""
    body_template: Secret[object] = None
    """As `body`; a text that is more than one placeholder is sent as it is."""
    has_complex_query_params: bool = False
    """With `true` those parameters go into the query that `queryParamNames` lists, with the style `brackets`."""
    query_param_names: tuple[WireName, ...] = ()
    """See `hasComplexQueryParams`."""
    streaming: ForeignStreamSpec | None = None
    """As `stream`."""
    queue: QueueName = "default"
    """As `queue` of a tool; the queue `default` need not be declared."""
    cache: CacheTime = "off"
    """As `cache` of a tool, which then is `read_only`: `"off"`, a text such as `"1h"`, or milliseconds."""
