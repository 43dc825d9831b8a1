"""Types as they are written in a file to types as text, with the names that they mean there."""

from collections.abc import Collection, Iterator, Mapping

from tooldispatchd.catalog.names import MAX_NAME
from tooldispatchd.catalog.notation.expressions import SourceMap
from tooldispatchd.catalog.notation.places import SourcePosition
from tooldispatchd.catalog.notation.syntax import TypeText
from tooldispatchd.catalog.notation.values import Names
from tooldispatchd.catalog.notation.written import MAX_SEARCHED, Declarations
from tooldispatchd.catalog.problems import Path
from tooldispatchd.catalog.types import (
    JSON,
    MAX_TEXT,
    Named,
    Primitive,
    Product,
    Stream,
    Type,
    columns_of_types,
    parts,
    show,
    show_arrow,
    with_parts,
)
from tooldispatchd.catalog.typetable import TYPE_WORDS, nearest_type


class TypeTexts:
    """The declared types of all files; `declared` holds each as it was read.

    `known` are the types that are declared elsewhere; where it is None nobody knows them, and any name may be right.
    """

    def __init__(
        self,
        declared: Mapping[str, tuple[SourcePosition, TypeText]],
        names: Names,
        written: Declarations,
        *,
        known: Collection[str] | None,
    ) -> None:
        self._declared = declared
        self._known = known
        self._names = names
        self._written = written

    def write(self) -> None:
        """The table `[types]`."""
        for name, (place, text) in self._declared.items():
            self._written.places["types", name] = place
            shown = show(self._meant_and_known(text))
            self._check_length(shown, text.place)
            self._written.types[name] = shown
            self._mark(("types", name), shown, text.place, text.marks)

    def write_arrow(self, source: TypeText, target: TypeText, path: Path) -> str:
        """`A -> B` as a table holds it at `path`."""
        shown = show_arrow(self._meant_and_known(source), self._meant_and_known(target))
        self._check_length(shown, source.place)
        self._written.places[path] = source.place
        self._mark(path, shown, source.place, source.marks + target.marks)
        return shown

    def _mark(self, path: Path, shown: str, place: SourcePosition, marks: tuple[SourcePosition, ...]) -> None:
        """Note from where the names in a type's text came."""
        columns = columns_of_types(shown) if len(shown) <= MAX_TEXT else []
        if len(columns) == len(marks):
            at = tuple((1, column) for column in columns)
            self._written.origins[path] = SourceMap(((1, 1), *at), (place, *marks))

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

    def _check_length(self, shown: str, place: SourcePosition) -> None:
        if len(shown) > MAX_TEXT:
            self._written.refuse(place, f"a type has at most {MAX_TEXT} characters, and this one has {len(shown)}")

    def _meant_and_known(self, text: TypeText) -> Type:
        """The type with `json` in the place of each name that means nothing, which is told."""
        meant = self._meant(text)
        if self._known is None:
            return meant
        return self._without_unknown(meant, iter(text.marks))

    def _without_unknown(self, type_: Type, marks: Iterator[SourcePosition]) -> Type:
        match type_:
            case Primitive():
                next(marks)
                return type_
            case Named(name):
                place = next(marks)
                if name in self._declared or name in (self._known or ()):
                    return type_
                self._refuse_unknown(name, place)
                return JSON
            case Stream(item):
                next(marks)
                return Stream(self._without_unknown(item, marks))
            case _:
                return with_parts(type_, [self._without_unknown(part, marks) for part in parts(type_)])

    def _refuse_unknown(self, name: str, place: SourcePosition) -> None:
        close = None
        if len(self._written.problems) < MAX_SEARCHED:
            close = nearest_type(name, [*self._declared, *(self._known or ())])
        more = "" if close else f"; there are {TYPE_WORDS}"
        self._written.refuse(place, f"no such type: {name[:MAX_NAME]}{more}", close)

    def _meant(self, text: TypeText) -> Type:
        return self._qualified(text.type, text.place.file)

    def _qualified(self, type_: Type, file: str) -> Type:
        """The type with each name as it is declared; its depth is bounded where it is read."""
        if isinstance(type_, Named):
            return Named(self._names.resolve(type_.name, file))
        return with_parts(type_, [self._qualified(part, file) for part in parts(type_)])
