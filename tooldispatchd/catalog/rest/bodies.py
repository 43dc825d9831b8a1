"""The bodies of requests: JSON, forms, text and bytes, each compiled once and built with an input."""

import binascii
import hashlib
import re
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from tooldispatchd.catalog.pointers import escape
from tooldispatchd.catalog.rest.declared import UnsendableError
from tooldispatchd.catalog.rest.placeholders import Parameters, ParameterSlot, Parts, lone_slot, parse_parts, slots_of
from tooldispatchd.catalog.rest.styles import encode, is_empty, joined, query_entries, style_for
from tooldispatchd.catalog.restspecs import RestSpec

KINDS: Final = ("body", "form", "multipart", "text", "octets")
JSON: Final = "application/json"
_FORM: Final = "application/x-www-form-urlencoded"
_MULTIPART: Final = "multipart/form-data"
_OCTETS: Final = "application/octet-stream"
# In the place of a field or an item that is left out.
_LEFT_OUT: Final = object()
# WHATWG HTML, 4.10.22.8: what would end a part's head or the quotes in it; and the other signs of control.
_UNQUOTABLE: Final = re.compile(r'["\x00-\x1f\x7f]')
_MEDIA_TYPE: Final = re.compile(r"[!#-'*+.^_`|~0-9A-Za-z-]+/[ -~]+")
_FILE_KEYS: Final = frozenset({"base64", "filename", "media_type"})

_encode: Final = msgspec.json.Encoder().encode
Values = Mapping[str, object]


class Body(msgspec.Struct, frozen=True):
    """How a body is made; `build` gives its bytes, None where there is none, and its media type."""

    make: Callable[[Values], bytes | None]
    media_type: str | None = None
    has_boundary: bool = False

    def build(self, values: Values) -> tuple[bytes | None, str | None]:
        """The body of a checked input. Raises `UnsendableError`."""
        made = self.make(values)
        if made is not None and self.has_boundary:
            return made, f"{self.media_type}; boundary={_boundary_in(made)}"
        return made, self.media_type


NO_BODY: Final = Body(lambda _values: None)


def body_of(spec: RestSpec, parameters: Parameters) -> Body:
    """The body that a tool's table says; `NO_BODY` where it says none."""
    said = spec.content_type
    if spec.body is not None:
        template = _compiled(spec.body)
        return Body(lambda values: _json(template, values), said or JSON)
    if spec.form:
        fields = tuple((encode(name), parse_parts(text)) for name, text in spec.form.items())
        return Body(lambda values: _form(fields, spec.styles, values), said or _FORM)
    if spec.multipart:
        parts = tuple((name, parse_parts(text)) for name, text in spec.multipart.items())
        return Body(lambda values: _multipart(parts, parameters.files, values), said or _MULTIPART, has_boundary=True)
    if spec.text is not None:
        text = parse_parts(spec.text)
        return Body(lambda values: _text(text, values), said or "text/plain; charset=utf-8")
    if spec.octets is not None:
        slot = lone_slot(parse_parts(spec.octets)) or ParameterSlot("")
        return Body(lambda values: _octets(slot, values), said or _OCTETS)
    return NO_BODY


def fields_body(names: Sequence[str], media_type: str | None) -> Body:
    """A JSON object of these parameters, as far as they are given."""
    return Body(lambda values: _encode({name: values[name] for name in names if name in values}), media_type or JSON)


# --- JSON ---


class _Record(msgspec.Struct, frozen=True):
    fields: tuple[tuple[str, object], ...]


class _Items(msgspec.Struct, frozen=True):
    items: tuple[object, ...]


class _Words(msgspec.Struct, frozen=True):
    parts: Parts


def _compiled(template: object) -> object:
    """A template with its texts taken apart."""
    if isinstance(template, str):
        parts = parse_parts(template)
        return lone_slot(parts) or (_Words(parts) if any(slots_of(parts)) else "".join(map(str, parts)))
    if isinstance(template, dict):
        return _Record(tuple((key, _compiled(value)) for key, value in template.items()))
    if isinstance(template, list):
        return _Items(tuple(map(_compiled, template)))
    return template


def _json(template: object, values: Values) -> bytes | None:
    filled = _filled(template, values)
    return None if filled is _LEFT_OUT else _encode(filled)


def _filled(template: object, values: Values) -> object:
    match template:
        case ParameterSlot(name):
            return values.get(name, _LEFT_OUT)
        case _Words(parts):
            return _LEFT_OUT if _lacks(parts, values) else _joined(parts, values)
        case _Record(fields):
            filled = [(key, _filled(value, values)) for key, value in fields]
            return {key: value for key, value in filled if value is not _LEFT_OUT}
        case _Items(items):
            return [value for item in items if (value := _filled(item, values)) is not _LEFT_OUT]
    return template


# --- text and bytes ---


def _text(parts: Parts, values: Values) -> bytes | None:
    return None if _lacks(parts, values) else _joined(parts, values).encode()


def _octets(slot: ParameterSlot, values: Values) -> bytes | None:
    value = values.get(slot.name)
    return None if value is None else _decoded(value, f"/{escape(slot.name)}")


def _decoded(value: object, pointer: str) -> bytes:
    """Bytes that an input holds in base64 (RFC 4648, 4)."""
    if not isinstance(value, str):
        raise UnsendableError(pointer, "bytes are a text in base64")
    try:
        return b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise UnsendableError(pointer, "it is not base64") from None


def _lacks(parts: Parts, values: Values) -> bool:
    """Whether a parameter in a text is not given."""
    return any(values.get(slot.name) is None for slot in slots_of(parts))


def _joined(parts: Parts, values: Values) -> str:
    return "".join(part if isinstance(part, str) else joined(values[part.name]) for part in parts)


# --- forms ---


def _form(fields: Sequence[tuple[str, Parts]], styles: Mapping[str, str], values: Values) -> bytes:
    entries: list[str] = []
    for name, parts in fields:
        slot = lone_slot(parts)
        if any(is_empty(values.get(each.name)) for each in slots_of(parts)):
            continue
        if slot is not None:
            value = values[slot.name]
            entries += query_entries(name, value, style_for(slot.name, value, styles, "query"))
        else:
            entries.append(f"{name}={encode(_joined(parts, values))}")
    # Where a form has a blank, it is written as this sign (WHATWG URL, 5.2).
    return "&".join(entries).replace("%20", "+").encode()


class _Part(msgspec.Struct, frozen=True):
    """A part of a form: what stands in its head, and its content."""

    name: str
    content: bytes
    filename: str | None = None
    media_type: str | None = None

    def lines(self) -> bytes:
        """Its head and its content (RFC 7578, 4)."""
        head = f'Content-Disposition: form-data; name="{_quoted(self.name)}"'
        if self.filename is not None:
            head += f'; filename="{_quoted(self.filename)}"'
        if self.media_type is not None:
            head += f"\r\nContent-Type: {self.media_type}"
        return head.encode() + b"\r\n\r\n" + self.content + b"\r\n"


def _multipart(fields: Sequence[tuple[str, Parts]], files: frozenset[str], values: Values) -> bytes:
    parts: list[bytes] = []
    for name, text in fields:
        if any(is_empty(values.get(slot.name)) for slot in slots_of(text)):
            continue
        slot = lone_slot(text)
        if slot is None:
            parts.append(_Part(name, _joined(text, values).encode()).lines())
            continue
        value = values[slot.name]
        pointer, is_file = f"/{escape(slot.name)}", slot.name in files
        each_one = value if isinstance(value, list) else [value]
        parts += [_part_of(name, each, pointer, is_file=is_file).lines() for each in each_one]
    # Of what it stands between: nobody can put it there, since that would change it.
    boundary = hashlib.sha256(b"".join(parts)).hexdigest().encode()
    return b"".join(b"--" + boundary + b"\r\n" + part for part in parts) + b"--" + boundary + b"--\r\n"


def _boundary_in(body: bytes) -> str:
    """The boundary of a form, which its last line has."""
    return body.removesuffix(b"--\r\n").rpartition(b"--")[2].decode()


def _part_of(name: str, value: object, pointer: str, *, is_file: bool) -> _Part:
    if isinstance(value, dict) and "base64" in value and value.keys() <= _FILE_KEYS:
        filename, media_type = str(value.get("filename", name)), str(value.get("media_type", _OCTETS))
        if _MEDIA_TYPE.fullmatch(media_type) is None:
            raise UnsendableError(f"{pointer}/media_type", "it is no media type")
        return _Part(name, _decoded(value["base64"], f"{pointer}/base64"), filename, media_type)
    if is_file:
        return _Part(name, _decoded(value, pointer), name, _OCTETS)
    if isinstance(value, dict | list):
        return _Part(name, _encode(value), media_type=JSON)
    return _Part(name, joined(value).encode())


def _quoted(text: str) -> str:
    return _UNQUOTABLE.sub(lambda found: f"%{ord(found[0]):02X}", text)
