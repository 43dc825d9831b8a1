"""Values of the notation to plain ones: names of value bindings are replaced by what they stand for.

What a name means depends on where it stands: where tools, processes or servers are named it is their name, unless a
value binding has it. A record that is bound to a name and used as a server becomes a server of that name, once.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, auto
from itertools import dropwhile
from typing import Final

from tooldispatchd.catalog.notation.grammar import KEYWORDS
from tooldispatchd.catalog.notation.syntax import Items, KeyValue, Pairs, Reference, Scalar, Value
from tooldispatchd.catalog.notation.written import Declarations, Table
from tooldispatchd.catalog.problems import Path

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
_SERVER_KEYS: Final = {"tools": Meaning.WORD, "deny": Meaning.WORD}


class Names:
    """Which names are declared, and what one means in a file with a module."""

    def __init__(self, declared: Iterable[str], modules: Mapping[str, str]) -> None:
        self._declared = frozenset(declared)
        self._modules = modules

    def is_declared(self, name: str) -> bool:
        """Whether a declaration has this very name."""
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

    def make(self, value: Value, path: Path, meaning: Meaning = Meaning.NOTHING) -> object:
        """The plain value at `path`; None, with a problem told, where there is none."""
        return self._make(value, path, meaning, 1)

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

    def _make(self, value: Value, path: Path, meaning: Meaning, depth: int) -> object:
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
                return [self._make(item, (*path, index), meaning, depth + 1) for index, item in enumerate(items)]
            case Pairs(pairs):
                return self._table(pairs, path, meaning, depth)
            case Reference():
                return self._refer(value, path, meaning, depth)

    def _table(self, pairs: tuple[KeyValue, ...], path: Path, meaning: Meaning, depth: int) -> Table:
        meanings = _SERVER_KEYS if meaning is Meaning.SERVER else {}
        table: Table = {}
        for pair in pairs:
            inner = (*path, pair.key)
            self._written.places.setdefault(inner, pair.place)
            table[pair.key] = self._make(pair.value, inner, meanings.get(pair.key, Meaning.NOTHING), depth + 1)
        return table

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
                self._written.mcp[name] = self._make(bound, ("mcp", name), meaning, depth)
            return name
        return self._make(bound, path, meaning, depth + 1)

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
                elif inner in trail:
                    self._refuse_cycle(inner, trail)
                elif inner not in done:
                    trail[inner] = self._used_by(inner)

    def _refuse_cycle(self, first: str, trail: Mapping[str, object]) -> None:
        if first in self._circular:
            return
        self._circular.add(first)
        cycle = list(dropwhile(lambda name: name != first, trail))
        shown = [*cycle[:4], *(["…"] if len(cycle) > 4 else []), first]
        self._written.refuse(self._bindings[first].place, f"a value cannot be made of itself: {' -> '.join(shown)}")

    def _used_by(self, name: str) -> Iterator[str]:
        """The bindings whose names stand in one."""
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
