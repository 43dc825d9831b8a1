"""Inline tools as functions of a checked input."""

from collections.abc import Callable
from typing import Final

from tooldispatchd.catalog.expressions.door import Expression
from tooldispatchd.catalog.specs import ToolSpec

Transform = Callable[[object], object]


def _id(value: object) -> object:
    return value


def _copy(value: object) -> object:
    return [value, value]


def _discard(_value: object) -> object:
    return None


_TRANSFORMS: Final[dict[str, Transform]] = {"id": _id, "copy": _copy, "discard": _discard}


def compile_transform(spec: ToolSpec, expression: Expression | None) -> Transform:
    """The function of an `inline` or `map` tool; it gives the result, or `Failed` where an expression gave none."""
    if expression is not None:
        return expression.evaluate
    assert spec.inline is not None
    return _TRANSFORMS[spec.inline]
