"""Expressions as the rest of the package sees them: compiled here, and evaluated by what that gives.

Nothing else of this folder is imported until there is an expression: most daemons have none.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from tooldispatchd.catalog.meanings import Declared
from tooldispatchd.catalog.types import Field, Primitive, Record, Type

INPUT: Final = "input"
# Names that CEL keeps for its types; a field of such a name is reached as `input.int` only.
TYPE_NAMES: Final = frozenset(
    {"bool", "bytes", "double", "dyn", "int", "list", "map", "null_type", "string", "type", "uint"}
)


class FailedEvaluation(msgspec.Struct, frozen=True):
    """An evaluation that gave no value, and why, in words for a model.

    `invalid_input` where the input is to blame: an integer outside 64 bits, a null character or a lone surrogate in a
    text, which the engine cannot hold. `limit` names the bound that was met: `expression`, or None.
    """

    why: str
    invalid_input: bool = False
    limit: str | None = None


Evaluate = Callable[[object], object]


class Expression(msgspec.Struct, frozen=True):
    """A compiled expression. `evaluate(value)` maps a checked input to plain JSON values or a `FailedEvaluation`.

    `output` is the type of its results: the one it was compiled for, else what the expression says itself. A rule
    `reads` these fields of a call's input, or (None) all of it.
    """

    source: str
    output: Type
    evaluate: Evaluate
    reads: frozenset[str] | None = None


class ExpressionError(ValueError):
    """An expression that cannot be used; `line` and `column` are 1-based and count within the expression."""

    def __init__(self, why: str, line: int = 1, column: int = 1) -> None:
        where = f"column {column}" if line == 1 else f"line {line}, column {column}"
        super().__init__(f"{where}: {why}")
        self.why = why
        self.line = line
        self.column = column


def compile_expression(
    source: str, *, input_type: Type, output_type: Type | None = None, declared: Declared
) -> Expression:
    """The expression of a `map`; without `output_type` its own type is the output.

    Raises `ExpressionError`, with the place in the source; the types' names must have been checked.
    """
    from tooldispatchd.catalog.expressions import compiler  # noqa: PLC0415

    return compiler.compile_map(source, input_type, output_type, declared)


def compile_rule(source: str, *, input_type: Type) -> Expression:
    """A rule: it makes a bool of a record `call` with the fields `input`, `tool`, `profile` and `agent`.

    Raises `ExpressionError`.
    """
    from tooldispatchd.catalog.expressions import compiler  # noqa: PLC0415

    texts = (Field(name, Primitive("string"), optional=False) for name in ("tool", "profile", "agent"))
    record = Record((Field(INPUT, input_type, optional=False), *texts))
    return compiler.compile_filter(source, record, {}, "call")


def compile_predicate(source: str, *, input_type: Type, declared: Declared) -> Expression:
    """The expression of a `filter`: it makes a bool, or `FailedEvaluation`. Raises `ExpressionError`."""
    from tooldispatchd.catalog.expressions import compiler  # noqa: PLC0415

    return compiler.compile_filter(source, input_type, declared)
