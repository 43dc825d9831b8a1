"""The tables as they are being written, with the place of each key and the origin of each expression."""

from collections.abc import Iterable
from typing import Final

from tooldispatchd.catalog.names import nearest
from tooldispatchd.catalog.notation.expressions import SourceMap, translate
from tooldispatchd.catalog.notation.places import NotationError, NotationProblem, SourcePosition, problem_at
from tooldispatchd.catalog.notation.syntax import Formula
from tooldispatchd.catalog.problems import Path

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
        """A new table of `[processes]`."""
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
