"""The chain of a `plumb`: names, and processes made of what is anonymous in its wiring."""

from tooldispatchd.catalog.names import declared_name_problem
from tooldispatchd.catalog.notation.expressions import field_of_input
from tooldispatchd.catalog.notation.places import NotationError, SourcePosition
from tooldispatchd.catalog.notation.syntax import Element, Formula, Lift, Plain, Plumb, Projection, Reference, Selection
from tooldispatchd.catalog.notation.values import Names
from tooldispatchd.catalog.notation.wiring import chain_of
from tooldispatchd.catalog.notation.written import Declarations
from tooldispatchd.catalog.problems import Path


def write_chain(plumb: Plumb, name: str, names: Names, written: Declarations) -> list[str]:
    """The chain of the process `name`; the anonymous processes in it are written as `name.map1`, `name.filter2`, …"""
    return _Chain(name, names, written).write(plumb)


class _Chain:
    def __init__(self, owner: str, names: Names, written: Declarations) -> None:
        self._owner = owner
        self._names = names
        self._written = written
        self._count = 0

    def write(self, plumb: Plumb) -> list[str]:
        path: Path = ("processes", self._owner, "chain")
        self._written.places[path] = plumb.place
        try:
            elements = chain_of(plumb)
        except NotationError as error:
            self._written.problems.extend(error.problems)
            return []
        chain: list[str] = []
        for element in elements:
            for link in self._links(element):
                self._written.places[*path, len(chain)] = element.place
                chain.append(link)
        return chain

    def _links(self, element: Element) -> list[str]:
        match element:
            case Reference(name, place):
                return [self._names.resolve(name, place.file)]
            case Lift(name, place):
                return [f"lift({self._names.resolve(name, place.file)})"]
            case Plain(kind, place):
                return [self._anonymous(kind, place)]
            case Projection(index, place):
                return [self._anonymous("project", place, index)]
            case Formula(kind, _, place):
                name = self._anonymous(kind, place)
                self._table(name)[kind] = self._written.expression(element, ("processes", name, kind))
                return [name]
            case Selection(formula, field, place):
                return [*self._links(formula), self._anonymous("map", place, field_of_input(field))]

    def _anonymous(self, kind: str, place: SourcePosition, value: object = None) -> str:
        """The name of a new process; `value` is what stands in it under its kind."""
        while True:
            self._count += 1
            name = f"{self._owner}.{kind}{self._count}"
            if not self._names.is_declared(name):
                break
        refused = declared_name_problem(name)
        if refused:
            self._written.refuse(place, f"this gets a name of its own, and {refused}")
            self._written.lacking.add(("processes", name))
        table = self._written.process(name, kind, place, place)
        if value is not None:
            table[kind] = value
            self._written.places["processes", name, kind] = place
        return name

    def _table(self, name: str) -> dict[str, object]:
        table = self._written.processes[name]
        assert isinstance(table, dict), "it was written a moment ago"
        return table
