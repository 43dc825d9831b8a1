"""The faults of Python tools: each way in which a call fails has its own sentence. Pure."""

import re
from functools import partial
from typing import Final

import msgspec

from tooldispatchd.calls.outcome import NOTHING_LEFT, LeftBeside, Unread, UnreadableError
from tooldispatchd.calls.violations import fault_at
from tooldispatchd.catalog.outputs import Output
from tooldispatchd.catalog.schemas import ACCEPT, is_light
from tooldispatchd.catalog.violations import Violation
from tooldispatchd.children.endings import ended, passed_limit, tool_failed
from tooldispatchd.children.procstat import ProcessorTime
from tooldispatchd.children.spawn import Exit
from tooldispatchd.children.tail import STDERR_TAIL_BYTES
from tooldispatchd.providers.python.tool import PythonTool, ReturnedValue
from tooldispatchd.wire.faults import Code, Fault

# How long a sentence may be that repeats what an exception said.
MAX_DETAIL_CHARS: Final = 2_000

# The exception's class, and the steps of a place as msgspec writes it: `$.a[0]`.
_CLASS: Final = re.compile(r"^(?:\w+\.)*\w*Error: ")
_STEP: Final = re.compile(r"\.([^.\[`]+)|\[(\d+)\]")


class ChildError(msgspec.Struct, frozen=True):
    """An ERROR frame, as `forked.python.calling.failure` writes it."""

    kind: str
    message: str
    trace: str
    limit: str | None
    field: str | None = None


class Remains(msgspec.Struct, frozen=True):
    """How a child ended, the end of its stderr, and its processor time."""

    exited: Exit
    stderr: str = ""
    cpu: ProcessorTime | None = None


class Ending(msgspec.Struct, frozen=True):
    """How a call ended, as its socket tells it; nothing is set where the child was gone before it wrote anything."""

    value: bytes | bytearray | None = None
    error: ChildError | None = None
    nonsense: str | None = None
    """Why what was read is no answer."""
    is_cut: bool = False
    """Whether the child was gone in the midst of a frame."""
    is_over: bool = False
    """Whether the answer was longer than it may be."""
    is_unread: bool = False
    """Whether the child was gone before it had read the whole call, or says that it has not begun it: then the function
    was not called."""
    left: LeftBeside = NOTHING_LEFT
    """What the function left beside its value."""
    is_leaving: bool = False
    """Whether the worker ends by itself after this call."""

    @property
    def is_answer(self) -> bool:
        return self.value is not None or self.error is not None


def judge(tool: PythonTool, ending: Ending, remains: Remains) -> ReturnedValue | Unread | Fault:
    """The value, or why there is none; `remains` tell where the child wrote no answer."""
    exited, stderr = remains.exited, remains.stderr
    if ending.value is not None:
        if tool.gives_parts or not is_light(ending.value, ACCEPT):
            fault = partial(_no_value, tool)
            return Unread(
                ending.value, Output.JSON, tool.max_output_bytes, fault, stderr, ending.left, is_parts=tool.gives_parts
            )
        try:
            return ReturnedValue(msgspec.json.decode(ending.value), stderr, ending.left)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            why = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
            return _no_value(tool, UnreadableError(why))
    if ending.error is not None:
        return _raised(tool, ending.error, stderr)
    name = tool.function
    if ending.is_over:
        why = f"'{name}' returned more than {tool.max_output_bytes} bytes of JSON"
        return tool_failed(why, stderr, limit="output_bytes")
    if ending.nonsense is not None:
        return tool_failed(f"what came of '{name}' is no answer: {ending.nonsense}", stderr)
    limit = passed_limit(tool.limits, exited, stderr, cpu=remains.cpu)
    where = "in the midst of its answer" if ending.is_cut else "instead of returning"
    by_itself = f"ended with exit code {{}} {where}"
    return ended(name, exited, stderr, limits=tool.limits, limit=limit, by_itself=by_itself)


def not_started(tool: PythonTool, why: str) -> Fault:
    """No child could be had for the call."""
    return tool_failed(f"cannot run '{tool.function}': {why}", "")


def _no_value(tool: PythonTool, error: UnreadableError) -> Fault:
    return tool_failed(f"what '{tool.function}' returned cannot be read: {error}", "")


def _raised(tool: PythonTool, error: ChildError, stderr: str) -> Fault:
    name, message = tool.function, error.message[:MAX_DETAIL_CHARS]
    if error.kind == "input":
        return _broken(Code.INVALID_INPUT, message)
    if error.kind == "output":
        return _broken(Code.INVALID_OUTPUT, message)
    if error.kind == "invalid":
        # What the function itself says against its input.
        return fault_at(Code.INVALID_INPUT, [Violation(f"/{error.field}", message)])
    if error.kind == "failed":
        return tool_failed(message, stderr)
    if error.kind in {"details", "state"}:
        limit = {} if error.limit is None else {"limit": error.kind}
        return tool_failed(f"the {error.kind} that '{name}' leaves cannot be kept: {message}", stderr, **limit)
    # Printed lines come first, as they did in time; the traceback is whole wherever it can be.
    room = max(0, STDERR_TAIL_BYTES - len(error.trace))
    said = (stderr[-room:] if room else "") + error.trace
    if error.kind == "import":
        return tool_failed(f"cannot load '{name}': {message}", said)
    if error.kind == "confine":
        # Its traceback is of our own code, and tells a model nothing.
        return tool_failed(f"cannot confine '{name}': {message}", stderr)
    if error.limit is not None and tool.limits.has(error.limit):
        why = f"'{name}' passed {tool.limits.words(error.limit)}: {message}"
        return tool_failed(why, said, exception=message, limit=error.limit)
    return tool_failed(f"'{name}' raised {message}", said, exception=message)


def _broken(code: Code, message: str) -> Fault:
    """A value that the function's own types refuse; `message` is an exception's, with msgspec's way to say where."""
    said = _CLASS.sub("", message, count=1)
    why, _, place = said.rpartition(" - at `$")
    if not why:
        why, place = said, ""
    path = "".join(f"/{key or index}" for key, index in _STEP.findall(place))
    return fault_at(code, [Violation(path, why)])
