"""One expression, from its source to the function that evaluates it.

The fields of a record are variables, `input` is the whole (of a rule's record, `call`). Where the input is no record,
one free name stands for it. The engine gives run-time errors as values whose plain value is their text, so a result
that is a string is never taken without a look at its type. It silently cuts a text at a null character, so an input
that has one is refused.

An expression is compiled twice. For its types, fields within fields are declared by their whole path, so that a wrong
name or a wrong type is reported when it is loaded. To run, it has one variable for each field, with the value as it is.
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from tooldispatchd.catalog.expressions.bounds import FUNCTIONS, InputBounds, Look, bounds_of, check_rules, look_at
from tooldispatchd.catalog.expressions.door import (
    INPUT,
    TYPE_NAMES,
    Evaluate,
    Expression,
    ExpressionError,
    FailedEvaluation,
)
from tooldispatchd.catalog.expressions.engine import load_engine, text_functions
from tooldispatchd.catalog.expressions.literals import patterns_in, zones_in
from tooldispatchd.catalog.expressions.made import MAX_LISTS, fits, result_of, show_made, signature
from tooldispatchd.catalog.expressions.source import (
    explain,
    explain_run,
    free_names_in,
    missing_function_in,
    paths_in,
    position_in,
    undeclared_in,
    without_has,
)
from tooldispatchd.catalog.expressions.tree import Made, Node, NodeError, Tree, fields_read, read_tree
from tooldispatchd.catalog.expressions.values import NotJsonError, WideIntegerError, exactly, refuse_wide, tidy
from tooldispatchd.catalog.meanings import Declared, reachable, resolve
from tooldispatchd.catalog.names import nearest
from tooldispatchd.catalog.relations import MADE
from tooldispatchd.catalog.types import Field, ListOf, Primitive, Record, Type, Union, show

# An expression is a few lines at most; more is the work of a program.
MAX_SOURCE: Final = 8 * 1024
_PLAIN: Final[dict[str, type]] = {
    "INT": int, "UINT": int, "DOUBLE": float, "BOOL": bool, "NULL": type(None), "LIST": list, "STRING": str
}  # fmt: skip
# What the engine raises beside its error values: a spent budget, text that is no UTF-8, a number out of range.
ENGINE_ERRORS: Final = (RuntimeError, ValueError, OverflowError)

# Of one size, whatever the value.
_FIXED: Final = frozenset({"int", "number", "bool", "unit"})


class EngineValue(Protocol):
    def plain_value(self) -> object: ...
    def type(self) -> object: ...


class CompiledExpression(Protocol):
    def eval(self, *, data: Mapping[str, object]) -> EngineValue: ...
    def serialize(self) -> bytes: ...


class Scope:
    """Which variables an expression has, for its types and for its runs."""

    def __init__(self, source: str, input_type: Type, declared: Declared, whole: str = INPUT) -> None:
        self._cel = load_engine()
        self._whole = whole
        self._source = source
        self.error_type: object = self._cel.Type.ERROR
        self.declared = declared
        self.input = input_type
        meaning = resolve(input_type, declared)
        self.is_record = isinstance(meaning, Record)
        fields = meaning.fields if isinstance(meaning, Record) else ()
        self._fields: dict[str, Field] = {field.name: field for field in fields}
        self.paths = list(paths_in(source))
        self.roots = {path[0] for path in self.paths}
        self.free_name = self._whole if self.is_record else self._find_free_name()

    def needs_exact(self, *, typed: bool) -> bool:
        """Whether the expression reads a `number`, which CEL would round, or numbers that it sees as dynamic values.

        Not `typed`: whether it reads any.
        """
        if self.reads_whole:
            return self._has_dynamic_numbers(self.input, typed=typed and not self.is_record)
        return any(self._has_dynamic_numbers(type_, typed=typed) for type_ in self._read().values())

    def _has_dynamic_numbers(self, type_: Type, *, typed: bool) -> bool:
        """Whether a type has numbers whose type CEL does not know; `typed` where it knows that of the whole."""
        meaning = resolve(type_, self.declared)
        for _ in range(MAX_LISTS if typed else 0):
            if isinstance(meaning, ListOf):
                meaning = resolve(meaning.item, self.declared)
        if typed and isinstance(meaning, Primitive):
            return meaning.word == "number"
        nodes = reachable(meaning, self.declared)
        return any(isinstance(node, Primitive) and node.word in {"int", "number"} for node in nodes)

    @property
    def reads_whole(self) -> bool:
        """Whether the expression sees the input itself, and not only fields of it."""
        return not self.is_record or self._whole in self.roots

    @property
    def read_type(self) -> Type:
        """The type of what the expression reads: the input's, or a record of the fields that it mentions."""
        if self.reads_whole:
            return self.input
        return Record(tuple(field for name, field in self._fields.items() if name in self._read()))

    @property
    def variables(self) -> dict[str, Type]:
        """The types of the names that the expression reads."""
        return {**self._read(), self._whole: self.input, self.free_name: self.input}

    def look(self, bounds: InputBounds) -> Look | None:
        """The function that looks at each input; None where all inputs have the same size."""
        if self.reads_whole:
            return None if self._is_fixed(self.input) else look_at(bounds, None)
        names = tuple(name for name, type_ in self._read().items() if not self._is_fixed(type_))
        return look_at(bounds, names) if names else None

    def _is_fixed(self, type_: Type) -> bool:
        """Whether a type is of numbers, booleans and null alone."""
        meaning = resolve(type_, self.declared)
        options = meaning.options if isinstance(meaning, Union) else (meaning,)
        resolved = [resolve(option, self.declared) for option in options]
        return all(isinstance(option, Primitive) and option.word in _FIXED for option in resolved)

    def try_pattern(self, node: Node, pattern: str) -> None:
        """Raise `NodeError` where the engine does not compile a pattern of `matches`."""
        why = self._try(f"''.matches({INPUT})", pattern)
        if why is not None:
            raise NodeError(why, node)

    def try_zone(self, node: Node, zone: str) -> None:
        """Raise `NodeError` where the engine has no such time zone. It opens the zone's file, once."""
        if self._try(f"timestamp(0).getHours({INPUT})", zone) is not None:
            raise NodeError(f'there is no time zone "{zone}"', node)

    def _try(self, source: str, text: str) -> str | None:
        result = self._environment({INPUT: "string"}).compile(source).eval(data={INPUT: text})
        return explain_run(str(result.plain_value())) if result.type() == self.error_type else None

    def _read(self) -> dict[str, Type]:
        """The fields that are variables of the expression, with their types."""
        return {
            name: field.type
            for name, field in self._fields.items()
            if name in self.roots and name != self._whole and name not in TYPE_NAMES
        }

    def check_types(self) -> Tree:
        """The tree with the types of its nodes. Raises `ExpressionError` where its names or types are wrong."""
        variables: dict[str, str] = {}
        for path in self.paths:
            variables.update(self._declare(path))
        return read_tree(self._compile(without_has(self._source), variables).serialize())

    def compile_to_run(self) -> CompiledExpression:
        """The expression as it runs: a variable for the whole and for each field that is mentioned."""
        variables = {name: signature(type_, self.declared) for name, type_ in self.variables.items()}
        return self._compile(self._source, variables)

    def binder(self) -> Callable[[object], Mapping[str, object]]:
        """A function from an input to the variables of a run; names that are not declared are ignored there."""
        name, whole = self.free_name, self._whole
        if not self.reads_whole:
            return _fields_alone
        if self.is_record:
            return lambda value: {**_fields_alone(value), whole: value}
        return lambda value: {name: value, whole: value}

    def _declare(self, path: tuple[str, ...]) -> dict[str, str]:
        """The variable that a path begins with: as many of its parts as are fields of records."""
        type_, known = self.input, 1
        if path[0] in {self._whole, self.free_name}:
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

    def _find_free_name(self) -> str:
        """The one name in the expression that is nothing else; `input` where there is none."""
        whole = signature(self.input, self.declared)
        try:
            self._environment({self._whole: whole}).compile(self._source)
        except RuntimeError as error:
            _refuse_function(str(error), self._source)
            free = free_names_in(str(error))
            if len(free) > 1:
                names, first = ", ".join(free[:5]), explain(str(error))
                why = f"the input is {show(self.input)}, so one free name stands for it: there are {names}"
                raise ExpressionError(why, first.line, first.column) from error
            return free[0] if free else self._whole
        return self._whole

    def _environment(self, variables: Mapping[str, str]) -> "_Environment":
        types = {name: self._cel.Type(text) for name, text in variables.items()}
        environment: _Environment = self._cel.NewEnv(variables=types, extensions=[text_functions()])
        return environment

    def _compile(self, source: str, variables: Mapping[str, str]) -> CompiledExpression:
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
        if path[0] == self._whole:
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


# The methods of a map. A field may have one of these names.
_METHODS: Final = frozenset({"size", "all", "exists", "exists_one", "map", "filter"})


class _Environment(Protocol):
    def compile(self, expression: str) -> CompiledExpression: ...


def _refuse_function(message: str, source: str) -> None:
    """Raise `ExpressionError` where a compile error is about a function that there is not."""
    found = missing_function_in(message, source)
    if found is not None:
        name, line, column = found
        close = nearest(name, FUNCTIONS)
        why = f"there is no function {name}" + (f"; did you mean {close}?" if close else "")
        raise ExpressionError(why, line, column)


def compile_map(source: str, input_type: Type, output_type: Type | None, declared: Declared) -> Expression:
    """See `door.compile_expression`."""
    scope, tree = _check(source, input_type, declared)
    made, result = tree.type_of(tree.root), result_of(tree)
    output = result if output_type is None else output_type
    if not fits(made, output, declared):
        hint = ""
        if made.name == "DOUBLE" and fits(Made("INT"), output, declared):
            hint = "; int(x) makes an int of it"
        why = f"the expression makes {show_made(made)}, but the tool's output is {show(output)}{hint}"
        raise _error_at(tree.root, tree, source, why)
    missed = None if output_type is None else MADE.difference(result, output, declared)
    if missed is not None:
        why = f"the expression makes what the tool's output {show(output)} is not: {missed}"
        raise _error_at(tree.root, tree, source, why)
    return Expression(source, output, _compile_to_run(source, scope, made, output)[0])


def compile_filter(source: str, input_type: Type, declared: Declared, whole: str = INPUT) -> Expression:
    """See `door.compile_predicate`."""
    scope, tree = _check(source, input_type, declared, whole)
    made, output = tree.type_of(tree.root), Primitive("bool")
    if made.name not in {"BOOL", "DYN"}:
        asker = "filter" if whole == INPUT else "rule"
        why = f"the expression makes {show_made(made)}, but a {asker} asks for a bool"
        raise _error_at(tree.root, tree, source, why)
    evaluate, run_tree = _compile_to_run(source, scope, made, output)
    reads = fields_read(run_tree.root, INPUT, whole)
    if made.name == "BOOL":
        return Expression(source, output, evaluate, reads)

    def evaluate_bool(value: object) -> object:
        result = evaluate(value)
        is_right = isinstance(result, bool | FailedEvaluation)
        return result if is_right else FailedEvaluation("the expression made no bool of this input")

    return Expression(source, output, evaluate_bool, reads)


def _check(source: str, input_type: Type, declared: Declared, whole: str = INPUT) -> tuple[Scope, Tree]:
    """Check the names and types of a source. Raises `ExpressionError`."""
    if len(source) > MAX_SOURCE:
        raise ExpressionError(f"an expression has at most {MAX_SOURCE} characters")
    if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in source):
        raise ExpressionError("an expression is text without null characters and lone surrogates")
    if not source.strip():
        raise ExpressionError("an expression is expected")
    scope = Scope(source, input_type, declared, whole)
    tree = scope.check_types()
    made = tree.type_of(tree.root)
    if not made.is_json:
        raise _error_at(tree.root, tree, source, f"the expression makes {show_made(made)}, which JSON cannot say")
    return scope, tree


def _compile_to_run(source: str, scope: Scope, made: Made, output: Type) -> tuple[Evaluate, Tree]:
    """The function that evaluates a checked source, and the tree of that; it is checked here.

    Raises `ExpressionError` where it breaks a rule (see `bounds`).
    """
    compiled = scope.compile_to_run()
    tree = read_tree(compiled.serialize())
    try:
        check_rules(tree.root)
        for node, pattern in patterns_in(tree.root):
            scope.try_pattern(node, pattern)
        for node, zone in zones_in(tree.root):
            scope.try_zone(node, zone)
        look = scope.look(bounds_of(tree, scope.variables, scope.declared))
    except NodeError as error:
        raise _error_at(error.node, tree, source, str(error)) from None
    run = ExpressionRun(scope, compiled, output)
    evaluate = run.fast_path(made)
    # Numbers that CEL converts by itself are made exact only after a failure. Not so where inputs may be large: nothing
    # large is evaluated twice.
    if scope.needs_exact(typed=look is None):
        evaluate = run.after_exact(evaluate)
    return evaluate if look is None else _guarded(evaluate, look), tree


def _error_at(node: Node, tree: Tree, source: str, why: str) -> ExpressionError:
    return ExpressionError(why, *position_in(source, tree.begin_of(node)))


def _guarded(evaluate: Evaluate, look: Look) -> Evaluate:
    def guarded(value: object) -> object:
        refused = look(value)
        return evaluate(value) if refused is None else refused

    return guarded


class ExpressionRun:
    """The ways to evaluate a compiled expression on an input within its bounds."""

    def __init__(self, scope: Scope, compiled: CompiledExpression, output: Type) -> None:
        self._run = compiled.eval
        self._output = output
        self._bind = scope.binder()
        self._error: object = scope.error_type
        self._declared = scope.declared
        self._exact = exactly(scope.read_type, scope.declared)
        self._read = None if scope.reads_whole else frozenset(scope.roots)

    def fast_path(self, made: Made) -> Evaluate:
        """The function for inputs that the engine takes as they are."""
        expected = _PLAIN.get(made.name) if made.is_safe else None
        run, bind, error_type, explained = self._run, self._bind, self._error, self._explained

        def evaluate(value: object) -> object:
            try:
                result = run(data=bind(value))
                plain = result.plain_value()
            except ENGINE_ERRORS as error:
                return explained(value, FailedEvaluation(explain_run(str(error))))
            # The text of an error is a string: any other class that was expected needs no second look.
            if plain.__class__ is expected and (expected is not str or result.type() != error_type):
                return plain
            return explained(value, self._outcome(result, plain))

        return evaluate

    def after_exact(self, evaluate: Evaluate) -> Evaluate:
        """`evaluate`, given inputs in which every number is what its declared type says."""
        exact = self._exact

        def evaluate_exactly(value: object) -> object:
            try:
                exact_value = exact(value)
            except WideIntegerError as error:
                return FailedEvaluation(str(error), invalid_input=True)
            return evaluate(exact_value)

        return evaluate_exactly

    def _explained(self, value: object, outcome: object) -> object:
        """The outcome, unless it is a failure that an integer outside 64 bits or an inexact number explains."""
        if outcome.__class__ is not FailedEvaluation:
            return outcome
        try:
            exact = self._exact(value)
            read = exact
            if self._read is not None and isinstance(exact, dict):
                # The size of the fields that it reads is bounded, that of the others is not.
                read = {key: part for key, part in exact.items() if key in self._read}
            refuse_wide(read)
        except WideIntegerError as error:
            return FailedEvaluation(str(error), invalid_input=True)
        # Run again only with other numbers: the same would fail again, at the same cost.
        if exact is value:
            return outcome
        try:
            result = self._run(data=self._bind(exact))
            return self._outcome(result, result.plain_value())
        except ENGINE_ERRORS as error:
            return FailedEvaluation(explain_run(str(error)))

    def _outcome(self, result: EngineValue, plain: object) -> object:
        """The result of a run as JSON values, or a failure."""
        if isinstance(plain, str) and result.type() == self._error:
            return FailedEvaluation(explain_run(plain))
        try:
            return tidy(plain, self._output, self._declared)
        except RecursionError:
            return FailedEvaluation("the result is nested too deep")
        except NotJsonError as error:
            return FailedEvaluation(str(error))
