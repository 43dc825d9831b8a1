"""Declarations to the tables of a configuration: which of `[tools]` and `[processes]` a `let` means, and its keys.

A -> B     id, copy, discard, map, tool {…}            a tool
A -> B     agent, plumb, filter, merge, barrier, …     a process, and a tool that is made of it
!A -> !B   anything but tool {…}                       a process; with `@tool true` a tool of its name, too
no type    as with a stream's type, which is inferred; a tool {…} may state schemas
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from tooldispatchd.catalog.notation.blocks import Blocks
from tooldispatchd.catalog.notation.chains import write_chain
from tooldispatchd.catalog.notation.syntax import (
    Annotation,
    Block,
    Formula,
    Implementation,
    LetDeclaration,
    Plain,
    Plumb,
    Projection,
    Scalar,
)
from tooldispatchd.catalog.notation.typetexts import TypeTexts
from tooldispatchd.catalog.notation.values import Names, Values
from tooldispatchd.catalog.notation.written import Declarations, Table
from tooldispatchd.catalog.problems import Path

# What an annotation's value is; `tool` and `call_s` are looked at here, because nobody else sees them as written.
ANNOTATIONS: Final = ("tool", "description", "title", "hint", "doc", "call_s")
_INLINE: Final = frozenset({"id", "copy", "discard"})

_Annotations = dict[str, Annotation]


class Tables:
    """Writes the tables of one `let` after another."""

    def __init__(self, values: Values, names: Names, types: TypeTexts, written: Declarations) -> None:
        self._values = values
        self._names = names
        self._types = types
        self._written = written
        self._blocks = Blocks(values, written)

    def declare(self, name: str, let: LetDeclaration) -> None:
        """`let NAME …`."""
        annotations = self._by_name(let.annotations)
        is_bare = self._is_bare(let)
        implementation = let.implementation
        is_tool_block = isinstance(implementation, Block) and implementation.kind == "tool"
        if is_tool_block and let.source is not None and not is_bare:
            self._written.refuse(implementation.place, "a tool takes bare types: A -> B, without !")
            self._declare_tool(name, msgspec.structs.replace(let, source=None, target=None), annotations)
        elif is_tool_block or (is_bare and _is_inline(implementation)):
            self._declare_tool(name, let, annotations)
        else:
            self._declare_process(name, let, annotations, is_bare=is_bare)

    def _is_bare(self, let: LetDeclaration) -> bool:
        sides = (let.source, let.target)
        return not any(side is None or self._types.has_stream(side) for side in sides)

    def _declare_tool(self, name: str, let: LetDeclaration, annotations: _Annotations) -> None:
        path: Path = ("tools", name)
        table = self._written.tool(name, let.place)
        self._add_type(table, path, let)
        match let.implementation:
            case Plain(kind, place):
                table["inline"] = kind
                self._written.places[*path, "inline"] = place
            case Formula() as formula:
                table["map"] = self._written.expression(formula, (*path, "map"))
            case Block() as block:
                table.update(self._blocks.tool(block, path))
            case Projection() | Plumb():
                raise AssertionError("only what runs inline, or a block, is a tool itself")
        self._annotate(table, path, annotations)
        self._hide(table, path, annotations)

    def _declare_process(self, name: str, let: LetDeclaration, annotations: _Annotations, *, is_bare: bool) -> None:
        path: Path = ("processes", name)
        process = self._written.process(name, _kind(let.implementation), let.place, let.implementation.place)
        self._add_type(process, path, let)
        if process["kind"] == "agent" and let.source is None:
            self._written.refuse(let.place, "an agent's type is stated: let name : !A -> !B = agent { … }")
        self._add_keys(process, path, name, let.implementation)
        if is_bare or ("tool" in annotations and _truth(annotations["tool"])):
            self._offer(process, name, let, annotations, is_bare=is_bare)
            return
        for key in annotations.keys() - {"tool", "description"}:
            why = f"@{key} says something of a tool, and this is a process: @tool true makes a tool of it"
            self._written.refuse(annotations[key].place, why)
        self._annotate(process, path, {key: each for key, each in annotations.items() if key == "description"})

    def _add_keys(self, process: Table, path: Path, name: str, implementation: Implementation) -> None:
        match implementation:
            case Plain():
                pass
            case Formula(kind):
                process[kind] = self._written.expression(implementation, (*path, kind))
            case Projection(index, place):
                process["project"] = index
                self._written.places[*path, "project"] = place
            case Block():
                process.update(self._blocks.agent(implementation, path))
            case Plumb():
                process["chain"] = write_chain(implementation, name, self._names, self._written)

    def _offer(
        self, process: Table, name: str, let: LetDeclaration, annotations: _Annotations, *, is_bare: bool
    ) -> None:
        """A tool that is made of the process and bears its name."""
        path: Path = ("tools", name)
        table = self._written.tool(name, let.place)
        if is_bare:
            # The type of a tool that is made of streams is theirs without the `!`, which the catalog infers.
            self._add_type(table, path, let)
        table["process"] = name
        self._written.places[*path, "process"] = let.place
        if "description" in process and "description" not in annotations:
            # Who declares both at once describes both at once.
            table["description"] = process["description"]
            self._written.places[*path, "description"] = self._written.places["processes", name, "description"]
        self._annotate(table, path, annotations)
        self._hide(table, path, annotations)

    def _add_type(self, table: Table, path: Path, let: LetDeclaration) -> None:
        if let.source is not None and let.target is not None:
            table["type"] = self._types.write_arrow(let.source, let.target, (*path, "type"))

    def _by_name(self, annotations: Iterable[Annotation]) -> _Annotations:
        """The annotations that can be taken, each once."""
        known: _Annotations = {}
        for annotation in annotations:
            name = annotation.name
            if name not in ANNOTATIONS:
                why = f"there is no annotation @{name[:40]}"
                self._written.refuse_unknown(annotation.place, why, name, ANNOTATIONS)
            elif name in known:
                self._written.refuse(annotation.place, f"@{name} stands here again")
            elif name == "tool" and _truth(annotation) is None:
                self._written.refuse(annotation.place, "@tool takes true or false")
            else:
                known[name] = annotation
        return known

    def _annotate(self, table: Table, path: Path, annotations: _Annotations) -> None:
        for name, annotation in annotations.items():
            if name == "tool":
                continue
            if name in table:
                self._written.refuse(annotation.place, f"@{name} and {name} between the braces say the same")
            self._written.places[*path, name] = annotation.place
            table[name] = self._values.make(annotation.value, (*path, name))

    def _hide(self, table: Table, path: Path, annotations: _Annotations) -> None:
        """`@tool false` keeps a tool for chains."""
        annotation = annotations.get("tool")
        if annotation is None:
            return
        if "expose" in table:
            self._written.refuse(annotation.place, "@tool and expose between the braces say the same")
        if not _truth(annotation):
            table["expose"] = False
            self._written.places[*path, "expose"] = annotation.place


def _truth(annotation: Annotation) -> bool | None:
    """What an annotation says that is true or false; None where it says something else."""
    if isinstance(annotation.value, Scalar) and isinstance(annotation.value.value, bool):
        return annotation.value.value
    return None


def _is_inline(implementation: Implementation) -> bool:
    """Whether it runs where a tool is called, without a process."""
    if isinstance(implementation, Plain):
        return implementation.kind in _INLINE
    return isinstance(implementation, Formula) and implementation.kind == "map"


def _kind(implementation: Implementation) -> str:
    match implementation:
        case Plain(kind) | Formula(kind) | Block(kind):
            return kind
        case Projection():
            return "project"
        case Plumb():
            return "plumb"
