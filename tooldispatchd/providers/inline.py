"""Inline tools: a function from the checked input to the result, run in the dispatch thread."""

from collections.abc import Callable
from typing import Final

from tooldispatchd.calls.violations import fault_at, fault_of
from tooldispatchd.catalog.expressions.door import Expression, FailedEvaluation
from tooldispatchd.catalog.morphisms import Broken, Morphism, StageError, run_now
from tooldispatchd.catalog.tools import DeclaredTool, Transform, compile_transform
from tooldispatchd.catalog.violations import Violation
from tooldispatchd.wire.faults import Code, Fault

# As much of a stage's words as a model should read.
MAX_DETAIL: Final = 2_000


def compile_inline(tool: DeclaredTool) -> Transform:
    """The function of a tool that asks for nothing; it returns the result, or a `Fault` where there is none."""
    if tool.program is not None:
        return _compile_program(tool.program)
    if tool.expression is not None:
        return _compile_map(tool.expression)
    return compile_transform(tool.spec, None)


def _compile_map(expression: Expression) -> Transform:
    evaluate = expression.evaluate

    def run(value: object) -> object:
        result = evaluate(value)
        return fault_of_failed(result) if type(result) is FailedEvaluation else result

    return run


def _compile_program(program: Morphism) -> Transform:
    apply: Callable[..., object] = program.apply

    def run(value: object) -> object:
        try:
            return run_now(apply(value))  # type: ignore[arg-type]  # a run, as a program's always is
        except StageError as error:
            return fault_of_stage(error)

    return run


def fault_of_failed(failed: FailedEvaluation) -> Fault:
    """The fault of an expression that gave no value."""
    if failed.invalid_input:
        return fault_at(Code.INVALID_INPUT, [Violation("", failed.why)])
    if failed.limit is None:
        return Fault(Code.TOOL_FAILED, failed.why)
    # What would pass its bound is not run.
    return Fault(Code.TOOL_FAILED, failed.why, {"limit": failed.limit}).ran(may_have=False)


def fault_of_stage(error: StageError) -> Fault:
    """The fault of a stage that failed: the `process`, its `position` in the chain (from 1), and why.

    Whether the stage was begun says nothing of the tool: others ran before it.
    """
    where: dict[str, object] = {"process": error.stage}
    if error.position is not None:
        where["position"] = error.position
    cause = error.cause
    if isinstance(cause, Fault):
        # The input of a stage is not the agent's.
        code = Code.INVALID_OUTPUT if cause.code is Code.INVALID_INPUT else cause.code
        extras = {key: value for key, value in cause.extras.items() if key != "ran"}
        return Fault(code, f"{error.stage}: {cause.detail}", {**extras, **where})
    if isinstance(cause, FailedEvaluation):
        fault = fault_of_failed(cause)
        if error.position is None:
            return fault
        # The input of a stage is no fault of the agent's.
        extras = {key: value for key, value in fault.extras.items() if key not in {"violations", "ran"}}
        return Fault(Code.TOOL_FAILED, f"{error.stage}: {fault.detail}", {**extras, **where})
    if isinstance(cause, Broken):
        fault = fault_of(Code.INVALID_OUTPUT, cause.check, cause.value)
        what = "does not take what it was given" if cause.is_input else "gave what is not of its type"
        return Fault(fault.code, f"{error.stage} {what}: {fault.detail}", {**fault.extras, **where})
    return Fault(Code.TOOL_FAILED, f"{error.stage}: {str(cause)[:MAX_DETAIL]}", where)
