"""One expression, from its source to the function that evaluates it.

The fields of a record are variables, `input` is the whole. Where the input is no record, one free name stands for it.
The engine gives run-time errors as values whose plain value is their text, so a result that is a string is never taken
without a look at its type. It silently cuts a text at a null character, so an input that has one is refused.
"""

from typing import Final

from tooldispatchd.catalog.expressions.bounds import Look, bounds_of, check_rules
from tooldispatchd.catalog.expressions.door import Evaluate, Expression, ExpressionError, FailedEvaluation
from tooldispatchd.catalog.expressions.literals import patterns_in, zones_in
from tooldispatchd.catalog.expressions.made import fits, result_of, show_made
from tooldispatchd.catalog.expressions.scope import CompiledExpression, EngineValue, Scope
from tooldispatchd.catalog.expressions.source import explain_run, position_in
from tooldispatchd.catalog.expressions.tree import Made, Node, NodeError, Tree, read_tree
from tooldispatchd.catalog.expressions.values import NotJsonError, WideIntegerError, exactly, refuse_wide, tidy
from tooldispatchd.catalog.meanings import Declared
from tooldispatchd.catalog.relations import MADE
from tooldispatchd.catalog.types import Primitive, Type, show

# An expression is a few lines at most; more is the work of a program.
MAX_SOURCE: Final = 8 * 1024
_PLAIN: Final[dict[str, type]] = {
    "INT": int, "UINT": int, "DOUBLE": float, "BOOL": bool, "NULL": type(None), "LIST": list, "STRING": str
}  # fmt: skip
# What the engine raises beside its error values: a spent budget, text that is no UTF-8, a number out of range.
ENGINE_ERRORS: Final = (RuntimeError, ValueError, OverflowError)


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
    return Expression(source, output, _compile_to_run(source, scope, made, output))


def compile_filter(source: str, input_type: Type, declared: Declared) -> Expression:
    """See `door.compile_predicate`."""
    scope, tree = _check(source, input_type, declared)
    made, output = tree.type_of(tree.root), Primitive("bool")
    if made.name not in {"BOOL", "DYN"}:
        why = f"the expression makes {show_made(made)}, but a filter asks for a bool"
        raise _error_at(tree.root, tree, source, why)
    evaluate = _compile_to_run(source, scope, made, output)
    if made.name == "BOOL":
        return Expression(source, output, evaluate)

    def evaluate_bool(value: object) -> object:
        result = evaluate(value)
        is_right = isinstance(result, bool | FailedEvaluation)
        return result if is_right else FailedEvaluation("the expression made no bool of this input")

    return Expression(source, output, evaluate_bool)


def _check(source: str, input_type: Type, declared: Declared) -> tuple[Scope, Tree]:
    """Check the names and types of a source. Raises `ExpressionError`."""
    if len(source) > MAX_SOURCE:
        raise ExpressionError(f"an expression has at most {MAX_SOURCE} characters")
    if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in source):
        raise ExpressionError("an expression is text without null characters and lone surrogates")
    if not source.strip():
        raise ExpressionError("an expression is expected")
    scope = Scope(source, input_type, declared)
    tree = scope.check_types()
    made = tree.type_of(tree.root)
    if not made.is_json:
        raise _error_at(tree.root, tree, source, f"the expression makes {show_made(made)}, which JSON cannot say")
    return scope, tree


def _compile_to_run(source: str, scope: Scope, made: Made, output: Type) -> Evaluate:
    """The function that evaluates a checked source. Raises `ExpressionError` where it breaks a rule (see `bounds`)."""
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
    return evaluate if look is None else _guarded(evaluate, look)


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
