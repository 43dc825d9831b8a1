"""Inline tools: a function from the checked input to the result, run in the dispatch thread."""

from collections.abc import Callable
from typing import Final

from tooldispatchd.catalog.expressions import Expression, Failed
from tooldispatchd.catalog.tools import DeclaredTool
from tooldispatchd.wire.faults import Code, Fault

Transform = Callable[[object], object]


def _id(value: object) -> object:
    return value


def _copy(value: object) -> object:
    return [value, value]


def _discard(_value: object) -> object:
    return None


_TRANSFORMS: Final[dict[str, Transform]] = {"id": _id, "copy": _copy, "discard": _discard}


def compile_inline(tool: DeclaredTool) -> Transform:
    """The function of an `inline` or `map` tool; it returns the result, or a `Fault` where an expression failed."""
    if tool.expression is not None:
        return _compile_map(tool.expression)
    assert tool.spec.inline is not None
    return _TRANSFORMS[tool.spec.inline]


def _compile_map(expression: Expression) -> Transform:
    evaluate = expression.evaluate

    def run(value: object) -> object:
        result = evaluate(value)
        if type(result) is Failed:
            if result.invalid_input:
                return Fault(Code.INVALID_INPUT, result.why, {"violations": [{"path": "", "message": result.why}]})
            return Fault(Code.TOOL_FAILED, result.why)
        return result

    return run
