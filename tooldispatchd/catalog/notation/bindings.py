"""Resolve names, and write values and types to the tables, with the place of each key.

The name of a value binding is replaced by what the binding holds. Any other name is that of a tool, a process or a
server, where these are named. A record that is bound to a name and used as a server becomes one of that name, once.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum, auto
from typing import Final

from tooldispatchd.catalog.meanings import TYPE_WORDS, nearest_type
from tooldispatchd.catalog.names import MAX_NAME, nearest
from tooldispatchd.catalog.notation.expressions import SourceMap, translate
from tooldispatchd.catalog.notation.places import NotationError, NotationProblem, SourcePosition, problem_at
from tooldispatchd.catalog.notation.syntax import Formula, Items, Pairs, Reference, Scalar, TypeText, Value
from tooldispatchd.catalog.notation.tokens import KEYWORDS
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

# Of so many problems it is told what was probably meant: each search takes milliseconds.
MAX_SEARCHED: Final = 100

Table = dict[str, object]


class Declarations:
    """What has been made of the declarations so far, and all that is wrong with them."""

    def __init__(self) -> None:
        self.types: Table = {}
        self.mcp: Table = {}
        self.tools: Table = {}
        self.processes: Table = {}
        self.places: dict[Path, SourcePosition] = {}
        self.origins: dict[Path, SourceMap] = {}
        self.problems: list[NotationProblem] = []
        self.lacking: set[Path] = set()
        """The tables, by `(section, name)`, that are not what was meant, because of a problem."""
        self.missing: set[tuple[str, str, str]] = set()
        """The keys of tables that have no value, because of a problem: section, name and key."""
        self._told: set[NotationProblem] = set()

    def refuse(self, place: SourcePosition, why: str, near: str | None = None) -> None:
        """Note one problem, once: a type may stand in two tables."""
        problem = problem_at(place, why, near)
        if problem not in self._told:
            self._told.add(problem)
            self.problems.append(problem)

    def refuse_unknown(self, place: SourcePosition, why: str, name: str, known: Iterable[str]) -> None:
        """Note that `name` is none of `known`, and which of them was probably meant."""
        near = nearest(name, known) if len(self.problems) < MAX_SEARCHED else None
        self.refuse(place, why, near)

    def miss(self, path: Path) -> None:
        """Note that the value at `path` cannot be made, so that its table goes without the key that it is of."""
        # A whole server may be one value too many.
        section, name, key = (*path, "")[:3]
        self.missing.add((str(section), str(name), str(key)))

    def tool(self, name: str, place: SourcePosition) -> Table:
        """A new table of `[tools]`."""
        return self._begin(self.tools, ("tools", name), name, place)

    def process(self, name: str, kind: str, place: SourcePosition, kind_place: SourcePosition) -> Table:
        table = self._begin(self.processes, ("processes", name), name, place)
        table["kind"] = kind
        self.places["processes", name, "kind"] = kind_place
        return table

    def expression(self, formula: Formula, path: Path) -> str:
        """The CEL text that stands at `path`."""
        self.places[path] = formula.place
        try:
            translated = translate(formula.pieces)
        except NotationError as error:
            self.problems.extend(error.problems)
            self.miss(path)
            return ""
        self.origins[path] = translated.origin
        return translated.cel

    def _begin(self, tables: Table, path: Path, name: str, place: SourcePosition) -> Table:
        table: Table = {}
        tables[name] = table
        self.places[path] = place
        return table


MAX_DEPTH: Final = 64
# A binding may be used in another one many times over, and that one in a third: the sum has a bound of its own.
MAX_VALUES: Final = 100_000


class Meaning(Enum):
    """What an unbound name stands for."""

    NOTHING = auto()
    DECLARED = auto()
    """A tool or a process, looked for in the module first."""
    WORD = auto()
    """Itself: what a server calls its tools."""
    SERVER = auto()


# Keys under which names are meant, in a server's table.
_SERVER_KEYS: Final = dict.fromkeys(("tools", "allow", "deny", "read_only", "idempotent"), Meaning.WORD)


class Names:
    """Which names are declared, and what one means in a file with a module."""

    def __init__(self, declared: Iterable[str], modules: Mapping[str, str]) -> None:
        self._declared = frozenset(declared)
        self._modules = modules

    def is_declared(self, name: str) -> bool:
        return name in self._declared

    def resolve(self, name: str, file: str) -> str:
        """The declared name that `name` means in `file`: the innermost module's first; itself where there is none."""
        module = self._modules.get(file, "")
        while module:
            if f"{module}.{name}" in self._declared:
                return f"{module}.{name}"
            module = module.rpartition(".")[0]
        return name


class Values:
    """The value bindings of all files, and what becomes of them where they are used."""

    def __init__(self, bindings: Mapping[str, Value], names: Names, written: Declarations) -> None:
        self._bindings = bindings
        self._names = names
        self._written = written
        # Two bounds, each told once: what goes past one does so many times.
        self._made = 0
        self._is_deep = False
        self._used: set[str] = set()
        # At least one of every cycle, where what would never end stops.
        self._circular: set[str] = set()
        self._refuse_cycles()

    def refuse_unknown(self) -> None:
        """Tell of each binding that stands for nothing and is used by nothing; after all else.

        It was not meant as a value: a word of the notation is misspelt there.
        """
        for name, value in self._bindings.items():
            if not isinstance(value, Reference) or name in self._used:
                continue
            if not self._names.is_declared(self._resolve(value)):
                self._refuse_unknown(value, KEYWORDS)

    def _refuse_unknown(self, reference: Reference, words: Iterable[str] = ()) -> None:
        why = f'no value is named "{reference.name}"'
        self._written.refuse_unknown(reference.place, why, reference.name, [*words, *self._bindings])

    def _resolve(self, reference: Reference) -> str:
        return self._names.resolve(reference.name, reference.place.file)

    def make(self, value: Value, path: Path, meaning: Meaning = Meaning.NOTHING, depth: int = 1) -> object:
        """The plain value at `path`; None, with a problem told, where there is none."""
        self._written.places.setdefault(path, value.place)
        self._made += 1
        if self._made > MAX_VALUES:
            if self._made == MAX_VALUES + 1:
                self._written.refuse(value.place, f"with all names replaced there are more than {MAX_VALUES} values")
            self._written.miss(path)
            return None
        if depth > MAX_DEPTH:
            if not self._is_deep:
                self._written.refuse(value.place, f"with all names replaced this is nested more than {MAX_DEPTH} deep")
            self._is_deep = True
            self._written.miss(path)
            return None
        match value:
            case Scalar(plain):
                return plain
            case Items(items):
                return [self.make(item, (*path, index), meaning, depth + 1) for index, item in enumerate(items)]
            case Pairs(pairs):
                meanings = _SERVER_KEYS if meaning is Meaning.SERVER else {}
                table: Table = {}
                for pair in pairs:
                    inner = (*path, pair.key)
                    self._written.places.setdefault(inner, pair.place)
                    table[pair.key] = self.make(pair.value, inner, meanings.get(pair.key, Meaning.NOTHING), depth + 1)
                return table
            case Reference():
                return self._refer(value, path, meaning, depth)

    def _refer(self, reference: Reference, path: Path, meaning: Meaning, depth: int) -> object:
        name = self._resolve(reference)
        self._used.add(name)
        bound = self._bindings.get(name)
        if name in self._circular:
            self._written.miss(path)
            return None
        if bound is None and meaning is Meaning.NOTHING:
            self._refuse_unknown(reference)
            self._written.miss(path)
            return None
        if bound is None:
            return reference.name if meaning is Meaning.WORD else name
        if isinstance(bound, Pairs) and meaning is Meaning.SERVER:
            if name not in self._written.mcp:
                # Before it is filled: it may use itself no more than others do.
                self._written.mcp[name] = None
                self._written.mcp[name] = self.make(bound, ("mcp", name), meaning, depth)
            return name
        return self.make(bound, path, meaning, depth + 1)

    def _refuse_cycles(self) -> None:
        """Tell of the bindings that are made of themselves: depth first, with a list in the place of recursion."""
        done: set[str] = set()
        for start in self._bindings:
            if start in done:
                continue
            trail: dict[str, Iterator[str]] = {start: self._used_by(start)}
            while trail:
                name, used = next(reversed(trail.items()))
                inner = next(used, None)
                if inner is None:
                    done.add(name)
                    trail.pop(name)
                elif inner in trail and inner not in self._circular:
                    self._circular.add(inner)
                    cycle = list(trail)[list(trail).index(inner) :]
                    way = " -> ".join([*cycle[:4], *(["…"] if len(cycle) > 4 else []), inner])
                    self._written.refuse(self._bindings[inner].place, f"a value cannot be made of itself: {way}")
                elif inner not in done and inner not in trail:
                    trail[inner] = self._used_by(inner)

    def _used_by(self, name: str) -> Iterator[str]:
        waiting: list[Value] = [self._bindings[name]]
        while waiting:
            value = waiting.pop()
            match value:
                case Reference():
                    used = self._resolve(value)
                    if used in self._bindings:
                        yield used
                case Items(items):
                    waiting.extend(reversed(items))
                case Pairs(pairs):
                    waiting.extend(pair.value for pair in reversed(pairs))
                case Scalar():
                    pass


# --- types, as text with the names that they mean ---


class TypeTexts:
    """The declared types of all files; `declared` holds each as it was read.

    `known` are the types that are declared elsewhere; where it is None they are not known, and any name may be right.
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
