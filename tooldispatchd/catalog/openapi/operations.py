"""One operation of a document: its name, its texts, and the table of the tool that it is."""

import hashlib
import re
from collections.abc import Iterable
from typing import Final

import msgspec

from tooldispatchd.catalog.openapi.addresses import address_of, origin_of
from tooldispatchd.catalog.openapi.apidocument import (
    ApiDocument,
    Object,
    UnfitError,
    list_of,
    object_of,
    text_of,
)
from tooldispatchd.catalog.openapi.bodydraft import take_body
from tooldispatchd.catalog.openapi.conversion import Conversion, short
from tooldispatchd.catalog.openapi.requestdraft import RequestDraft
from tooldispatchd.catalog.openapi.responses import Responses, is_json
from tooldispatchd.catalog.openapi.security import Supplied

# Fixed methods (OpenAPI 3.2, 4.9), and what is sent of them.
METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "query", "trace")
SENT: Final = frozenset(("GET", "HEAD", "OPTIONS", "QUERY", "POST", "PUT", "PATCH", "DELETE"))
# A list of tools has a line for each.
MAX_SUMMARY: Final = 200
# Far over what is written for one operation, and a quarter of what a `doc` may have.
MAX_DOC: Final = 64 * 1024
# As a declared name may have, with room for a number.
MAX_STEM: Final = 88
_NOT_IN_NAME: Final = re.compile(r"[^A-Za-z0-9-]+")
# As far as a header can ask for it (RFC 9110, 12.5.1).
_MEDIA_TYPE: Final = re.compile(r"[ -#%-~]+")


class Operation(msgspec.Struct, frozen=True):
    """An operation as the document has it: `stated` is its object, and `item` that of its path.

    `id` is the `operationId`, empty where it has none.
    """

    path: str
    method: str
    stated: Object
    item: Object

    @property
    def id(self) -> str:
        return text_of(self.stated.get("operationId"))

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(each for each in list_of(self.stated.get("tags")) if isinstance(each, str))

    @property
    def is_deprecated(self) -> bool:
        return self.stated.get("deprecated") is True

    @property
    def stem(self) -> str:
        """What its tool is called, without a prefix: its id, or its method and path, as far as a name can say that."""
        wanted = self.id or f"{self.method}_{self.path}"
        name = _NOT_IN_NAME.sub("_", wanted).strip("_-")
        if not name[:1].isalpha():
            name = f"{self.method.lower()}_{name}".rstrip("_")
        if not self.id:
            name = name.lower()
        if len(name) > MAX_STEM:
            digest = hashlib.sha256(wanted.encode()).hexdigest()[:8]
            name = f"{name[: MAX_STEM - 9].rstrip('_-')}_{digest}"
        return name

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Surroundings(msgspec.Struct, frozen=True):
    """What the operations of a document share.

    `name` is that of the API's table, `base_url` where it is, `address` where its document says that it is, and
    `document_url` where that is from.
    """

    document: ApiDocument
    conversion: Conversion
    responses: Responses
    supplied: Supplied
    name: str
    address: str
    base_url: str
    document_url: str | None
    flatten: bool


def tool_of(operation: Operation, parameters: Iterable[Object], around: Surroundings) -> tuple[Object, list[str]]:
    """The table of an operation's tool, and what of the operation it leaves out. Raises `UnfitError`."""
    stated = operation.stated
    if operation.method not in SENT:
        raise UnfitError(f"the method {operation.method} is not sent")
    draft = RequestDraft(around.document, around.conversion, around.supplied, operation.path)
    draft.rest = {"method": operation.method, "api": around.name}
    for parameter in parameters:
        draft.take(parameter)
    body = draft.follow(stated.get("requestBody", {}))
    if operation.method not in {"GET", "HEAD"}:
        take_body(draft, body, flatten=around.flatten)
    elif body.get("required") is True:
        raise UnfitError(f"{operation.method} has no body")
    input_schema = draft.finish()
    _place(operation, draft.rest, around)
    output_schema, stated_types = around.responses.output_of(stated)
    media_types = list(filter(_MEDIA_TYPE.fullmatch, stated_types))
    # By default JSON is asked for, and anything else but it: an API may have names of its own for that.
    accept = next(filter(is_json, media_types), next(iter(media_types), "*/*"))
    is_plain = "*" in accept or any(media.startswith("application/json") for media in media_types)
    if not is_plain and not around.supplied.has("header", "accept"):
        draft.rest["headers"] = {**object_of(draft.rest.get("headers")), "Accept": f"{accept}, */*;q=0.1"}
    tool: Object = {"rest": draft.rest, "input_schema": input_schema, **texts_of(operation)}
    if output_schema is not None:
        tool["output_schema"] = output_schema
    notes = [
        *draft.notes,
        *(["its input's schema is too large: what lies deepest is left out"] if draft.is_cut else []),
    ]
    return tool, notes


def _place(operation: Operation, rest: Object, around: Surroundings) -> None:
    """Put another server's URL into the request, where the operation has one at the same origin."""
    servers = list_of(operation.stated.get("servers")) or list_of(operation.item.get("servers"))
    if not servers:
        return
    address = address_of(servers[0], around.document_url)
    if address == around.address:
        return
    if address is None or origin_of(address) != origin_of(around.base_url):
        why = "a server of its own" if address is None else f"the server {address}"
        raise UnfitError(f"it has {why}, and credentials go to that of base_url alone")
    if address != around.base_url:
        rest["url"] = f"{address}{rest.pop('path')}"


def texts_of(operation: Operation) -> Object:
    """The title, the description and the long text of a tool, as far as there are any."""
    summary = text_of(operation.stated.get("summary")) or text_of(operation.item.get("summary"))
    said = text_of(operation.stated.get("description")) or text_of(operation.item.get("description"))
    shown = short(summary or said.partition("\n\n")[0] or str(operation), MAX_SUMMARY)
    texts: Object = {"description": shown}
    if said and " ".join(said.split()) != shown:
        texts["doc"] = said if len(said) <= MAX_DOC else short(said, MAX_DOC)
    return texts
