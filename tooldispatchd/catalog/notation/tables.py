"""Write declarations to the tables of a configuration: decide whether a `let` is a tool or a process, and its keys.

A -> B     id, copy, discard, map, tool {…}            a tool
A -> B     agent, plumb, filter, merge, barrier, …     a process, and a tool that is made of it
!A -> !B   anything but tool {…}                       a process; with `@tool true` a tool of its name, too
no type    as with a stream's type, which is inferred; a tool {…} may state schemas

A tool that is not written `tool {…}` may be meant for chains: without `@tool` it is offered only where it is named.
"""

from typing import Final

import msgspec

from tooldispatchd.catalog.names import MAX_NAME, nearest
from tooldispatchd.catalog.notation.bindings import Declarations, Meaning, Names, Table, TypeTexts, Values
from tooldispatchd.catalog.notation.syntax import (
    Annotation,
    Block,
    Formula,
    KeyValue,
    LetDeclaration,
    Plain,
    Plumb,
    Projection,
    Scalar,
)
from tooldispatchd.catalog.notation.wiring import write_chain
from tooldispatchd.catalog.problems import Path
from tooldispatchd.catalog.speckinds import GONE_KEYS
from tooldispatchd.catalog.specs import ProcessSpec, ToolSpec

# Every annotation; all but `tool` are keys of a table.
ANNOTATIONS: Final = ("tool", "description", "title", "hint", "doc", "call_s")
# What runs where a tool is called, without a process.
_INLINE: Final = frozenset({"id", "copy", "discard", "map"})

_Annotations = dict[str, Annotation]


class Tables:
    def __init__(self, values: Values, names: Names, types: TypeTexts, written: Declarations) -> None:
        self._values = values
        self._names = names
        self._types = types
        self._written = written
        self._blocks = Blocks(values, written)

    def declare(self, name: str, let: LetDeclaration) -> None:
        """`let NAME …`."""
        annotations: _Annotations = {}
        for annotation in let.annotations:
            key = annotation.name
            if key not in ANNOTATIONS:
                self._written.refuse_unknown(annotation.place, f"there is no annotation @{key[:40]}", key, ANNOTATIONS)
            elif key in annotations:
                self._written.refuse(annotation.place, f"@{key} stands here again")
            elif key == "tool" and _truth(annotation) is None:
                self._written.refuse(annotation.place, "@tool takes true or false")
            else:
                annotations[key] = annotation
        is_bare = not any(side is None or self._types.has_stream(side) for side in (let.source, let.target))
        kind = let.implementation.kind
        if kind == "tool" and let.source is not None and not is_bare:
            self._written.refuse(let.implementation.place, "a tool takes bare types: A -> B, without !")
            self._declare_tool(name, msgspec.structs.replace(let, source=None, target=None), annotations)
        elif kind == "tool" or (is_bare and kind in _INLINE):
            self._declare_tool(name, let, annotations)
        else:
            self._declare_process(name, let, annotations, is_bare=is_bare)

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
        self._expose(table, path, let, annotations)

    def _declare_process(self, name: str, let: LetDeclaration, annotations: _Annotations, *, is_bare: bool) -> None:
        path: Path = ("processes", name)
        implementation = let.implementation
        process = self._written.process(name, implementation.kind, let.place, implementation.place)
        self._add_type(process, path, let)
        match implementation:
            case Plain():
                pass
            case Formula(kind):
                process[kind] = self._written.expression(implementation, (*path, kind))
            case Projection(index, place):
                process["project"] = index
                self._written.places[*path, "project"] = place
            case Block():
                if let.source is None:
                    self._written.refuse(let.place, "an agent's type is stated: let name : !A -> !B = agent { … }")
                process.update(self._blocks.agent(implementation, path))
            case Plumb():
                process["chain"] = write_chain(implementation, name, self._names, self._written)
        if is_bare or ("tool" in annotations and _truth(annotations["tool"])):
            self._offer(process, name, let, annotations, is_bare=is_bare)
            return
        for key in annotations.keys() - {"tool", "description"}:
            why = f"@{key} says something of a tool, and this is a process: @tool true makes a tool of it"
            self._written.refuse(annotations[key].place, why)
        self._annotate(process, path, {key: each for key, each in annotations.items() if key == "description"})

    def _offer(
        self, process: Table, name: str, let: LetDeclaration, annotations: _Annotations, *, is_bare: bool
    ) -> None:
        """A tool of the process's name that is made of it."""
        path: Path = ("tools", name)
        table = self._written.tool(name, let.place)
        if is_bare:
            # The type of a tool that is made of streams is theirs without the `!`, which the catalog infers.
            self._add_type(table, path, let)
        table["process"] = name
        self._written.places[*path, "process"] = let.place
        if "description" in process and "description" not in annotations:
            # One declaration of both describes both.
            table["description"] = process["description"]
            self._written.places[*path, "description"] = self._written.places["processes", name, "description"]
        self._annotate(table, path, annotations)
        self._expose(table, path, let, annotations)

    def _add_type(self, table: Table, path: Path, let: LetDeclaration) -> None:
        if let.source is not None and let.target is not None:
            table["type"] = self._types.write_arrow(let.source, let.target, (*path, "type"))

    def _annotate(self, table: Table, path: Path, annotations: _Annotations) -> None:
        for name, annotation in annotations.items():
            if name == "tool":
                continue
            if name in table:
                self._written.refuse(annotation.place, f"@{name} and {name} between the braces say the same")
            self._written.places[*path, name] = annotation.place
            table[name] = self._values.make(annotation.value, (*path, name))

    def _expose(self, table: Table, path: Path, let: LetDeclaration, annotations: _Annotations) -> None:
        """Write to whom a tool is offered, where that is not everybody."""
        annotation = annotations.get("tool")
        if annotation is not None and "expose" in table:
            self._written.refuse(annotation.place, "@tool and expose between the braces say the same")
        if annotation is not None and not _truth(annotation):
            table["expose"] = False
        elif annotation is None and let.implementation.kind != "tool":
            table["expose"] = "named"
        else:
            return
        self._written.places[*path, "expose"] = let.place if annotation is None else annotation.place


def _truth(annotation: Annotation) -> bool | None:
    """What an annotation says that is true or false; None where it says something else."""
    if isinstance(annotation.value, Scalar) and isinstance(annotation.value.value, bool):
        return annotation.value.value
    return None


# --- `tool {…}` and `agent {…}`: their entries as the keys of a table ---

_OF_TOOL: Final = tuple(field.name for field in msgspec.structs.fields(ToolSpec) if field.name != "type")
# What a process has as well and no agent: to take them for options would hide a mistake.
_OF_OTHERS: Final = frozenset({"kind", "map", "filter", "project", "chain"})
_OF_AGENT: Final = tuple(
    field.name for field in msgspec.structs.fields(ProcessSpec) if field.name not in _OF_OTHERS | {"type"}
)
# What model APIs call their own settings, which need no `options: { … }`; none restricts what an agent may call.
MODEL_OPTIONS: Final = (
    *("prompts", "temperature", "top_p", "top_k", "max_tokens", "turns", "seed", "stop", "thinking", "reasoning"),
    *("thinking_budget", "effort", "provider", "max_messages"),
)
_TO_PROGRAM: Final = "in options: { … } it goes to its program"
_MEANINGS: Final = {"process": Meaning.DECLARED, "tools": Meaning.DECLARED, "mcp": Meaning.SERVER}


class Blocks:
    def __init__(self, values: Values, written: Declarations) -> None:
        self._values = values
        self._written = written

    def tool(self, block: Block, path: Path) -> Table:
        """The keys of a tool."""
        table: Table = {}
        for pair in block.entries.pairs:
            if pair.key == "type":
                self._refuse_type(pair)
            elif pair.key in _OF_TOOL:
                table[pair.key] = self._make(pair, (*path, pair.key))
            elif pair.key in GONE_KEYS:
                self._refuse_gone(pair)
            else:
                why = f'a tool has no key "{pair.key[:MAX_NAME]}"'
                self._written.refuse_unknown(pair.place, why, pair.key, _OF_TOOL)
        return table

    def agent(self, block: Block, path: Path) -> Table:
        """The keys of an agent's process; settings of its model go to `options`."""
        table: Table = {}
        others: list[KeyValue] = []
        for pair in block.entries.pairs:
            if pair.key == "type":
                self._refuse_type(pair)
            elif pair.key in _OF_AGENT:
                table[pair.key] = self._make(pair, (*path, pair.key))
            elif pair.key in MODEL_OPTIONS:
                others.append(pair)
            elif pair.key in GONE_KEYS:
                self._refuse_gone(pair)
            else:
                # A key that restricts would be no restriction among options.
                near = nearest(pair.key, _OF_AGENT)
                nearly = ", and nearly one" if near else ""
                self._refuse(pair, f'"{pair.key[:MAX_NAME]}" is no key of an agent{nearly}; {_TO_PROGRAM}', near)
        if not others:
            return table
        inner = (*path, "options")
        self._written.places.setdefault(inner, others[0].place)
        options = table.setdefault("options", {})
        if isinstance(options, dict):
            for pair in others:
                if pair.key in options:
                    self._refuse(pair, f'"{pair.key}" stands in the options already')
                self._written.places[*inner, pair.key] = pair.place
                options[pair.key] = self._values.make(pair.value, (*inner, pair.key))
        return table

    def _make(self, pair: KeyValue, path: Path) -> object:
        self._written.places[path] = pair.place
        made = self._values.make(pair.value, path, _MEANINGS.get(pair.key, Meaning.NOTHING))
        if pair.key != "command" or made is None or isinstance(made, list):
            return made
        if not isinstance(made, str):
            self._refuse(pair, "command takes a text, or a list of texts")
            self._written.miss(path)
            return None
        # A program without arguments is written as a text.
        return [made]

    def _refuse_type(self, pair: KeyValue) -> None:
        self._refuse(pair, "the type stands before the braces: let name : A -> B = …")

    def _refuse_gone(self, pair: KeyValue) -> None:
        self._refuse(pair, f'the key "{pair.key}" is gone; use {GONE_KEYS[pair.key]}')

    def _refuse(self, pair: KeyValue, why: str, near: str | None = None) -> None:
        self._written.refuse(pair.place, why, near)
