"""One request: its template, compiled when the configuration is read, and the request that an input makes of it.

    url, query, headers, cookies, body ──▶ parts with slots, each encoded for its place ──▶ build(input) ──▶ the request

Placeholders stand in the path and the query of a URL and nowhere before: where a request goes is never an input's to
say. A segment of the path that would be `.`, `..` or empty is refused, whatever it is made of: what is behind the URL,
or before it, may take such a segment for another place.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from tooldispatchd.catalog.pointers import escape, unescape_fragment
from tooldispatchd.catalog.problems import Path
from tooldispatchd.catalog.rest.bodies import KINDS, NO_BODY, Body, body_of, fields_body
from tooldispatchd.catalog.rest.declared import BuiltRequest, UnsendableError
from tooldispatchd.catalog.rest.placeholders import (
    Parameters,
    ParameterSlot,
    Parts,
    lone_slot,
    parse_parts,
    slots_of,
)
from tooldispatchd.catalog.rest.styles import (
    cookie_pairs,
    encode,
    encode_cookie,
    encode_literal,
    header_text,
    is_empty,
    joined,
    path_text,
    query_entries,
    style_for,
)
from tooldispatchd.catalog.restspecs import AnnotationsSpec, RestSpec
from tooldispatchd.catalog.specs import ToolSpec

# Methods whose request means something by its body (RFC 9110, 9.3).
WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH", "QUERY"})
# A header's value: visible ASCII, blanks and tabs (RFC 9110, 5.5). Servers read other bytes in different ways.
_HEADER: Final = re.compile(r"[\t\x20-\x7e]*")
_SEPARATORS: Final = re.compile(r"[/\\]")
_DOTS: Final = frozenset({".", ".."})
# Stands for a slot while a URL is taken apart; no text of a configuration holds it.
_SLOT: Final = "\x00"
_URL: Final = re.compile(r"(?P<path>[^?]*)(?:\?(?P<query>.*))?", re.DOTALL)
_KEYS: Final = ("url", "path", "query", "headers", "cookies", *KINDS)


class QueryEntry(msgspec.Struct, frozen=True):
    """An entry of a query: its name, and its value where there is a sign for one; literal text is encoded."""

    name: Parts
    value: Parts | None


class RequestTemplate:
    """A request without its input."""

    def __init__(
        self,
        spec: RestSpec,
        parameters: Parameters,
        base: str,
        *,
        method: str,
        segments: tuple[Parts, ...],
        query: tuple[QueryEntry, ...],
        body: Body,
    ) -> None:
        self.method: str = method
        self._job = (spec, parameters, base)
        self._segments = segments
        self._base = base
        self._query = query
        self._headers = tuple((name, parse_parts(text)) for name, text in spec.headers.items())
        self._cookies = tuple((name, parse_parts(text)) for name, text in spec.cookies.items())
        self._styles = spec.styles
        self._body = body
        self._has_media_type = any(name.lower() == "content-type" for name in spec.headers)

    def build(self, values: Mapping[str, object]) -> BuiltRequest:
        """The request of a checked input. Raises `UnsendableError`."""
        body, media_type = self._body.build(values)
        path = self._base + "".join(f"/{self._segment(parts, values)}" for parts in self._segments)
        return BuiltRequest(
            path or "/",
            "&".join(entry for each in self._query for entry in self._entries(each, values)),
            tuple(self._header_lines(values)),
            tuple(self._cookie_pairs(values)),
            body or b"",
            None if body is None or self._has_media_type else media_type,
        )

    def job(self) -> bytes:
        """The arguments of `build_request`."""
        return msgspec.msgpack.encode(self._job)

    def _segment(self, parts: Parts, values: Mapping[str, object]) -> str:
        text = ""
        for part in parts:
            if isinstance(part, str):
                text += part
                continue
            value = values.get(part.name)
            if is_empty(value):
                raise UnsendableError(f"/{escape(part.name)}", "it is a part of the path, and cannot be empty")
            text += path_text(part.name, value, style_for(part.name, value, self._styles, "path"))
        slot = next(slots_of(parts), None)
        # As whoever decodes it before looking at the segments would see it.
        if slot is not None and not (text and _DOTS.isdisjoint(_SEPARATORS.split(unescape_fragment(text)))):
            raise UnsendableError(f"/{escape(slot.name)}", 'a segment of the path cannot be empty, "." or ".."')
        return text

    def _entries(self, entry: QueryEntry, values: Mapping[str, object]) -> list[str]:
        parts = (*entry.name, *(entry.value or ()))
        if any(is_empty(values.get(slot.name)) for slot in slots_of(parts)):
            return []
        name = self._encoded(entry.name, values)
        if not name:
            pointer = f"/{escape(next(slots_of(entry.name)).name)}"
            raise UnsendableError(pointer, "it is the name of an entry of the query, and cannot be empty")
        if entry.value is None:
            return [name]
        slot = lone_slot(entry.value)
        if slot is None:
            return [f"{name}={self._encoded(entry.value, values)}"]
        value = values[slot.name]
        return query_entries(name, value, style_for(slot.name, value, self._styles, "query"))

    @staticmethod
    def _encoded(parts: Parts, values: Mapping[str, object]) -> str:
        return "".join(part if isinstance(part, str) else encode(joined(values[part.name])) for part in parts)

    def _header_lines(self, values: Mapping[str, object]) -> Iterator[tuple[str, str]]:
        for name, parts in self._headers:
            if any(is_empty(values.get(slot.name)) for slot in slots_of(parts)):
                continue
            text = "".join(part if isinstance(part, str) else self._header(part, values) for part in parts)
            # Blanks around it are no part of a value (RFC 9110, 5.5).
            yield name, text.strip(" \t")

    def _header(self, slot: ParameterSlot, values: Mapping[str, object]) -> str:
        value = values[slot.name]
        text = header_text(value, style_for(slot.name, value, self._styles, "header"))
        if _HEADER.fullmatch(text) is None:
            why = "it goes into a header, which has one line, and no signs of control"
            raise UnsendableError(f"/{escape(slot.name)}", why)
        return text

    def _cookie_pairs(self, values: Mapping[str, object]) -> Iterator[str]:
        for name, parts in self._cookies:
            if any(is_empty(values.get(slot.name)) for slot in slots_of(parts)):
                continue
            slot = lone_slot(parts)
            if slot is not None:
                value = values[slot.name]
                yield from cookie_pairs(name, value, style_for(slot.name, value, self._styles, "cookie"))
            else:
                text = "".join(part if isinstance(part, str) else joined(values[part.name]) for part in parts)
                yield f"{name}={encode_cookie(text)}"


# As many as tools are called with heavy inputs at a time.
@lru_cache(maxsize=64)
def _template(job: bytes) -> RequestTemplate:
    spec, parameters, base = msgspec.msgpack.decode(job, type=tuple[RestSpec, Parameters, str])
    return assemble(spec, parameters, base)


class RequestMade(msgspec.Struct, frozen=True):
    """What `build_request` says beside the body: the request without it, or why there is none."""

    request: BuiltRequest | None = None
    pointer: str = ""
    why: str = ""


def build_request(arguments: bytes, payload: bytearray) -> tuple[bytes, bytes]:
    """The request of the input in `payload`, in a checker: its head as a `RequestMade`, and its body."""
    try:
        request = _template(arguments).build(msgspec.json.decode(payload))
    except UnsendableError as error:
        return msgspec.msgpack.encode(RequestMade(None, error.pointer, error.why)), b""
    return msgspec.msgpack.encode(RequestMade(msgspec.structs.replace(request, body=b""))), request.body


# --- at load ----------------------------------------------------------------------------------------------------------


def hints_of(spec: ToolSpec, method: str) -> AnnotationsSpec:
    """What is said of a tool, and where nothing is what its method says (RFC 9110, 9.2)."""
    said = spec.annotations or AnnotationsSpec()
    by_method: dict[str, bool] = {}
    if method in {"GET", "HEAD", "OPTIONS", "QUERY"}:
        by_method["read_only_hint"] = True
    if method == "DELETE":
        by_method["destructive_hint"] = True
    if method in {"PUT", "DELETE"}:
        by_method["idempotent_hint"] = True
    return msgspec.structs.replace(
        said, **{key: value for key, value in by_method.items() if getattr(said, key) is None}
    )


def assemble(spec: RestSpec, parameters: Parameters, base: str) -> RequestTemplate:
    path, query = split_target(target_of(spec))
    named = named_in(spec)
    unnamed = [name for name in parameters.names if name not in named]
    body = body_of(spec, parameters)
    method = spec.method or ("GET" if body is NO_BODY else "POST")
    entries = [*query, *(_entry(name, text) for name, text in spec.query.items())]
    if body is NO_BODY and unnamed and method in WITH_BODY:
        body = fields_body(unnamed, spec.content_type)
    else:
        entries += [QueryEntry((encode(name),), (ParameterSlot(name),)) for name in unnamed]
    return RequestTemplate(spec, parameters, base, method=method, segments=path, query=tuple(entries), body=body)


def target_of(spec: RestSpec) -> str:
    """The path and the query of the request, as they are written."""
    if spec.url is None:
        return spec.path or "/"
    return spec.url[len(origin_text(spec.url)) :] or "/"


def origin_text(url: str) -> str:
    """What stands in a URL before its path: the scheme, and all up to the next slash, question mark or hash."""
    found = re.match(r"[^/?#]*//[^/?#]*", url)
    return url if found is None else found[0]


def split_target(target: str) -> tuple[tuple[Parts, ...], list[QueryEntry]]:
    """The segments of a path, and the entries of the query behind it."""
    parts = parse_parts(target)
    slots = slots_of(parts)
    found = _URL.fullmatch("".join(part if isinstance(part, str) else _SLOT for part in parts))
    assert found is not None

    def filled(text: str) -> Parts:
        pieces: list[str | ParameterSlot] = []
        for number, literal in enumerate(text.split(_SLOT)):
            if number:
                pieces.append(next(slots))
            if literal:
                pieces.append(encode_literal(literal))
        return tuple(pieces)

    # In the order of the text, which is that of its slots.
    segments = tuple([filled(segment) for segment in found["path"].split("/")[1:]])
    entries = []
    for entry in (found["query"] or "").split("&"):
        name, sign, value = entry.partition("=")
        if entry:
            entries.append(QueryEntry(filled(name), filled(value) if sign else None))
    return segments, entries


def _entry(name: str, text: str) -> QueryEntry:
    """An entry of the table `query`, of which nothing is encoded yet."""
    value = tuple(encode(part) if isinstance(part, str) else part for part in parse_parts(text))
    return QueryEntry((encode(name),), value)


def texts_of(spec: RestSpec) -> Iterator[tuple[Path, str]]:
    """Every text that may hold placeholders, and its place in the table."""
    for key in _KEYS:
        yield from _strings(getattr(spec, key), (key,))


def _strings(value: object, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _strings(each, (*path, key))


def named_in(spec: RestSpec) -> frozenset[str]:
    """The parameters that have a place."""
    return frozenset(slot.name for _, text in texts_of(spec) for slot in slots_of(parse_parts(text)))
