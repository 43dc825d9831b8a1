"""Make a chain of the body of `plumb(input, output) {…}`, whose statements must form one path between the two ports.

A name stands for one thing in the whole body, wherever it is written: `input ; a` and `a ; output` meet in `a`. Each
anonymous element and each `spawn` is a thing of its own. Ports and channels join what they stand between, and are left
out of the chain.
"""

from collections.abc import Iterable
from typing import Final, cast

import msgspec

from tooldispatchd.catalog.names import declared_name_problem, nearest
from tooldispatchd.catalog.notation.bindings import Declarations, Names
from tooldispatchd.catalog.notation.expressions import field_of_input
from tooldispatchd.catalog.notation.places import NotationError, NotationProblem, SourcePosition, problem_at
from tooldispatchd.catalog.notation.syntax import (
    ChannelLet,
    Element,
    Formula,
    Lift,
    Plain,
    Plumb,
    Projection,
    Reference,
    Selection,
    Spawn,
    WireExpr,
)
from tooldispatchd.catalog.problems import Path

_LINEAR: Final = "a chain is linear"


class _Node(msgspec.Struct, eq=False):
    """A port, a channel (`what` says which) or a process of the body, and what it is joined with."""

    name: str
    place: SourcePosition
    element: Element | None = None
    what: str | None = None
    after: "list[_Node]" = []
    before: "list[_Node]" = []


class _Body:
    def __init__(self, plumb: Plumb, ports: tuple[Reference, ...]) -> None:
        self._plumb = plumb
        self._problems: list[NotationProblem] = []
        self._named: dict[str, _Node] = {}
        self._all: list[_Node] = []
        # Ports and channels, in order.
        self._ends: dict[str, _Node] = {}
        if len(ports) != 2:
            self._refuse(plumb.place, f"a plumb has two ports, an input and an output; here are {len(ports)}")
            raise NotationError(self._problems)
        for port in ports:
            self._declare(port.name, port.place, "port")
        self._first, self._last = ports

    def chain(self) -> tuple[Element, ...]:
        """The processes in order. Raises `NotationError` where the statements are no path, which says why."""
        for statement in self._plumb.statements:
            if isinstance(statement, ChannelLet):
                self._declare(statement.name, statement.place, "channel")
        for statement in self._plumb.statements:
            if isinstance(statement, WireExpr):
                self._join(self._node(element) for element in statement.elements)
            elif isinstance(statement, Spawn):
                self._spawn(statement)
        self._raise_if_any()
        path = self._walk()
        self._refuse_what_is_off(path)
        chain = tuple(node.element for node in path if node.element is not None)
        if not chain and not self._problems:
            self._refuse(self._plumb.place, "there is no process between the ports")
        self._raise_if_any()
        return chain

    def _raise_if_any(self) -> None:
        if self._problems:
            raise NotationError(self._problems)

    def _refuse(self, place: SourcePosition, why: str, near: str | None = None) -> None:
        self._problems.append(problem_at(place, why, near))

    def _declare(self, name: str, place: SourcePosition, what: str) -> None:
        if name in self._ends:
            self._refuse(place, f'"{name}" is a {self._ends[name].what} of this plumb already')
            return
        self._ends[name] = self._named[name] = node = _Node(name, place, what=what)
        self._all.append(node)

    def _node(self, element: Element) -> _Node:
        """The thing that an element stands for: a named one is the same everywhere."""
        match element:
            case Reference(name) | Plain(name) | Formula(name):
                pass
            case Lift(tool):
                name = f"lift({tool})"
            case Projection(index):
                name = f"project({index})"
            case Selection(_, field):
                name = f"filter(…).{field}"
        if isinstance(element, Reference | Lift) and name in self._named:
            return self._named[name]
        node = _Node(name, element.place, element)
        self._all.append(node)
        if isinstance(element, Reference | Lift):
            self._named[name] = node
        return node

    def _spawn(self, spawn: Spawn) -> None:
        if len(spawn.ends) != 2:
            self._refuse(spawn.place, f"spawn {spawn.process.name}(…) takes what it reads and what it writes")
            return
        for end in spawn.ends:
            if end.name not in self._ends:
                why = f'no port or channel of this plumb is named "{end.name}"'
                self._refuse(end.place, why, nearest(end.name, self._ends))
                return
        process = _Node(spawn.process.name, spawn.process.place, spawn.process)
        self._all.append(process)
        reads, writes = (self._ends[end.name] for end in spawn.ends)
        self._join([reads, process, writes])

    def _join(self, nodes: Iterable[_Node]) -> None:
        earlier: _Node | None = None
        for node in nodes:
            if earlier is not None:
                earlier.after.append(node)
                node.before.append(earlier)
            earlier = node

    def _walk(self) -> list[_Node]:
        """From the first port along what follows, as far as it is one path."""
        node, path = self._ends[self._first.name], list[_Node]()
        seen: set[int] = set()
        while True:
            path.append(node)
            seen.add(id(node))
            back = next((after for after in node.after if id(after) in seen), None)
            if back is not None:
                why = f'a loop: "{node.name}" leads back to "{back.name}", and {_LINEAR}'
            elif len(node.after) > 1:
                shown = " and ".join(f'"{after.name}"' for after in node.after[:3])
                why = f'a fork: "{node.name}" leads to {shown}, and {_LINEAR}'
            elif node is self._ends[self._last.name]:
                if not node.after:
                    return path
                why = f'"{node.name}" is where the path ends, and "{node.after[0].name}" reads it'
            elif not node.after:
                why = f'nothing reads what "{node.name}" gives: the path ends before "{self._last.name}"'
                if node.what is not None:
                    why = f'the {node.what} "{node.name}" is never read'
            else:
                node = node.after[0]
                continue
            self._refuse(node.place, why)
            return path

    def _refuse_what_is_off(self, path: list[_Node]) -> None:
        """Tell of each thing that the path does not pass, unless the path's own end says enough."""
        on_path = {id(node) for node in path}
        for node in self._all:
            if id(node) in on_path:
                joined = next((before for before in node.before if id(before) not in on_path), None)
                if joined is not None and not self._problems:
                    self._refuse(node.place, f'"{node.name}" is fed by "{joined.name}" too, and {_LINEAR}')
                continue
            if self._problems:
                continue
            if node.what is None:
                why = f'"{node.name}" is not on the path from "{self._first.name}" to "{self._last.name}"'
            elif not node.after and not node.before:
                why = f'the {node.what} "{node.name}" is never used'
            elif node.after:
                why = f'the {node.what} "{node.name}" is never written'
            else:
                why = f'the {node.what} "{node.name}" is never read'
            self._refuse(node.place, why)


# --- the chain: names, and processes made of what is anonymous in the wiring ---


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
            if plumb.ports is None:
                wires = [statement for statement in plumb.statements if isinstance(statement, WireExpr)]
                elements = tuple(element for wire in wires for element in wire.elements)
            else:
                elements = _Body(plumb, plumb.ports).chain()
        except NotationError as error:
            self._written.problems.extend(error.problems)
            # Else the form of a chain without an entry would be told of as well.
            self._written.lacking.add(path)
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
                table = cast("dict[str, object]", self._written.processes[name])
                table[kind] = self._written.expression(element, ("processes", name, kind))
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
