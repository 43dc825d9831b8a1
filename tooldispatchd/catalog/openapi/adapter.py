"""The door of OpenAPI: a document, and the table that names it, as tables of `[rest]` and `[tools]`.

They are tables that an author could have written: whoever runs the tools knows nothing of OpenAPI. An operation that
cannot be used is left out, with the reason; what is wrong with the document or the table as a whole are problems.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from tooldispatchd.catalog.globs import NameList, is_glob
from tooldispatchd.catalog.names import free_name, nearest
from tooldispatchd.catalog.openapi.addresses import address_of
from tooldispatchd.catalog.openapi.apidocument import (
    ApiDocument,
    ApiDocumentError,
    Object,
    UnfitError,
    decoded,
    list_of,
    members_of,
    object_of,
    text_of,
)
from tooldispatchd.catalog.openapi.conversion import Conversion
from tooldispatchd.catalog.openapi.operations import METHODS, Operation, Surroundings, tool_of
from tooldispatchd.catalog.openapi.responses import Responses
from tooldispatchd.catalog.openapi.security import MissingCredentials, Supplied, lacking
from tooldispatchd.catalog.openapi.swagger import modern_document, modern_operation
from tooldispatchd.catalog.openapispec import OpenApiSpec
from tooldispatchd.catalog.problems import Path, Problem
from tooldispatchd.catalog.speckinds import MAX_TAGS, TAG_PATTERN

DEPRECATED: Final = "it is deprecated, and no entry of operations names it"
# Some seven kilobytes each; only Microsoft's Graph has more, which nobody offers whole.
MAX_TOOLS: Final = 5_000
_VERSIONS: Final = ("2.0", "3.0", "3.1", "3.2")


class ApiSource(msgspec.Struct, frozen=True):
    """A document as it was read: `text` and `files` beside it, by their names in references; `url` where it is from."""

    text: bytes
    files: dict[str, bytes] = {}
    url: str | None = None


class LeftOut(msgspec.Struct, frozen=True):
    """An operation that is no tool, and why."""

    operation: str
    why: str

    @property
    def is_deprecated(self) -> bool:
        return self.why == DEPRECATED


class AdaptedApi(msgspec.Struct, frozen=True):
    """What was made of a document: the API's table of `[rest]`, those of its `tools` by name, each with its operation
    and that one's tags.

    `left_out` are operations that were asked for, and `notes` say what of an operation its tool leaves out. `needs` are
    credentials that are missing, with how many operations need them. Paths of `problems` begin in the API's own table.
    """

    api: Object = {}
    tools: dict[str, Object] = {}
    operations: dict[str, str] = {}
    tags: dict[str, tuple[str, ...]] = {}
    left_out: tuple[LeftOut, ...] = ()
    notes: dict[str, list[str]] = {}
    problems: tuple[Problem, ...] = ()
    needs: dict[MissingCredentials, int] = {}
    title: str = ""

    def table_of(self, tool: str) -> Object:
        """The table of a tool, with those tags of its operation that a configuration may have."""
        tags = [tag for tag in self.tags[tool] if re.match(TAG_PATTERN, tag)][:MAX_TAGS]
        return {**self.tools[tool], "tags": tags}


def adapt(source: ApiSource, name: str, spec: OpenApiSpec, *, is_tried: bool = False) -> AdaptedApi:
    """The tables of the API `name`; where it `is_tried` credentials are taken to be there, and told in `needs`."""
    try:
        document = ApiDocument(source.text, source.files)
        adapter = _Adapter(document, source.url, name, spec, is_tried=is_tried)
    except ApiDocumentError as error:
        return AdaptedApi(problems=(Problem(("spec",), f"cannot use this document: {error}"),))
    return adapter.adapted()


class _Adapter:
    def __init__(self, document: ApiDocument, url: str | None, name: str, spec: OpenApiSpec, *, is_tried: bool) -> None:
        version = text_of(document.value("openapi")) or text_of(document.value("swagger"))
        if not version.startswith(_VERSIONS):
            said = f"its version is {version[:20]}" if version else 'it has neither "openapi" nor "swagger"'
            raise ApiDocumentError(f"{said}; known are OpenAPI 3.0, 3.1 and 3.2, and Swagger 2.0")
        self._spec = spec
        self._is_tried = is_tried
        self._needs: dict[MissingCredentials, int] = {}
        self._document = document
        self._is_swagger = version.startswith("2.")
        if self._is_swagger:
            servers, self._schemes = modern_document(document)
        else:
            servers = list_of(document.value("servers")) or [self._first_server(document) or {"url": "/"}]
            self._schemes = object_of(document.value("components", "securitySchemes"))
        address = address_of(servers[0], url)
        base_url = spec.base_url or address
        self._problems: list[Problem] = []
        if base_url is None:
            why = "the document does not say where the API is: base_url is missing"
            self._problems.append(Problem(("spec",), why, allowed='base_url = "https://…"'))
        self._around = Surroundings(
            document,
            Conversion(document, is_old=self._is_swagger or version.startswith("3.0")),
            Responses(document),
            supplied_by(spec),
            name=name,
            address=address or "",
            base_url=(base_url or "").rstrip("/"),
            document_url=url,
            flatten=spec.flatten,
        )
        self._left_out: list[LeftOut] = []
        # Which entry of `operations` names one operation: that it is no tool is a mistake.
        self._literal = {entry: place for place, entry in enumerate(spec.operations or ()) if not is_glob(entry)}

    @staticmethod
    def _first_server(document: ApiDocument) -> object:
        """The first server that a path names, of a document that names none itself."""
        for raw in document.members("paths").values():
            servers = members_of(raw).get("servers")
            if servers is not None:
                return next(iter(list_of(decoded(servers))), None)
        return None

    def adapted(self) -> AdaptedApi:
        everything = list(self._operations())
        prefix = self._around.name if self._spec.prefix is None else self._spec.prefix
        tools: dict[str, Object] = {}
        operations: dict[str, Operation] = {}
        notes: dict[str, list[str]] = {}
        taken: dict[str, int] = {}
        for operation in self._usable(self._chosen(everything)):
            try:
                tool, left_out = self._tool(operation)
            except UnfitError as error:
                self._leave_out(operation, str(error))
                continue
            name = free_name(f"{prefix}_{operation.stem}" if prefix else operation.stem, taken)
            tools[name], operations[name] = tool, operation
            if left_out:
                notes[name] = left_out
        if len(tools) > MAX_TOOLS:
            why = f"{len(tools)} operations are more than {MAX_TOOLS}"
            self._problems.append(Problem((), why, allowed="fewer of them: operations, tags, paths, methods, deny"))
        inputs = {name: object_of(tool["input_schema"]) for name, tool in tools.items()}
        for name, why in self._around.conversion.unusable(inputs).items():
            self._leave_out(operations[name], why)
            del tools[name]
            notes.pop(name, None)
        return AdaptedApi(
            {"base_url": self._around.base_url},
            tools,
            {name: str(operations[name]) for name in tools},
            {name: operations[name].tags for name in tools},
            tuple(self._left_out),
            notes,
            tuple(self._problems),
            needs=self._needs,
            title=text_of(object_of(self._document.value("info")).get("title")),
        )

    def _operations(self) -> Iterator[Operation]:
        """All operations, in the document's order."""
        for path, raw in self._document.members("paths").items():
            if not bytes(raw).startswith((b"{", b"null")) and not path.startswith("x-"):
                self._left_out.append(LeftOut(path, "it is no object with operations"))
                continue
            item = {key: decoded(part) for key, part in members_of(raw).items()}
            try:
                # Its other keys stand beside a reference (3.1, 4.8.9.1).
                item = {**object_of(self._document.follow(item)), **item} if "$ref" in item else item
            except UnfitError as error:
                self._left_out.append(LeftOut(path, str(error)))
                continue
            found: Object = {method: item[method] for method in METHODS if method in item}
            found |= object_of(item.get("additionalOperations"))
            for method, stated in found.items():
                if isinstance(stated, dict) and path.startswith("/") and path.isprintable():
                    # Of all others only texts are looked at, and the servers.
                    yield Operation(path, method.upper() if method in METHODS else method, stated, item)
                elif not path.startswith("x-"):
                    self._left_out.append(LeftOut(f"{method.upper()} {path}", "it is no operation at a path"))

    def _chosen(self, operations: list[Operation]) -> Iterator[Operation]:
        """Those that the table asks for; a problem for each of its entries that none fits."""
        spec = self._spec
        self._tell_missing(
            "operations", spec.operations, [name for each in operations for name in (each.id, each.stem)]
        )
        self._tell_missing("tags", spec.tags, [tag for each in operations for tag in each.tags])
        self._tell_missing("paths", spec.paths, [each.path for each in operations])
        named, tags, paths, denied = (
            NameList(entries or ()) for entries in (spec.operations, spec.tags, spec.paths, spec.deny)
        )
        literal = set(self._literal)
        for operation in operations:
            names = {operation.id, operation.stem} - {""}
            wanted = (
                spec.operations is None or any(map(named.admits, names)),
                spec.tags is None or any(map(tags.admits, operation.tags)),
                spec.paths is None or paths.admits(operation.path),
                spec.methods is None or operation.method in spec.methods,
                not any(map(denied.admits, (*names, operation.path))),
            )
            if not all(wanted):
                continue
            if operation.is_deprecated and literal.isdisjoint(names):
                self._leave_out(operation, DEPRECATED)
            else:
                yield operation

    def _tell_missing(self, key: str, entries: tuple[str, ...] | None, known: list[str]) -> None:
        for entry in NameList(entries or ()).missing(set(known)):
            assert entries is not None
            near = None if is_glob(entry) else nearest(entry, known)
            why = "the document has no such operation" if key == "operations" else "no operation is there"
            self._problems.append(Problem((key, entries.index(entry)), why, value=entry, nearest=near))

    def _usable(self, operations: Iterable[Operation]) -> list[Operation]:
        """Those whose credentials are there; a problem where that is none of all that need some."""
        default = self._document.value("security")
        missing: dict[MissingCredentials, list[Operation]] = {}
        usable: list[Operation] = []
        needing = 0
        for operation in operations:
            wanted = operation.stated.get("security", default)
            why = lacking(wanted, self._schemes, self._around.supplied)
            if why is not None and self._is_tried:
                self._needs[why] = self._needs.get(why, 0) + 1
            if why is None or self._is_tried:
                usable.append(operation)
                needing += any(map(object_of, list_of(wanted)))
            else:
                missing.setdefault(why, []).append(operation)
        for why, lackings in missing.items():
            if not needing:
                count = "an operation needs" if len(lackings) == 1 else f"{len(lackings)} operations need"
                self._problems.append(Problem((), f"{count} {why.what}", allowed=why.keys))
            for operation in lackings:
                self._leave_out(operation, f"it needs {why}")
        return usable

    def _tool(self, operation: Operation) -> tuple[Object, list[str]]:
        # Those of the path first, in whose places the operation's own may stand (3.1, 4.8.9.1).
        found: dict[tuple[str, str], Object] = {}
        for stated in (*_parameters(operation.item), *_parameters(operation.stated)):
            parameter = object_of(self._document.follow(stated))
            found[text_of(parameter.get("in")), text_of(parameter.get("name"))] = parameter
        parameters = list(found.values())
        if self._is_swagger:
            modern, parameters = modern_operation(operation.stated, parameters, self._document)
            operation = msgspec.structs.replace(operation, stated=modern)
        return tool_of(operation, parameters, self._around)

    def _leave_out(self, operation: Operation, why: str) -> None:
        self._left_out.append(LeftOut(str(operation), why))
        for name in (operation.id, operation.stem):
            if name in self._literal:
                path: Path = ("operations", self._literal.pop(name))
                self._problems.append(Problem(path, f"{operation} cannot be a tool: {why}", value=name))


def _parameters(holder: Object) -> list[object]:
    """Those of an operation or a path. Raises `UnfitError`, since one that is not seen may be required."""
    stated = holder.get("parameters")
    if stated and not isinstance(stated, list):
        raise UnfitError("its parameters are no list")
    return list_of(stated)


def supplied_by(spec: OpenApiSpec) -> Supplied:
    """What every request carries, as the table of an API says."""
    has_token = spec.auth is not None or any((spec.token, spec.token_env, spec.token_file))
    key = spec.api_key
    headers = {name.lower() for name in spec.headers} | ({key.header.lower()} if key and key.header else set())
    if has_token or spec.basic is not None:
        headers.add("authorization")
    return Supplied(
        headers=frozenset(headers),
        query=frozenset((*spec.query, *([key.query] if key and key.query else []))),
        cookies=frozenset([key.cookie] if key and key.cookie else []),
        has_token=has_token,
        has_key=key is not None,
        has_user=spec.basic is not None,
        has_certificate=spec.cert is not None,
    )
