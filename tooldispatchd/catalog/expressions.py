"""Expressions of `map` tools: CEL, compiled and type-checked once, evaluated often.

The fields of a record are variables, `input` is the whole. Where the input is no record, one free name stands for it.
An expression is compiled twice. For its types, fields within fields are declared by their whole path, so that a wrong
name or a wrong type is told when it is loaded. To run, it sees the values as they are: one variable for each field.

The engine gives run-time errors as values whose plain value is their text: a result that is a string is never taken
without a look at its type. It ends an input's texts at a null character without a word, so such an input is refused.
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

import msgspec

from tooldispatchd.catalog.celsource import (
    ExpressionError,
    explain,
    explain_run,
    free_names_in,
    paths_in,
    undeclared_in,
    without_has,
)
from tooldispatchd.catalog.celtypes import Made, fits, parse_made, show_made, signature
from tooldispatchd.catalog.celvalues import (
    NotJsonError,
    WideIntegerError,
    has_null_character,
    holds_text,
    needs_exact,
    refuse_wide,
    tidy,
    to_exact,
)
from tooldispatchd.catalog.meanings import Declared, resolve
from tooldispatchd.catalog.names import nearest
from tooldispatchd.catalog.types import Field, Record, Type, show

# An expression is a line or a few; what is longer is a program, and belongs into one.
MAX_SOURCE: Final = 8 * 1024
INPUT: Final = "input"
# Names that CEL keeps for its types; a field of such a name is reached as `input.int` only.
TYPE_NAMES: Final = frozenset(
    {"bool", "bytes", "double", "dyn", "int", "list", "map", "null_type", "string", "type", "uint"}
)
_PLAIN: Final[dict[str, type]] = {
    "INT": int, "UINT": int, "DOUBLE": float, "BOOL": bool, "NULL": type(None), "LIST": list, "STRING": str
}  # fmt: skip


# What the engine raises beside its error values: a spent budget, text that is no UTF-8, a number out of range.
ENGINE_ERRORS: Final = (RuntimeError, ValueError, OverflowError)

Evaluate = Callable[[object], object]


class Failed(msgspec.Struct, frozen=True):
    """An evaluation that gave no value; `invalid_input` where the input is to blame (an integer outside 64 bits, a null
    character in a text: what the engine cannot hold)."""

    why: str
    invalid_input: bool = False


NULL_CHARACTER: Final = Failed("the input holds a text with a null character", invalid_input=True)


class _Named(Protocol):
    def name(self) -> str: ...


class _Value(Protocol):
    def plain_value(self) -> object: ...
    def type(self) -> object: ...


class _Compiled(Protocol):
    def eval(self, *, data: Mapping[str, object]) -> _Value: ...
    def return_type(self) -> _Named: ...


class Expression:
    """A compiled expression. `evaluate(value)` takes a checked input and gives plain JSON values, or `Failed`."""

    __slots__ = ("_bind", "_declared", "_error", "_input", "_output", "_run", "evaluate", "source")

    def __init__(self, source: str, scope: "_Scope", made: Made, output: Type) -> None:
        self.source = source
        self._run = scope.compile_to_run(source).eval
        self._bind = scope.binder()
        self._error: object = scope.error_type
        self._declared = scope.declared
        self._input = scope.input
        self._output = output
        evaluate: Evaluate = self._evaluate_exactly if scope.needs_exact else self._fast_path(made)
        self.evaluate = _guarded(evaluate, scope)

    def _fast_path(self, made: Made) -> "Evaluate":
        """The function for inputs that the engine takes as they are; what it cannot serve goes the exact way."""
        expected = _PLAIN.get(made.name) if made.is_safe else None
        if expected is None:
            return self._evaluate_directly
        run, bind, error, exactly = self._run, self._bind, self._error, self._evaluate_exactly

        def evaluate(value: object) -> object:
            try:
                result = run(data=bind(value))
                plain = result.plain_value()
            except ENGINE_ERRORS:
                return exactly(value)
            # The text of an error is a string: any other class that was expected needs no second look.
            if plain.__class__ is not expected or (expected is str and result.type() == error):
                return exactly(value)
            return plain

        return evaluate

    def _evaluate_directly(self, value: object) -> object:
        outcome = self._attempt(value)
        return self._evaluate_exactly(value) if isinstance(outcome, Failed) else outcome

    def _evaluate_exactly(self, value: object) -> object:
        """Numbers are made what the declared type says first, and a failure is looked into."""
        try:
            exact = to_exact(value, self._input, self._declared)
            outcome = self._attempt(exact)
            if isinstance(outcome, Failed):
                refuse_wide(exact)
        except RecursionError:
            return Failed("the input is nested too deep")
        except WideIntegerError as error:
            return Failed(str(error), invalid_input=True)
        return outcome

    def _attempt(self, value: object) -> object:
        try:
            result = self._run(data=self._bind(value))
            plain = result.plain_value()
            if isinstance(plain, str) and result.type() == self._error:
                return Failed(explain_run(plain))
            return tidy(plain, self._output, self._declared)
        except RecursionError:
            return Failed("the result is nested too deep")
        except NotJsonError as error:
            return Failed(str(error))
        except ENGINE_ERRORS as error:
            return Failed(explain_run(str(error)))


def _guarded(evaluate: Evaluate, scope: "_Scope") -> Evaluate:
    """The same where no text is read; else with a look for null characters first."""
    if not scope.is_record:
        if not holds_text(scope.input, scope.declared):
            return evaluate
        return lambda value: NULL_CHARACTER if has_null_character(value) else evaluate(value)
    texts = scope.text_fields()
    if not texts:
        return evaluate

    def guarded(value: object) -> object:
        fields = _fields_alone(value)
        for name in texts:
            if name in fields and has_null_character(fields[name]):
                return NULL_CHARACTER
        return evaluate(value)

    return guarded


def compile_expression(source: str, *, input_type: Type, output_type: Type, declared: Declared) -> Expression:
    """The expression for one tool. Raises `ExpressionError`; the types' names must have been checked."""
    if len(source) > MAX_SOURCE:
        raise ExpressionError(f"an expression has at most {MAX_SOURCE} characters")
    if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in source):
        raise ExpressionError("an expression is text without null characters and lone surrogates")
    if not source.strip():
        raise ExpressionError("an expression is expected")
    scope = _Scope(source, input_type, declared)
    made = scope.check_types(source)
    if not made.is_json:
        raise ExpressionError(f"the expression makes {show_made(made)}, which JSON cannot say")
    if not fits(made, output_type, declared):
        hint = ""
        if made.name == "DOUBLE" and fits(Made("INT"), output_type, declared):
            hint = "; int(x) makes an int of it"
        raise ExpressionError(
            f"the expression makes {show_made(made)}, but the tool's output is {show(output_type)}{hint}"
        )
    return Expression(source, scope, made, output_type)


class _Scope:
    """Which variables an expression has, for its types and for its runs."""

    def __init__(self, source: str, input_type: Type, declared: Declared) -> None:
        # The engine is large, and most daemons declare no `map`.
        from cel_expr_python import cel  # noqa: PLC0415

        self._cel = cel
        self.error_type: object = cel.Type.ERROR
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

    def text_fields(self) -> tuple[str, ...]:
        """The fields that the expression may read and that may have strings in them."""
        whole = INPUT in self.roots
        return tuple(
            name
            for name, field in self._fields.items()
            if (whole or name in self.roots) and holds_text(field.type, self.declared)
        )

    def check_types(self, source: str) -> Made:
        """What the expression makes. Raises `ExpressionError` where its names or types are wrong."""
        variables: dict[str, str] = {}
        for path in self.paths:
            variables.update(self._declare(path))
        compiled = self._compile(without_has(source), variables)
        return parse_made(compiled.return_type().name())

    def compile_to_run(self, source: str) -> _Compiled:
        """The expression as it runs: a variable for the whole and for each field that is mentioned."""
        variables = {
            name: signature(field.type, self.declared)
            for name, field in self._fields.items()
            if name in self.roots and name != INPUT and name not in TYPE_NAMES
        }
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
        environment: _Environment = self._cel.NewEnv(variables=types)
        return environment

    def _compile(self, source: str, variables: Mapping[str, str]) -> _Compiled:
        try:
            return self._environment(variables).compile(source)
        except RuntimeError as error:
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


def _position(error: RuntimeError) -> tuple[int, int]:
    first = explain(str(error))
    return first.line, first.column
