"""Expressions of `map` tools: CEL, compiled and type-checked once, evaluated often.

The fields of a record are variables, `input` is the whole. Where the input is no record, one free name stands for it.
The engine gives run-time errors as values whose plain value is their text: a result that is a string is never taken
without a look at its type. It ends an input's texts at a null character without a word, so such an input is refused.
"""

from collections.abc import Callable
from typing import Final

from tooldispatchd.catalog.celcost import (
    BUDGET_NS,
    EXACT_NS,
    TIDY_NS,
    VALUE_OUT_NS,
    Prices,
    UnknownCostError,
    patterns_in,
)
from tooldispatchd.catalog.celguard import FailedEvaluation, Look
from tooldispatchd.catalog.celresults import doubled_key, result_of
from tooldispatchd.catalog.celscope import INPUT, TYPE_NAMES, Scope
from tooldispatchd.catalog.celsizes import UnfitTextError
from tooldispatchd.catalog.celsource import ExpressionError, explain_run, position_in
from tooldispatchd.catalog.celtree import Tree, read_tree
from tooldispatchd.catalog.celtypes import Made, fits, show_made
from tooldispatchd.catalog.celvalues import (
    NotJsonError,
    WideIntegerError,
    exactly,
    refuse_surrogates,
    refuse_wide,
    tidy,
)
from tooldispatchd.catalog.celzones import zones_in
from tooldispatchd.catalog.meanings import Declared
from tooldispatchd.catalog.relations import MADE
from tooldispatchd.catalog.types import Primitive, Type, show

__all__ = [
    "INPUT",
    "TYPE_NAMES",
    "Expression",
    "ExpressionError",
    "FailedEvaluation",
    "compile_expression",
    "compile_predicate",
]

# An expression is a line or a few; what is longer is a program, and belongs into one.
MAX_SOURCE: Final = 8 * 1024
_PLAIN: Final[dict[str, type]] = {
    "INT": int, "UINT": int, "DOUBLE": float, "BOOL": bool, "NULL": type(None), "LIST": list, "STRING": str
}  # fmt: skip
# What the engine raises beside its error values: a spent budget, text that is no UTF-8, a number out of range.
ENGINE_ERRORS: Final = (RuntimeError, ValueError, OverflowError)

Evaluate = Callable[[object], object]


class Expression:
    """A compiled expression. `evaluate(value)` maps a checked input to plain JSON values or a `FailedEvaluation`.

    `output` is the type of its results: the one it was compiled for, else what the expression says itself.
    """

    __slots__ = ("_bind", "_declared", "_error", "_exact", "_read", "_run", "evaluate", "output", "source")

    def __init__(self, source: str, scope: Scope, made: Made, output: Type) -> None:
        self.source = source
        self.output = output
        compiled = scope.compile_to_run(source)
        look = _look_of(source, compiled.serialize(), scope, Prices() if made.is_safe else _TIDIED)
        self._run = compiled.eval
        self._bind = scope.binder()
        self._error: object = scope.error_type
        self._declared = scope.declared
        self._exact = exactly(scope.input, scope.declared)
        self._read = None if not scope.is_record or INPUT in scope.roots else frozenset(scope.roots)
        evaluate: Evaluate = self._evaluate_exactly if scope.needs_exact else self._fast_path(made)
        self.evaluate: Evaluate = evaluate if look is None else _guarded(evaluate, look)

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
        return self._explain(value, outcome) if outcome.__class__ is FailedEvaluation else outcome

    def _evaluate_exactly(self, value: object) -> object:
        """Numbers are made what the declared type says first, and a failure is looked into."""
        value = self._part_read(value)
        try:
            exact = self._exact(value)
        except RecursionError:
            return _DEEP_INPUT
        except WideIntegerError as error:
            return FailedEvaluation(str(error), invalid_input=True)
        return self._explain(exact, self._attempt(exact))

    def _part_read(self, value: object) -> object:
        """The fields that the expression reads, of which the size is bounded; the others may be of any."""
        if self._read is None or not isinstance(value, dict):
            return value
        return {key: part for key, part in value.items() if key in self._read}

    def _explain(self, value: object, outcome: object) -> object:
        """An outcome again; a failure with the input's own fault, or mended by other numbers, where that was all."""
        if outcome.__class__ is not FailedEvaluation:
            return outcome
        value = self._part_read(value)
        try:
            exact = self._exact(value)
            refuse_wide(exact)
            refuse_surrogates(exact)
        except RecursionError:
            return _DEEP_INPUT
        except WideIntegerError as error:
            return FailedEvaluation(str(error), invalid_input=True)
        except UnfitTextError as error:
            return FailedEvaluation(str(error), invalid_input=True)
        # An evaluation is run again only where it is another: what it may cost is bounded.
        return outcome if exact is value else self._attempt(exact)

    def _attempt(self, value: object) -> object:
        try:
            result = self._run(data=self._bind(value))
            plain = result.plain_value()
            if isinstance(plain, str) and result.type() == self._error:
                return FailedEvaluation(explain_run(plain))
            return tidy(plain, self.output, self._declared)
        except RecursionError:
            return FailedEvaluation("the result is nested too deep")
        except NotJsonError as error:
            return FailedEvaluation(str(error))
        except ENGINE_ERRORS as error:
            return FailedEvaluation(explain_run(str(error)))


_DEEP_INPUT: Final = FailedEvaluation("the input is nested too deep")
# `tidy` looks at each value of a result once more.
_TIDIED: Final = Prices(value_out=VALUE_OUT_NS + TIDY_NS)


def _guarded(evaluate: Evaluate, look: Look) -> Evaluate:
    """The same with a look at the input first."""

    def guarded(value: object) -> object:
        refused = look(value)
        return evaluate(value) if refused is None else refused

    return guarded


def compile_expression(
    source: str, *, input_type: Type, output_type: Type | None = None, declared: Declared
) -> Expression:
    """The expression for one tool; without `output_type` its own type is the output.

    Raises `ExpressionError`, with the place in the source; the types' names must have been checked.
    """
    scope, made, tree = _check(source, input_type, declared)
    output = result_of(tree) if output_type is None else output_type
    if not fits(made, output, declared):
        hint = ""
        if made.name == "DOUBLE" and fits(Made("INT"), output, declared):
            hint = "; int(x) makes an int of it"
        why = f"the expression makes {show_made(made)}, but the tool's output is {show(output)}{hint}"
        raise ExpressionError(why, *position_in(source, tree.begin_of(tree.root)))
    missed = None if output_type is None else MADE.difference(result_of(tree), output, declared)
    if missed is not None:
        why = f"the expression makes what the tool's output {show(output)} is not: {missed}"
        raise ExpressionError(why, *position_in(source, tree.begin_of(tree.root)))
    return Expression(source, scope, made, output)


def compile_predicate(source: str, *, input_type: Type, declared: Declared) -> Expression:
    """The expression of a `filter`: it makes a bool, or `FailedEvaluation`. Raises `ExpressionError`."""
    scope, made, tree = _check(source, input_type, declared)
    if made.name not in {"BOOL", "DYN"}:
        why = f"the expression makes {show_made(made)}, but a filter asks for a bool"
        raise ExpressionError(why, *position_in(source, tree.begin_of(tree.root)))
    expression = Expression(source, scope, made, Primitive("bool"))
    if made.name == "DYN":
        expression.evaluate = _bools_alone(expression.evaluate)
    return expression


def _bools_alone(evaluate: Evaluate) -> Evaluate:
    def evaluate_bool(value: object) -> object:
        result = evaluate(value)
        return (
            result
            if isinstance(result, bool | FailedEvaluation)
            else FailedEvaluation("the expression made no bool of this input")
        )

    return evaluate_bool


def _check(source: str, input_type: Type, declared: Declared) -> tuple[Scope, Made, Tree]:
    """What a source makes of its input. Raises `ExpressionError`."""
    if len(source) > MAX_SOURCE:
        raise ExpressionError(f"an expression has at most {MAX_SOURCE} characters")
    if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in source):
        raise ExpressionError("an expression is text without null characters and lone surrogates")
    if not source.strip():
        raise ExpressionError("an expression is expected")
    scope = Scope(source, input_type, declared)
    made, tree = scope.check_types(source)
    if not made.is_json:
        why = f"the expression makes {show_made(made)}, which JSON cannot say"
        raise ExpressionError(why, *position_in(source, tree.begin_of(tree.root)))
    twice = doubled_key(tree.root)
    if twice:
        node, name = twice
        raise ExpressionError(f'a record has "{name[:80]}" twice', *position_in(source, tree.begin_of(node)))
    return scope, made, tree


def _look_of(source: str, serialized: bytes, scope: Scope, prices: Prices) -> Look | None:
    """What bounds the expression's evaluations. Raises `ExpressionError` where nothing does."""
    tree = read_tree(serialized)
    if scope.needs_exact:
        prices = Prices(prices.value_in + EXACT_NS, prices.value_out)
    try:
        for node, pattern in patterns_in(tree.root):
            if (why := scope.refuse_pattern(pattern)) is not None:
                raise ExpressionError(why, *position_in(source, tree.begin_of(node.parts[-1])))
        for node, zone in zones_in(tree.root):
            if (why := scope.refuse_zone(zone)) is not None:
                raise ExpressionError(why, *position_in(source, tree.begin_of(node)))
        guard = scope.guard(tree.root, prices)
        least = guard.least_ns()
    except UnknownCostError as error:
        raise ExpressionError(str(error), *position_in(source, tree.begin_of(error.node))) from None
    if least > BUDGET_NS:
        why = "the expression would do too much work, whatever the input"
        raise ExpressionError(why, *position_in(source, tree.begin_of(tree.root)))
    return scope.look(guard)
