"""Which fields of a configuration hold secrets: their types say it, and all that masks or shows a value asks them.

A token ends up in `args`, in a URL, in the place of a file's or a variable's name, and under keys that nobody thought
of. So the value of an unknown key counts as a secret too, and so does what stands where a table or a list should.
"""

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta, inspect

from tooldispatchd.catalog.problems import Path

MASK: Final = "…"

_SHOWN_IF: Final = "shown_if"
_NOTHING: Final = r"(?!)"
# As a table of `[mcp]` is named.
_SERVER_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}"
_UNMARKED: Final[Mapping[str, object]] = MappingProxyType({})
_UNKNOWN: Final[Mapping[str, object]] = MappingProxyType({_SHOWN_IF: _NOTHING})
_T = TypeVar("_T")

Secret = Annotated[_T, Meta(extra={"secret": True, _SHOWN_IF: _NOTHING})]
"""A value that is a secret, or may hold one: nothing of it is shown."""
SecretFile = Annotated[_T, Meta(extra={_SHOWN_IF: _NOTHING})]
"""The name of a file with secrets or keys; people put the secret itself there."""
# Such a name has other letters than a token (POSIX, XBD 8.1).
SecretVariable = Annotated[_T, Meta(extra={_SHOWN_IF: r"[A-Z_][A-Z0-9_]{0,63}"})]
"""The name of a variable with a secret; people put the secret itself there."""
SecretChoice = Annotated[_T, Meta(extra={_SHOWN_IF: r"[A-Za-z][A-Za-z0-9._-]{0,11}"})]
"""A choice of words in whose place people put a secret; that is longer."""
SecretStore = Annotated[_T, Meta(extra={_SHOWN_IF: r"sqlite:.*"})]
"""A kind of store and a file; or the URL of a database, which may hold its password."""


class Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the configuration: immutable; an unknown key is an error, and `repr` masks its secrets."""

    def __repr__(self) -> str:
        kind = _kind_of(type(self))
        assert isinstance(kind, inspect.StructType)
        masked: dict[str, object] = {}
        for field in kind.fields:
            value = getattr(self, field.name)
            if value is None or not _is_marked(field.type):
                continue
            if isinstance(value, dict):
                masked[field.name] = dict.fromkeys(value, MASK)
            else:
                masked[field.name] = (MASK,) * len(value) if isinstance(value, tuple) else MASK
        return msgspec.Struct.__repr__(msgspec.structs.replace(self, **masked))


def is_secret(spec: type[Spec], path: Path) -> bool:
    """Whether what stands at `path` of a table is a secret, or may hold one."""
    return bool(_mark(_kind_of(spec), path).get("secret"))


def is_shown(spec: type[Spec], path: Path) -> bool:
    """Whether whatever stands at `path` of a table may be shown."""
    return _SHOWN_IF not in _mark(_kind_of(spec), path)


def is_shown_as(spec: type[Spec], path: Path, value: object) -> bool:
    """Whether `value`, which stands at `path` of a table, may be shown."""
    form = _mark(_kind_of(spec), path).get(_SHOWN_IF)
    return form is None or (isinstance(value, str) and re.fullmatch(str(form), value) is not None)


@cache
def _kind_of(spec: type[Spec]) -> inspect.Type:
    return inspect.type_info(spec)


def _is_marked(kind: inspect.Type) -> bool:
    match kind:
        case inspect.Metadata():
            return _SHOWN_IF in (kind.extra or {}) or _is_marked(kind.type)
        case inspect.UnionType():
            return any(map(_is_marked, kind.types))
        case inspect.DictType():
            return _is_marked(kind.value_type)
        case inspect.VarTupleType():
            return _is_marked(kind.item_type)
    return False


def _mark(kind: inspect.Type, path: Path) -> Mapping[str, object]:
    """The mark of what stands at `path` within a value of this type; empty where it has none."""
    match kind:
        case inspect.Metadata():
            mark = kind.extra or {}
            return mark if _SHOWN_IF in mark else _mark(kind.type, path)
        case inspect.UnionType():
            marks = [_mark(each, path) for each in kind.types if not isinstance(each, inspect.NoneType)]
            if not path and {inspect.StrType, inspect.StructType} <= set(map(type, kind.types)):
                # A server by its name may be shown, and by its URL not.
                return {_SHOWN_IF: _SERVER_NAME}
            return next((mark for mark in marks if mark is not _UNKNOWN), _UNKNOWN)
        case inspect.StructType() if path:
            inner = next((field.type for field in kind.fields if field.encode_name == path[0]), None)
            return _UNKNOWN if inner is None else _mark(inner, path[1:])
        case inspect.DictType() if path:
            return _mark(kind.value_type, path[1:])
        case inspect.VarTupleType() if path and isinstance(path[0], int):
            return _mark(kind.item_type, path[1:])
        case inspect.StructType() | inspect.DictType() | inspect.VarTupleType() | inspect.CustomType():
            return _UNKNOWN
    return _UNKNOWN if path else _UNMARKED
