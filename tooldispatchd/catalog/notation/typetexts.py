"""Types as they are written in a file to types as text, with the names that they mean there."""

from collections.abc import Mapping
from typing import assert_never

from tooldispatchd.catalog.notation.places import Place
from tooldispatchd.catalog.notation.syntax import TypeText
from tooldispatchd.catalog.notation.values import Names
from tooldispatchd.catalog.notation.written import Written
from tooldispatchd.catalog.types import (
    MAX_TEXT,
    Field,
    ListOf,
    Named,
    Primitive,
    Product,
    Record,
    Stream,
    Type,
    Union,
    show,
    show_arrow,
)


class TypeTexts:
    """The declared types of all files; `declared` holds each as it was read."""

    def __init__(self, declared: Mapping[str, tuple[Place, TypeText]], names: Names, written: Written) -> None:
        self._declared = declared
        self._names = names
        self._written = written

    def write(self) -> None:
        """The table `[types]`."""
        for name, (place, text) in self._declared.items():
            self._written.places["types", name] = place
            shown = show(self._meant(text))
            self._check_length(shown, text.place)
            self._written.types[name] = shown

    def show_arrow(self, source: TypeText, target: TypeText) -> str:
        """`A -> B` as a table holds it."""
        shown = show_arrow(self._meant(source), self._meant(target))
        self._check_length(shown, source.place)
        return shown

    def has_stream(self, text: TypeText) -> bool:
        """Whether messages of this type come one after the other: `!T`, or a product with such a part."""
        waiting = [self._meant(text)]
        seen: set[str] = set()
        while waiting:
            match waiting.pop():
                case Stream():
                    return True
                case Product(items):
                    waiting.extend(items)
                case Named(name) if name not in seen and name in self._declared:
                    seen.add(name)
                    waiting.append(self._meant(self._declared[name][1]))
                case _:
                    continue
        return False

    def _check_length(self, shown: str, place: Place) -> None:
        if len(shown) > MAX_TEXT:
            self._written.refuse(place, f"a type has at most {MAX_TEXT} characters, and this one has {len(shown)}")

    def _meant(self, text: TypeText) -> Type:
        return self._qualified(text.type, text.place.file)

    def _qualified(self, type_: Type, file: str) -> Type:
        """The type with each name as it is declared; its depth is bounded where it is read."""
        match type_:
            case Primitive():
                return type_
            case Named(name):
                return Named(self._names.resolve(name, file))
            case ListOf(item):
                return ListOf(self._qualified(item, file))
            case Stream(item):
                return Stream(self._qualified(item, file))
            case Record(fields):
                return Record(
                    tuple(Field(field.name, self._qualified(field.type, file), field.optional) for field in fields)
                )
            case Product(items):
                return Product(tuple(self._qualified(item, file) for item in items))
            case Union(options):
                return Union(tuple(self._qualified(option, file) for option in options))
            case _:
                assert_never(type_)
