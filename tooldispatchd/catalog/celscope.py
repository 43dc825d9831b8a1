"""The variables of an expression: which it has, their types, and how an input becomes them.

An expression is compiled twice. For its types, fields within fields are declared by their whole path, so that a wrong
name or a wrong type is told when it is loaded. To run, it sees the values as they are: one variable for each field.
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from tooldispatchd.catalog.celcost import BUDGET_NS, FUNCTIONS, Prices
from tooldispatchd.catalog.celengine import load_engine, text_functions
from tooldispatchd.catalog.celguard import Guard, Look
from tooldispatchd.catalog.celpatterns import match_ns
from tooldispatchd.catalog.celsource import (
    ExpressionError,
    explain,
    explain_run,
    free_names_in,
    missing_function_in,
    paths_in,
    undeclared_in,
    without_has,
)
from tooldispatchd.catalog.celtree import Node, Tree, read_tree
from tooldispatchd.catalog.celtypes import Made, parse_made, signature
from tooldispatchd.catalog.celvalues import needs_exact
from tooldispatchd.catalog.celzones import refuse_zone
from tooldispatchd.catalog.meanings import Declared, resolve
from tooldispatchd.catalog.names import nearest
from tooldispatchd.catalog.types import Field, Record, Type, show

INPUT: Final = "input"
# Names that CEL keeps for its types; a field of such a name is reached as `input.int` only.
TYPE_NAMES: Final = frozenset(
    {"bool", "bytes", "double", "dyn", "int", "list", "map", "null_type", "string", "type", "uint"}
)


class _Named(Protocol):
    def name(self) -> str: ...


class _Value(Protocol):
    def plain_value(self) -> object: ...
    def type(self) -> object: ...


class _Compiled(Protocol):
    def eval(self, *, data: Mapping[str, object]) -> _Value: ...
    def return_type(self) -> _Named: ...
    def serialize(self) -> bytes: ...


class Scope:
    """Which variables an expression has, for its types and for its runs."""

    def __init__(self, source: str, input_type: Type, declared: Declared) -> None:
        self._cel = load_engine()
        self.error_type: object = self._cel.Type.ERROR
        self.declared = declared
        self.input = input_type
        meaning = resolve(input_type, declared)
        self.is_record = isinstance(meaning, Record)
        self._fields: dict[str, Field] = (
            {field.name: field for field in meaning.fields} if isinstance(meaning, Record) else {}
        )
        self.paths = list(paths_in(source))
        self.roots = {path[0] for path in self.paths}
        self.free_name = INPUT
        if not self.is_record:
            self.free_name = self._find_free_name(source)

    @property
    def needs_exact(self) -> bool:
        """Whether numbers must be made int or double by hand: those that CEL sees as dynamic values."""
        if not self.is_record:
            return needs_exact(self.input, self.declared, typed=True)
        if INPUT in self.roots:
            return needs_exact(self.input, self.declared, typed=False)
        used = [field.type for name, field in self._fields.items() if name in self.roots]
        return any(needs_exact(type_, self.declared, typed=True) for type_ in used)

    def guard(self, root: Node, prices: Prices) -> Guard:
        """What bounds the runs of this tree."""
        if not self.is_record:
            return Guard(root, fields={}, whole=(self.free_name,), declared=self.declared, prices=prices)
        whole = (INPUT,) if INPUT in self.roots else ()
        return Guard(root, fields=self._read(), whole=whole, declared=self.declared, prices=prices)

    def look(self, guard: Guard) -> Look | None:
        """The look that this input needs."""
        if self.is_record and INPUT not in self.roots:
            return guard.look_at_fields()
        return guard.look_at_whole(self.input)

    def refuse_pattern(self, pattern: str) -> str | None:
        """Why a pattern of `matches` cannot be used; None of one that can."""
        if match_ns(pattern, 0) > BUDGET_NS:
            return "this pattern would take too much work, whatever the text"
        compiled = self._environment({INPUT: "string"}).compile(f"''.matches({INPUT})")
        result = compiled.eval(data={INPUT: pattern})
        return explain_run(str(result.plain_value())) if result.type() == self.error_type else None

    def refuse_zone(self, zone: str | None) -> str | None:
        """Why a time zone cannot be used; None of one that can. One of the right form is asked for, once."""
        why = refuse_zone(zone)
        if why is not None:
            return why
        compiled = self._environment({INPUT: "string"}).compile(f"timestamp(0).getHours({INPUT})")
        result = compiled.eval(data={INPUT: zone})
        return f'there is no time zone "{zone}"' if result.type() == self.error_type else None

    def _read(self) -> dict[str, Type]:
        """The fields that are variables of the expression, with their types."""
        return {
            name: field.type
            for name, field in self._fields.items()
            if name in self.roots and name != INPUT and name not in TYPE_NAMES
        }

    def check_types(self, source: str) -> tuple[Made, Tree]:
        """What the expression makes, and its tree. Raises `ExpressionError` where its names or types are wrong."""
        variables: dict[str, str] = {}
        for path in self.paths:
            variables.update(self._declare(path))
        compiled = self._compile(without_has(source), variables)
        return parse_made(compiled.return_type().name()), read_tree(compiled.serialize())

    def compile_to_run(self, source: str) -> _Compiled:
        """The expression as it runs: a variable for the whole and for each field that is mentioned."""
        variables = {name: signature(type_, self.declared) for name, type_ in self._read().items()}
        variables |= {INPUT: signature(self.input, self.declared), self.free_name: signature(self.input, self.declared)}
        return self._compile(source, variables)

    def binder(self) -> Callable[[object], Mapping[str, object]]:
        """A function from an input to the variables of a run; names that are not declared are ignored there."""
        name = self.free_name
        if self.is_record and INPUT not in self.roots:
            return _fields_alone
        if self.is_record:
            return _fields_and_whole
        return lambda value: {name: value, INPUT: value}

    def _declare(self, path: tuple[str, ...]) -> dict[str, str]:
        """The variable that a path begins with: as many of its parts as are fields of records."""
        type_, known = self.input, 1
        if path[0] in {INPUT, self.free_name}:
            pass
        elif path[0] in self._fields and path[0] not in TYPE_NAMES:
            type_ = self._fields[path[0]].type
        else:
            return {}
        meaning = resolve(type_, self.declared)
        for part in path[1:]:
            if not isinstance(meaning, Record):
                break
            inner = {field.name: field.type for field in meaning.fields}
            if part not in inner:
                # Left to the engine: it is a wrong name, or a variable of a macro, or a method.
                return {} if part not in _METHODS else {".".join(path[:known]): "map<string, dyn>"}
            type_, known = inner[part], known + 1
            meaning = resolve(type_, self.declared)
        return {".".join(path[:known]): signature(type_, self.declared)}

    def _find_free_name(self, source: str) -> str:
        """The one name in the expression that is nothing else; `input` where there is none."""
        whole = signature(self.input, self.declared)
        try:
            self._environment({INPUT: whole}).compile(source)
        except RuntimeError as error:
            _refuse_function(str(error), source)
            free = free_names_in(str(error))
            if len(free) > 1:
                why = (
                    f"the input is {show(self.input)}, so one free name stands for it: there are {', '.join(free[:5])}"
                )
                raise ExpressionError(why, *_position(error)) from error
            return free[0] if free else INPUT
        return INPUT

    def _environment(self, variables: Mapping[str, str]) -> "_Environment":
        types = {name: self._cel.Type(text) for name, text in variables.items()}
        environment: _Environment = self._cel.NewEnv(variables=types, extensions=[text_functions()])
        return environment

    def _compile(self, source: str, variables: Mapping[str, str]) -> _Compiled:
        try:
            return self._environment(variables).compile(source)
        except RuntimeError as error:
            _refuse_function(str(error), source)
            raise explain(str(error), self._hint(str(error))) from error

    def _hint(self, message: str) -> str:
        """What was probably meant by the first undeclared name: a field of the record in which it was looked for."""
        path = undeclared_in(message)
        if not path or not self.is_record:
            return ""
        known, begun = self._fields, []
        if path[0] == INPUT:
            begun.append(path.pop(0))
        for part in path[:-1]:
            meaning = resolve(known[part].type, self.declared) if part in known else self.input
            if not isinstance(meaning, Record):
                return ""
            known = {field.name: field for field in meaning.fields}
            begun.append(part)
        close = nearest(path[-1], known) if path else None
        if close:
            return f'; did you mean "{".".join([*begun, close])}"?'
        return f"; there are {', '.join(list(known)[:10])}" if known else ""


def _fields_alone(value: object) -> Mapping[str, object]:
    return value  # type: ignore[return-value]  # checked before: the input is a record


def _fields_and_whole(value: object) -> Mapping[str, object]:
    return {**_fields_alone(value), INPUT: value}


# What a map has as methods; a field that bears such a name is a field.
_METHODS: Final = frozenset({"size", "all", "exists", "exists_one", "map", "filter"})


class _Environment(Protocol):
    def compile(self, expression: str) -> _Compiled: ...


def _refuse_function(message: str, source: str) -> None:
    """Raise `ExpressionError` where a compile error is about a function that there is not."""
    found = missing_function_in(message, source)
    if found is not None:
        name, line, column = found
        close = nearest(name, FUNCTIONS)
        why = f"there is no function {name}" + (f"; did you mean {close}?" if close else "")
        raise ExpressionError(why, line, column)


def _position(error: RuntimeError) -> tuple[int, int]:
    first = explain(str(error))
    return first.line, first.column
