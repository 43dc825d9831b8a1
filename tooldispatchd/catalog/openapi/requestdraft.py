"""One tool's request as it is put together: the fields of the input, and the place of each in the request's table.

A field has the parameter's name, as far as providers take it. Of two parameters of one name the second says where it
stands (`id_query`). What a request cannot say of an optional parameter leaves that out; of a required one, the tool.
"""

import re
from typing import Final

from tooldispatchd.catalog.names import MAX_FIELD, field_name
from tooldispatchd.catalog.openapi.apidocument import (
    MAX_QUOTED,
    ApiDocument,
    Object,
    UnfitError,
    list_of,
    object_of,
    text_of,
)
from tooldispatchd.catalog.openapi.conversion import MAX_LEVELS, Conversion
from tooldispatchd.catalog.openapi.responses import is_json
from tooldispatchd.catalog.openapi.security import Supplied
from tooldispatchd.catalog.problems import cut
from tooldispatchd.catalog.speckinds import HEADER_NAME_PATTERN

_DOTS: Final = frozenset((".", ".."))
_TEMPLATED: Final = re.compile(r"\{([^{}]+)\}")
# What else stands in a name's braces: how it is written, a pattern.
_NAME: Final = re.compile(r"[^*+:,{}]+")

# OpenAPI 3.1, 4.8.12.2: such a parameter means nothing. The others the connection sets itself.
_OWN_HEADERS: Final = frozenset(
    (
        *("accept", "content-type", "authorization"),
        *("host", "connection", "keep-alive", "upgrade", "te", "trailer", "transfer-encoding", "content-length"),
        *("expect", "proxy-authorization", "proxy-connection", "accept-encoding"),
    )
)
# Names in `rest` (`restspecs`).
_HEADER: Final = re.compile(HEADER_NAME_PATTERN)
MAX_WIRE_NAME: Final = 256
_MAX_HEADER: Final = 128
_TABLES: Final = {"query": "query", "querystring": "query", "header": "headers", "cookie": "cookies"}
_STYLES: Final[dict[str, tuple[str, ...]]] = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
    # The fields of a form are written as a query is.
    "form": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
}
# As `rest` has them where nothing is said.
_DEFAULTS: Final = {"path": "simple", "query": "form*", "header": "simple", "cookie": "form", "form": "form*"}

# How complex the values of a schema are.
SCALAR, LIST, RECORD, NESTED = range(4)


class RequestDraft:
    """A request to `path`, of an API in whose document schemas are converted by `conversion`.

    `rest` is the table of the request, `input` its schema once all parameters have been taken; `notes` say what was
    left out.
    """

    def __init__(self, document: ApiDocument, conversion: Conversion, supplied: Supplied, path: str) -> None:
        self.rest: Object = {}
        self.notes: list[str] = []
        self.is_cut = False
        self.properties: Object = {}
        self.required: list[str] = []
        self.uses: set[str] = set()
        self._document = document
        self._conversion = conversion
        self._supplied = supplied
        # A fragment is never sent: authors tell operations of one path apart by it.
        self._path = path.partition("#")[0]
        self._in_path: dict[str, str] = {}
        # By the identity of parts of the document, which outlives the draft.
        self._shapes: dict[int, int] = {}

    # --- the parts of a request ---

    def take(self, parameter: Object) -> None:
        """Put a parameter where it belongs. Raises `UnfitError`."""
        name, where = parameter.get("name"), text_of(parameter.get("in"))
        if not isinstance(name, str) or not name:
            raise UnfitError("one of its parameters has no name")
        if where == "header" and name.lower() in _OWN_HEADERS:
            return
        is_required = parameter.get("required") is True or where == "path"
        if self._supplied.has(where, name):
            return
        try:
            self._place(name, where, parameter, is_required=is_required)
        except UnfitError as error:
            why = f"parameter {name}: {error}"
            if is_required:
                raise UnfitError(why) from None
            self.notes.append(why)

    def finish(self) -> Object:
        """The schema of the input, with `path` put into the request. Raises `UnfitError`."""
        if not _DOTS.isdisjoint(self._path.partition("?")[0].split("/")):
            raise UnfitError("its path leads upwards")
        # Texts and names in turn. One that no parameter declares is one all the same.
        texts = _TEMPLATED.split(self._path)
        for number, name in enumerate(map(_name_in, texts[1::2])):
            if name not in self._in_path:
                self._in_path[name] = self.add(name, {"type": "string"}, is_required=True, suffix="path")
            texts[2 * number + 1] = placeholder(self._in_path[name])
        texts[::2] = map(literal, texts[::2])
        self.rest["path"] = "".join(texts)
        root: Object = {"type": "object", "properties": self.properties}
        if self.required:
            root["required"] = self.required
        root["additionalProperties"] = False
        made, self.is_cut = self._conversion.whole(root, self.uses)
        return made

    def add(self, name: str, schema: object, *, is_required: bool, suffix: str) -> str:
        """Another field of the input; returns its name there."""
        field = wanted = field_name(name) or suffix
        number = 1
        if field in self.properties:
            field = wanted = f"{wanted[: MAX_FIELD - len(suffix) - 1]}_{suffix}"
        while field in self.properties:
            number += 1
            field = f"{wanted[: MAX_FIELD - 4]}_{number}"
        self.properties[field] = schema
        if is_required:
            self.required.append(field)
        return field

    def style(self, field: str, name: str) -> None:
        """How the lists and records of a field are written."""
        styles = object_of(self.rest.setdefault("styles", {}))
        styles[field] = name

    def in_place(self, schema: object) -> Object:
        """A schema as it stands in the input. Raises `UnfitError`."""
        return self._conversion.in_place(schema, self.uses)

    def described(self, schema: Object, text: str) -> Object:
        """The schema with another description, where there is one."""
        return self._conversion.described(schema, text)

    def follow(self, node: object) -> Object:
        """What a node is, or where its reference leads. Raises `UnfitError`."""
        return object_of(self._document.follow(node))

    # --- parameters ---

    def _place(self, name: str, where: str, parameter: Object, *, is_required: bool) -> None:
        if where == "path" and name not in map(_name_in, _TEMPLATED.findall(self._path)):
            return
        schema, style = self._written(parameter, where)
        _check_name(name, where)
        table = object_of(self.rest.get(_TABLES[where])) if where in _TABLES else {}
        if where == "header" and name.lower() in map(str.lower, table):
            raise UnfitError("there is one already whose name differs in capitals alone")
        made = self.described(self.in_place(schema), text_of(parameter.get("description")))
        field = self.add(name, made, is_required=is_required, suffix=where)
        if style.startswith("matrix") and field != name:
            raise UnfitError("with the style matrix its name is written, which no field can have")
        if style:
            self.style(field, style)
        if where == "path":
            self._in_path[name] = field
        else:
            self.rest[_TABLES[where]] = {**table, name: placeholder(field)}

    def _written(self, parameter: Object, where: str) -> tuple[object, str]:
        """The schema of a parameter, and how its values are written, as `styles` has it."""
        if where == "querystring":
            return self._querystring(parameter), "form*"
        if where not in _DEFAULTS:
            raise UnfitError(f'in = "{where}" is no place in a request')
        if "content" in parameter:
            return _json_of(parameter, where), "json"
        schema = parameter.get("schema", {})
        return schema, self.style_of(schema, parameter, where)

    def style_of(self, schema: object, stated: Object, where: str) -> str:
        """How values are written there, empty where `rest` does so by itself. Raises `UnfitError`."""
        known = _STYLES[where]
        name = stated.get("style", known[0])
        if name not in known:
            raise UnfitError(f"no request is written with the style {cut(str(name), MAX_QUOTED)}")
        shape = self.shape(schema)
        explode = stated.get("explode", name in {"form", "deepObject"}) is True
        if name == "deepObject":
            return "" if shape == SCALAR else "deepObject" if shape == RECORD else "brackets"
        if shape == NESTED:
            raise UnfitError("its lists or records hold others, which cannot be written there")
        if name in {"spaceDelimited", "pipeDelimited"} and explode:
            name = "form"
        if where == "cookie" and explode and shape != SCALAR:
            raise UnfitError("no cookie can hold several values of one name")
        reserved = "+" if stated.get("allowReserved") is True and where in {"query", "form"} else ""
        style = f"{name}{reserved}{'*' if explode else ''}"
        if shape == SCALAR and name not in {"label", "matrix"} and not reserved:
            return ""
        return "" if style == _DEFAULTS[where] else style

    def shape(self, schema: object, level: int = 1) -> int:
        """How complex the values of a schema are, as far as it says. Raises `UnfitError`."""
        node = self.follow(schema)
        if id(node) not in self._shapes:
            # What lies within itself is the worst; so is what lies deeper than anybody looks.
            self._shapes[id(node)] = NESTED
            self._shapes[id(node)] = self._shape(node, level + 1) if level < MAX_LEVELS else NESTED
        return self._shapes[id(node)]

    def _shape(self, node: Object, level: int) -> int:
        stated = node.get("type")
        types = stated if isinstance(stated, list) else [stated]
        shapes = [SCALAR]
        if "array" in types:
            shapes.append(LIST if self.shape(node.get("items"), level) == SCALAR else NESTED)
        if "object" in types or "properties" in node:
            parts = [*object_of(node.get("properties")).values(), node.get("additionalProperties")]
            shapes.append(RECORD if all(self.shape(part, level) == SCALAR for part in parts) else NESTED)
        for keyword in ("allOf", "anyOf", "oneOf"):
            shapes += [self.shape(part, level) for part in list_of(node.get(keyword))]
        return max(shapes)

    def _querystring(self, parameter: Object) -> object:
        """The schema of OpenAPI 3.2's whole query, where that is written as a form is."""
        content = object_of(parameter.get("content"))
        form = object_of(content.get("application/x-www-form-urlencoded"))
        if not form or self.shape(form.get("schema")) == NESTED:
            raise UnfitError("as a whole query it is not written")
        return form.get("schema")


def _name_in(text: str) -> str:
    """The name between the braces of a path."""
    found = _NAME.match(text)
    return found[0].strip() if found else text


def _check_name(name: str, where: str) -> None:
    """Raise `UnfitError` where no parameter of a place can have this name."""
    if where in {"header", "cookie"}:
        is_name = _HEADER.match(name) is not None and len(name) <= _MAX_HEADER
    else:
        is_name = len(name) <= MAX_WIRE_NAME
    if not is_name:
        raise UnfitError(f"no {where} has such a name")


def placeholder(field: str) -> str:
    """What stands for a field of the input in the texts of a request."""
    return f"${{parameters.{field}}}"


def literal(text: str) -> str:
    """A text of a request that has no placeholder."""
    return text.replace("$", "$$")


def _json_of(parameter: Object, where: str) -> object:
    """The schema of a parameter that is written as JSON."""
    content = object_of(parameter.get("content"))
    media = next(iter(content), "")
    if not is_json(media):
        raise UnfitError(f"as {media or 'nothing'} it is not written")
    if where == "path":
        raise UnfitError("in a path no JSON is written")
    return object_of(content[media]).get("schema", {})


def is_binary(schema: Object) -> bool:
    """Whether a text is bytes: by its format in 3.0, by its media type from 3.1 on."""
    is_text = schema.get("type") in ("string", None, ["string", "null"])
    has_media = "contentMediaType" in schema and "contentEncoding" not in schema
    return is_text and (schema.get("format") == "binary" or has_media)
