"""Values as text where a request has them: percent-encoding by place, and the styles of lists and records.

The styles are those of RFC 6570, as OpenAPI 3.1 names them ("Style Values"), and two more: `brackets`
(`filters[0][field]=…`, which `deepObject` is too, for values of any depth) and `json`. What no style knows, such as a
list within a list, is JSON. A null in a list or a record is left out, as RFC 6570 leaves out what is undefined.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final, Literal

import msgspec

from tooldispatchd.catalog.pointers import escape
from tooldispatchd.catalog.rest.declared import UnsendableError
from tooldispatchd.catalog.templates import text_of

# RFC 3986, 2.3. All else is encoded, also what may stand in a path or a query as it is: no parser reads that otherwise.
_RESERVED: Final = re.compile(r"[^A-Za-z0-9._~-]+")
# With `+` (OpenAPI's allowReserved) these stay. `#`, `&`, `+`, `[` and `]` would end a value or be read as another.
_NOT_ALLOWED: Final = re.compile(r"[^A-Za-z0-9._~:/?@!$'()*,;=-]+")
# Literal text of a URL: what RFC 3986 admits stays as its author wrote it, the sign of what is encoded among it.
_NO_URL: Final = re.compile(r"[^A-Za-z0-9._~:/?@!$&'()*+,;=%-]+")
# RFC 6265, 4.1.1, without the sign of what is encoded.
_NO_COOKIE: Final = re.compile(r"[^\x21\x23\x24\x26-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]+")
_STYLE: Final = re.compile(r"(?P<name>\w+)(?P<reserved>\+)?(?P<explode>\*)?")

Place = Literal["path", "query", "header", "cookie"]
OF_PLACE: Final[dict[Place, tuple[str, ...]]] = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject", "brackets", "json"),
    "header": ("simple", "json"),
    "cookie": ("form", "json"),
}
_DEFAULT: Final[dict[Place, str]] = {"path": "simple", "query": "form*", "header": "simple", "cookie": "form"}
# What stands between the items of a list, encoded.
_DELIMITERS: Final = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}


class ValueStyle(msgspec.Struct, frozen=True):
    """How a parameter's value is written."""

    name: str
    explode: bool = False
    reserved: bool = False


def style_of(text: str | None, place: Place) -> ValueStyle:
    """The style that a text of the configuration says, or that of its place where it says none."""
    found = _STYLE.fullmatch(text or _DEFAULT[place])
    assert found is not None
    return ValueStyle(found["name"], found["explode"] is not None, found["reserved"] is not None)


def style_for(name: str, value: object, styles: Mapping[str, str], place: Place) -> ValueStyle:
    """Find the style of the parameter `name`. Raises `UnsendableError` for an entry without a name."""
    style = style_of(styles.get(name), place)
    if _has_nameless(value, style):
        raise UnsendableError(f"/{escape(name)}", "a field of it has an empty name, and would be sent without one")
    return style


def _has_nameless(value: object, style: ValueStyle) -> bool:
    """Tell whether a record whose fields become entries has a field with the empty name."""
    is_nested = style.name in {"deepObject", "brackets"}
    if isinstance(value, list):
        return is_nested and any(_has_nameless(each, style) for each in value)
    if not isinstance(value, dict) or not (is_nested or style.explode):
        return False
    return value.get("") is not None or (is_nested and any(_has_nameless(each, style) for each in value.values()))


def encode(text: str, kept_out: re.Pattern[str] = _RESERVED) -> str:
    """Percent-encoded in UTF-8 (RFC 3986, 2.1)."""
    return kept_out.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), text)


def encode_literal(text: str) -> str:
    """Text of a URL as its author wrote it, with what no URL can hold encoded."""
    return encode(text, _NO_URL)


def encode_cookie(text: str) -> str:
    """The value of a cookie; what must not stand there is encoded."""
    return encode(text, _NO_COOKIE)


def is_empty(value: object) -> bool:
    """Whether a value is as good as not given: null, and a list or record without anything."""
    return value is None or value in ([], {})


def joined(value: object) -> str:
    """A value within a text: the items of a list, and the names and values of a record, with commas."""
    return ",".join(_flat(value)) if isinstance(value, list | dict) else text_of(value)


def path_text(name: str, value: object, style: ValueStyle) -> str:
    """A value in a path: `simple`, `label` or `matrix`."""
    if style.name == "matrix":
        return "".join(f";{key}={text}" if text else f";{key}" for key, text in _named(name, value, style, ","))
    between = "," if style.name == "simple" or not style.explode else "."
    if isinstance(value, dict) and style.explode:
        text = between.join(f"{encode(key)}={encode(text_of(each))}" for key, each in _members(value))
    else:
        text = between.join(map(encode, _flat(value) if isinstance(value, list | dict) else [text_of(value)]))
    return text if style.name == "simple" else f".{text}"


def query_entries(name: str, value: object, style: ValueStyle) -> list[str]:
    """The entries of a query, or the fields of a form, that a value is; `name` is encoded."""
    kept_out = _NOT_ALLOWED if style.reserved else _RESERVED
    match style.name:
        case "json":
            return [f"{name}={encode(msgspec.json.encode(value).decode(), kept_out)}"]
        case "deepObject" | "brackets":
            return [f"{key}={encode(text, kept_out)}" for key, text in _nested(name, value)]
    pairs = _named(name, value, style, _DELIMITERS[style.name], kept_out)
    return [f"{key}={text}" for key, text in pairs]


def header_text(value: object, style: ValueStyle) -> str:
    """A value in a header, not encoded."""
    if style.name == "json":
        # In ASCII, as what stands in other headers.
        return json.dumps(value, separators=(",", ":"))
    if isinstance(value, dict) and style.explode:
        return ",".join(f"{key}={text_of(each)}" for key, each in _members(value))
    return joined(value)


def cookie_pairs(name: str, value: object, style: ValueStyle) -> list[str]:
    """The cookies that a value is."""
    if style.name == "json":
        return [f"{name}={encode_cookie(msgspec.json.encode(value).decode())}"]
    return [f"{key}={text}" for key, text in _named(name, value, style, "%2C", _NO_COOKIE)]


def _named(
    name: str, value: object, style: ValueStyle, between: str, kept_out: re.Pattern[str] = _RESERVED
) -> list[tuple[str, str]]:
    """Names and values, encoded: one of the parameter's own name, or one for each item where it explodes."""
    if style.explode and isinstance(value, list):
        return [(name, encode(text, kept_out)) for text in _flat(value)]
    if style.explode and isinstance(value, dict):
        return [(encode(key), encode(text_of(each), kept_out)) for key, each in _members(value)]
    if isinstance(value, list | dict):
        return [(name, between.join(encode(text, kept_out) for text in _flat(value)))]
    return [(name, encode(text_of(value), kept_out))]


def _nested(name: str, value: object) -> Iterator[tuple[str, str]]:
    """`name[key][0]` for each value that is neither a list nor a record, however deep; the name encoded."""
    if isinstance(value, dict):
        for key, each in _members(value):
            yield from _nested(f"{name}%5B{encode(key)}%5D", each)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            if each is not None:
                yield from _nested(f"{name}%5B{index}%5D", each)
    else:
        yield name, text_of(value)


def _members(value: dict[str, object]) -> list[tuple[str, object]]:
    return [(key, each) for key, each in value.items() if each is not None]


def _flat(value: list[object] | dict[str, object]) -> list[str]:
    """The items of a list, or the names and values of a record in turn, as texts."""
    if isinstance(value, list):
        return [text_of(each) for each in value if each is not None]
    return [text for key, each in _members(value) for text in (key, text_of(each))]
