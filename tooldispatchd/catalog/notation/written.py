"""The tables as they are being written, with the place of each key and the origin of each expression."""

from collections.abc import Iterable
from typing import Final

from tooldispatchd.catalog.names import nearest
from tooldispatchd.catalog.notation.expressions import Origin, translate
from tooldispatchd.catalog.notation.places import NotationProblem, Place, problem_at
from tooldispatchd.catalog.notation.syntax import Formula
from tooldispatchd.catalog.problems import Path

# Of so many problems it is told what was probably meant: each search takes milliseconds.
MAX_SEARCHED: Final = 100

Table = dict[str, object]


class Written:
    """What has been made of the declarations so far, and all that is wrong with them."""

    def __init__(self) -> None:
        self.types: Table = {}
        self.mcp: Table = {}
        self.tools: Table = {}
        self.processes: Table = {}
        self.places: dict[Path, Place] = {}
        self.origins: dict[Path, Origin] = {}
        self.problems: list[NotationProblem] = []

    def refuse(self, place: Place, why: str, near: str | None = None) -> None:
        """Note one problem."""
        self.problems.append(problem_at(place, why, near))

    def refuse_unknown(self, place: Place, why: str, name: str, known: Iterable[str]) -> None:
        """Note that `name` is none of `known`, and which of them was probably meant."""
        near = nearest(name, known) if len(self.problems) < MAX_SEARCHED else None
        self.refuse(place, why, near)

    def tool(self, name: str, place: Place) -> Table:
        """A new table of `[tools]`."""
        return self._begin(self.tools, ("tools", name), name, place)

    def process(self, name: str, kind: str, place: Place, kind_place: Place) -> Table:
        """A new table of `[processes]`."""
        table = self._begin(self.processes, ("processes", name), name, place)
        table["kind"] = kind
        self.places["processes", name, "kind"] = kind_place
        return table

    def expression(self, formula: Formula, path: Path) -> str:
        """The CEL text that stands at `path`."""
        translated = translate(formula.pieces)
        self.places[path] = formula.place
        self.origins[path] = translated.origin
        return translated.cel

    def _begin(self, tables: Table, path: Path, name: str, place: Place) -> Table:
        table: Table = {}
        tables[name] = table
        self.places[path] = place
        return table
