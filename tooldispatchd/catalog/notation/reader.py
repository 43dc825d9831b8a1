"""Read files of the plumb notation into the tables of a configuration, with the place of everything in them.

    texts ── parse ──▶ declarations ── names of all files ──▶ [types] [mcp] [processes] [tools], and places

All files share one namespace. What a table may hold is for the catalog to judge, which knows the other tables too. Here
only the notation's own rules are checked.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final, cast

import msgspec

from tooldispatchd.catalog.names import declared_name_problem
from tooldispatchd.catalog.notation.bindings import Declarations, Names, TypeTexts, Values
from tooldispatchd.catalog.notation.expressions import SourceMap
from tooldispatchd.catalog.notation.parse import parse
from tooldispatchd.catalog.notation.places import NotationError, NotationProblem, SourcePosition
from tooldispatchd.catalog.notation.syntax import (
    Declaration,
    LetDeclaration,
    Module,
    TypeDeclaration,
    TypeText,
    Value,
    ValueDeclaration,
)
from tooldispatchd.catalog.notation.tables import Tables
from tooldispatchd.catalog.notation.tokens import STRANGE, tokens_of
from tooldispatchd.catalog.problems import Path
from tooldispatchd.catalog.types import WORDS

# Of a name that is refused; it may be as long as the file.
MAX_SHOWN: Final = 80


class Notation(msgspec.Struct, frozen=True):
    """What the files mean.

    `table` has `types`, `mcp`, `processes` and `tools`, each as the table of that name in TOML would be. `places` says
    where each declaration, key and item stands; `origins` where the parts of each expression and type came from.
    `problems` are in the order of files and lines; what they take away is left out of the table, and `lacking` are the
    tables, by `(section, name)`, that have become less than they were meant to be.
    """

    table: dict[str, object]
    places: dict[Path, SourcePosition]
    origins: dict[Path, SourceMap] = {}
    problems: tuple[NotationProblem, ...] = ()
    lacking: frozenset[Path] = frozenset()

    def place_of(self, path: Path) -> SourcePosition | None:
        """The place of what stands at `path`, or of the nearest around it; None where there is neither."""
        for length in range(len(path), 0, -1):
            place = self.places.get(path[:length])
            if place is not None:
                return place
        return None

    def place_in(self, path: Path, line: int, column: int) -> SourcePosition | None:
        """The place of a character (1-based) of the expression or the type at `path`; of the path where it is none."""
        origin = self.origins.get(path)
        return self.place_of(path) if origin is None else origin.place_of(line, column)


def read_notation(sources: Sequence[tuple[str, str]], known_types: Collection[str] | None = None) -> Notation:
    """What the files, each a name and its text, mean together, with all that is wrong. Raises `NotationError`.

    A file that cannot be parsed raises its first error; only where all can be, what they declare is looked at.
    `known_types` are the types that are declared elsewhere; without them no type's name is looked at.
    """
    problems: list[NotationProblem] = []
    parsed: dict[str, tuple[Declaration, ...]] = {}
    for file, text in sources:
        if file in parsed:
            problems.append(NotationProblem(file, 1, 1, "this file is named twice"))
            continue
        try:
            parsed[file] = parse(file, text)
        except NotationError as error:
            parsed[file] = ()
            problems.extend(error.problems)
    if problems:
        raise NotationError(problems)
    return _Reader(parsed, known_types).read()


def words_of(text: str) -> Iterator[tuple[SourcePosition, str, bool]]:
    """The tokens and the parts of expressions as far as there are any: where, what, and whether it is a string."""
    try:
        for token in tokens_of("", text):
            # What begins with no sign of the notation may be a string of another one.
            if token.type == STRANGE:
                return
            yield token.place, token.text, token.type == "STRING"
            pieces = token.value if isinstance(token.value, tuple) else ()
            yield from ((piece.place, piece.text, piece.kind == "text") for piece in pieces if piece.kind != "space")
    except NotationError:
        return


class _Reader:
    """Gathers what all files declare, and has the tables made of it."""

    def __init__(self, parsed: dict[str, tuple[Declaration, ...]], known_types: Collection[str] | None) -> None:
        self._written = Declarations()
        self._known_types = known_types
        self._order = {file: index for index, file in enumerate(parsed)}
        self._modules = {
            file: declarations[0].name
            for file, declarations in parsed.items()
            if declarations and isinstance(declarations[0], Module)
        }
        self._types: dict[str, tuple[SourcePosition, TypeText]] = {}
        self._values: dict[str, Value] = {}
        self._lets: dict[str, LetDeclaration] = {}
        # Of processes, tools and values, which share one namespace.
        self._declared: dict[str, SourcePosition] = {}
        for declarations in parsed.values():
            for index, declaration in enumerate(declarations):
                self._declare(declaration, is_first=index == 0)

    def read(self) -> Notation:
        """The tables, and every problem."""
        written = self._written
        names = Names(self._declared, self._modules)
        types = TypeTexts(self._types, Names(self._types, self._modules), written, known=self._known_types)
        types.write()
        values = Values(self._values, names, written)
        tables = Tables(values, names, types, written)
        for name, declaration in self._lets.items():
            count = len(written.problems)
            tables.declare(name, declaration)
            if len(written.problems) > count:
                written.lacking |= {("tools", name), ("processes", name)}
        values.refuse_unknown()
        ordered = sorted(written.problems, key=lambda each: (self._order[each.file], each.line, each.column))
        table: dict[str, object] = {
            "types": written.types,
            "mcp": written.mcp,
            "tools": written.tools,
            "processes": written.processes,
        }
        for section, name, key in written.missing:
            entries = cast("dict[str, dict[str, object] | None]", table[section])
            entries[name] = {other: value for other, value in (entries[name] or {}).items() if other != key}
            written.lacking.add((section, name))
        return Notation(table, written.places, written.origins, tuple(ordered), frozenset(written.lacking))

    def _declare(self, declaration: Declaration, *, is_first: bool) -> None:
        if isinstance(declaration, Module):
            refused = declared_name_problem(declaration.name)
            if not is_first:
                refused = "a module is named once, before everything else in its file"
            if refused:
                self._written.refuse(declaration.place, refused)
            return
        if not isinstance(declaration, LetDeclaration):
            for annotation in declaration.annotations:
                self._written.refuse(annotation.place, f"@{annotation.name} stands before processes and tools only")
        module = self._modules.get(declaration.place.file, "")
        name = f"{module}.{declaration.name}" if module else declaration.name
        refused = declared_name_problem(name)
        if refused:
            self._written.refuse(declaration.place, f"{refused}: {name[:MAX_SHOWN]}")
            self._written.lacking |= {(section, name) for section in ("types", "mcp", "tools", "processes")}
        if isinstance(declaration, TypeDeclaration):
            if name in WORDS:
                self._written.refuse(declaration.place, f"a built-in type has this name: {name}")
                self._written.lacking.add(("types", name))
            earlier = self._types.get(name)
            if self._is_new(name, declaration.place, earlier[0] if earlier else None):
                self._types[name] = (declaration.place, declaration.type)
        elif self._is_new(name, declaration.place, self._declared.get(name)):
            self._declared[name] = declaration.place
            if isinstance(declaration, ValueDeclaration):
                self._values[name] = declaration.value
            else:
                self._lets[name] = declaration

    def _is_new(self, name: str, place: SourcePosition, earlier: SourcePosition | None) -> bool:
        if earlier is None:
            return True
        where = f"line {earlier.line}" if earlier.file == place.file else f"{earlier.file}, line {earlier.line}"
        self._written.refuse(place, f'"{name}" is declared already, in {where}')
        return False
